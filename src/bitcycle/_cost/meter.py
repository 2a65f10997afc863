"""A meter that adds up the true cost of a training while it runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._cost.cost import Cost
from bitcycle._cost.counting import cost
from bitcycle.conversion.sites import named_sites
from bitcycle.conversion.tracing import CallArguments
from bitcycle.schedules.base import FULL_WIDTH, width_of


class Meter:
    """Adds the BitOps of each training pass, at the bits each site has at that moment.

    Every forward pass in training mode with gradients enabled counts as a forward and a backward pass. Products are
    counted once for each shape of inputs, by an extra pass; after that a pass costs a look-up. If something else than
    shapes changes what is computed (a layer is frozen, say), call :meth:`forget`. Of a compiled model give it what
    ``torch.compile`` returned: inside of the compiled graph there is no place for a meter.

    >>> from bitcycle import quantize, set_bits
    >>> model = quantize(nn.Linear(8, 4, bias=False))
    >>> set_bits(model, forward=4, backward=8)
    >>> with Meter(model) as meter:
    ...     model(torch.zeros(10, 8)).sum().backward()
    >>> meter.bitops == 10 * 8 * 4 * (4 * 4 + 8 * 4)
    True
    """

    def __init__(self, model: nn.Module) -> None:
        self.bitops = 0
        """BitOps so far."""
        self.passes = 0
        """Training passes so far."""
        self.uncounted: set[str] = set()
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._sites = named_sites(self._model)
        self._costs: dict[Any, Cost] = {}
        self._busy = False
        self._handle = model.register_forward_pre_hook(self._before, with_kwargs=True)

    def close(self) -> None:
        """Stop counting for good."""
        self._handle.remove()

    def pause(self) -> None:
        """Do not count until :meth:`resume`."""
        self._busy = True

    def resume(self) -> None:
        """Count again."""
        self._busy = False

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def forget(self) -> None:
        """Count anew from here on what each shape of inputs costs."""
        self._costs.clear()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"bitops": self.bitops, "passes": self.passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.bitops, self.passes = int(state["bitops"]), int(state["passes"])

    def _before(self, model: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if self._busy or not self._model.training or not torch.is_grad_enabled():
            return
        shapes = _shapes((arguments, keywords))
        if shapes not in self._costs:
            self._costs[shapes] = self._count(arguments, keywords)
        self.bitops += self._price(self._costs[shapes])
        self.passes += 1

    def _count(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Cost:
        self._busy = True
        try:
            counted = cost(self._model, CallArguments(arguments, keywords))
        finally:
            self._busy = False
        self.uncounted |= set(counted.uncounted)
        return counted

    def _price(self, counted: Cost) -> int:
        """BitOps of one pass at the bits of the moment, which sites may have each their own."""
        widths = {
            name: (width_of(site.forward_bits), width_of(site.backward_bits)) for name, site in self._sites.items()
        }
        total = 0
        for row in counted.rows:
            total += row.bitops(*widths.get(row.name, (FULL_WIDTH, FULL_WIDTH)))
        return total


def _shapes(nest: Any) -> Any:
    """The shapes of all tensors in a nest of arguments, and the values of everything that is none."""
    if isinstance(nest, Tensor):
        return (tuple(nest.shape), nest.requires_grad)
    if isinstance(nest, dict):
        return tuple((key, _shapes(value)) for key, value in nest.items())
    if isinstance(nest, (tuple, list)):
        return tuple(_shapes(part) for part in nest)
    return nest if isinstance(nest, (int, float, str, bool, type(None))) else id(nest)
