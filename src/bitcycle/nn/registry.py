"""Which layer is quantised how: one decorator registers a layer.

@register(MyLayer)
class QuantizedMyLayer(QuantizedLayer):
    def quantized_forward(self, x):
        return self.multiply("", Linear(), x, self.weight, of_a=Operand(), of_b=Operand((1,)))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from bitcycle.nn.layer import QuantizedLayer

LAYERS: dict[type[nn.Module], type[QuantizedLayer]] = {}

Condition = Callable[[type[nn.Module]], bool]
CONDITIONS: list[tuple[Condition, type[QuantizedLayer]]] = []
LEFT: list[tuple[Condition, str]] = []

Q = TypeVar("Q", bound=type[QuantizedLayer])


def register(*layers: type[nn.Module]) -> Callable[[Q], Q]:
    """Say that a mixin quantises these layers, and subclasses of them that do not compute differently."""

    def add(mixin: Q) -> Q:
        for layer in layers:
            LAYERS[layer] = mixin
        return mixin

    return add


def register_where(condition: Condition) -> Callable[[Q], Q]:
    """Say that a mixin quantises every class that fulfils a condition and is not registered itself."""

    def add(mixin: Q) -> Q:
        CONDITIONS.append((condition, mixin))
        return mixin

    return add


def leave(condition: Condition, reason: str) -> None:
    """Say that classes which fulfil a condition stay in full precision although their code shows a product."""
    LEFT.append((condition, reason))


def find(module: nn.Module) -> tuple[type[QuantizedLayer] | None, str]:
    """The mixin for a module; or none, with the reason if the module's class is only nearly known."""
    kind = target_class(module)
    for base in kind.__mro__:
        mixin = LAYERS.get(base)
        if mixin is None:
            continue
        changed = [name for name in mixin.replaces if getattr(kind, name) is not getattr(base, name)]
        patched = [name for name in mixin.replaces if name in vars(module)]
        if changed:
            return None, f"{kind.__name__} has its own {' and '.join(changed)}, unlike {base.__name__}"
        if patched:
            return None, f"its {' and '.join(patched)} was replaced on the module itself"
        return mixin, ""
    return next((mixin for condition, mixin in CONDITIONS if condition(kind)), None), ""


def owner_of(name: str, model: nn.Module) -> str | None:
    """The name of the module that multiplies this one's parameters by itself, if there is one."""
    if not name:
        return None
    parent, _, child = name.rpartition(".")
    bases = target_class(model.get_submodule(parent)).__mro__
    return parent if any(child in LAYERS[base].owns for base in bases if base in LAYERS) else None


def target_class(module: nn.Module) -> type[nn.Module]:
    """The class of a module, or what a lazy one will become."""
    become = getattr(module, "cls_to_become", None)
    return become if become is not None and _is_lazy(module) else type(module)


def _is_lazy(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.lazy.LazyModuleMixin)
