"""A meter that adds up the actual cost of a training run."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitcycle._cost.counting import cost
from bitcycle._cost.model_cost import Cost
from bitcycle.arithmetic.control import EVALUATE_ACTIVATIONS, EVALUATE_WEIGHTS
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.site import Site
from bitcycle.conversion.running import CallArguments
from bitcycle.conversion.sites import named_sites
from bitcycle.schedules.operands import StepBits

MAX_SHAPES = 256
"""How many shapes of inputs a meter remembers; the one that was counted first goes."""


class Meter:
    """Adds up the BitOps of training passes, at the bits that each site has during the pass.

    Every forward pass in training mode with gradients enabled counts as a forward and a backward pass. Products are
    counted once per input shape, by an extra pass; after that, a pass costs a dictionary lookup. Arguments other than
    arrays are part of the shape by their values, because a model may compute something else for each: pass a number
    that changes in every step as a tensor. Inputs that cannot be pickled are counted at every pass. The extra pass runs
    on copies of the inputs, and buffers, attributes of modules and torch's random state are restored after it. What the
    model's code or its forward hooks change elsewhere (objects of other classes that a module holds, inputs that cannot
    be copied, global variables) is changed once more.

    Args:
        model: The model. For a compiled model, the object that ``torch.compile`` returned: a meter counts from outside
            the compiled graph.

    Attributes:
        bitops: BitOps so far.
        baseline: BitOps of the same passes at static bits and full strength. Under a
            :class:`~bitcycle.PrecisionScheduler` these are the bits that the saving of :func:`bitcycle.cost` compares
            with: the largest integer width of both operands; for gradients, ``backward_bits`` if it is fixed, else the
            largest integer width. Without one they are the evaluation bits of each site.
        passes: Training passes so far.
        uncounted: Products that no rule can count; ``bitops`` does not include them.

    Example:
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
        self.baseline = 0
        self.passes = 0
        self.uncounted: set[str] = set()
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._sites = named_sites(self._model)
        self._costs: dict[bytes | None, Cost] = {}
        self._paused = False
        self._handle = model.register_forward_pre_hook(self._before, with_kwargs=True)

    def __repr__(self) -> str:
        return f"Meter(bitops={self.bitops}, passes={self.passes})"

    @property
    def saving(self) -> float:
        """Share of :attr:`baseline` that is saved so far: ``1 - bitops / baseline``; 0 before the first pass."""
        return 1 - self.bitops / self.baseline if self.baseline else 0.0

    def close(self) -> None:
        """Stop counting and remove the hook from the model."""
        self._handle.remove()

    def pause(self) -> None:
        """Stop counting until :meth:`resume`."""
        self._paused = True

    def resume(self) -> None:
        """Count again."""
        self._paused = False

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the totals, for a checkpoint."""
        return {"bitops": self.bitops, "baseline": self.baseline, "passes": self.passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the totals from a checkpoint.

        Args:
            state: What :meth:`state_dict` returned.
        """
        self.bitops, self.baseline, self.passes = (state[name] for name in ("bitops", "baseline", "passes"))

    def _before(self, model: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        is_extra = bool(current_observers())  # a pass of bitcycle itself, such as that of a count
        if is_extra or self._paused or not (self._model.training and torch.is_grad_enabled()):
            return
        shapes = _shapes((arguments, keywords))
        counted = self._costs.get(shapes)
        if counted is None:
            counted = cost(self._model, CallArguments(arguments, keywords))
            self.uncounted |= set(counted.uncounted)
            self._sites = named_sites(self._model)  # counting may have discovered some
            if shapes is not None:
                self._costs[shapes] = counted
            if len(self._costs) > MAX_SHAPES:
                del self._costs[next(iter(self._costs))]
        for row in counted.rows:
            site = self._sites.get(row.name)
            current, baseline = (_FULL, _FULL) if site is None else (_current(site), _baseline(site))
            self.bitops += int(row.price(current.counted()))
            self.baseline += int(row.price(baseline.counted()))
        self.passes += 1


_FULL = StepBits(None, None, None)


def _current(site: Site) -> StepBits:
    return StepBits(site.weight_bits, site.activation_bits, site.backward_bits, site.strength)


def _baseline(site: Site) -> StepBits:
    """Return the static bits of a scheduler, or else the evaluation bits that were set.

    A recipe that evaluates at the current bits does not use the latter.
    """
    if site.baseline is not None:
        weights, activations, backward = (site.settings.grid.width_for(bits) for bits in site.baseline[:3])
        return StepBits(weights, activations, backward)
    weights, activations = (int(site.control[slot]) or None for slot in (EVALUATE_WEIGHTS, EVALUATE_ACTIVATIONS))
    return StepBits(weights, activations, site.backward_bits)


class _Shapes(pickle.Pickler):
    """Pickles arguments with the shapes of arrays in place of their values."""

    def persistent_id(self, part: Any) -> Any:
        """Return what the products of an array depend on; None for everything else, which is pickled."""
        if isinstance(part, np.ndarray):
            return part.shape
        if not isinstance(part, Tensor):
            return None
        return tuple(part.shape), part.requires_grad, None if part.layout is torch.strided else part._nnz()


def _shapes(nest: Any) -> bytes | None:
    """Return the shapes of all arrays in arguments of any kind, and the values of everything else.

    It is None for arguments that cannot be pickled: their identity says nothing about what they hold.
    """
    written = io.BytesIO()
    try:
        _Shapes(written).dump(nest)
    except Exception:  # the code of any class may run here
        return None
    return written.getvalue()
