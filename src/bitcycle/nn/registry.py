"""The registry of quantised layers: which mixin quantises which class."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.layer import QuantizedLayer

LAYERS: dict[type[nn.Module], type[QuantizedLayer]] = {}

Condition = Callable[[type[nn.Module]], bool]
CONDITIONS: list[tuple[Condition, type[QuantizedLayer]]] = []

Q = TypeVar("Q", bound=type[QuantizedLayer])


class Match(NamedTuple):
    """The mixin that quantises a module, or why none does."""

    mixin: type[QuantizedLayer] | None
    skip: Skip | None = None


def register(*layers: type[nn.Module]) -> Callable[[Q], Q]:
    """Register the decorated mixin as the quantised form of one or more layers.

    Subclasses of these layers are included unless they override a method that the mixin replaces or have a name that
    the mixin uses.

    Args:
        layers: One or more :class:`torch.nn.Module` subclasses.

    Returns:
        A decorator for a :class:`QuantizedLayer` subclass.

    Raises:
        TypeError: A layer is not a Module subclass, or the decorated class is not a QuantizedLayer subclass.

    Example:
        See :mod:`bitcycle.nn`.
    """
    if not layers:
        raise TypeError("register needs at least one torch.nn.Module subclass, got none")
    for layer in layers:
        if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
            raise TypeError(f"register takes torch.nn.Module subclasses, got {layer!r}")

    def add(mixin: Q) -> Q:
        _check_mixin(mixin, "register")
        LAYERS.update(dict.fromkeys(layers, mixin))
        return mixin

    return add


def register_where(condition: Condition) -> Callable[[Q], Q]:
    """Register the decorated mixin as the quantised form of every class that satisfies a condition.

    A mixin registered for the class itself takes precedence.

    Args:
        condition: A function that takes a :class:`torch.nn.Module` subclass and returns whether the mixin quantises it.

    Returns:
        A decorator for a :class:`QuantizedLayer` subclass.

    Raises:
        TypeError: The condition is not a function, or the decorated class is not a QuantizedLayer subclass.

    Example::

        @register_where(lambda layer: layer.__name__.endswith("LowRankLinear"))
        class QuantizedLowRankLinear(QuantizedLayer):
            def quantized_forward(self, x): ...
    """
    if isinstance(condition, type) or not callable(condition):
        raise TypeError(f"register_where takes a function of a class, got {condition!r}")

    def add(mixin: Q) -> Q:
        _check_mixin(mixin, "register_where")
        CONDITIONS.append((condition, mixin))
        return mixin

    return add


def find(module: nn.Module) -> Match:
    """Find the mixin for a module. User code may override what the mixin of a base class replaces: it has none."""
    kind = target_class(module)
    for base in kind.__mro__:
        mixin = LAYERS.get(base)
        if mixin is None:
            continue
        is_overridden = any(getattr(kind, name) is not getattr(base, name) for name in mixin.replaces)
        if is_overridden or any(hasattr(module, name) for name in _names(mixin.front or mixin, base)):  # type: ignore[arg-type] # mypy takes no class for hashable
            return Match(None)
        patched = [name for name in mixin.replaces if name in vars(module)]
        return Match(None, Skip(SkipKind.PATCHED_METHOD, tuple(patched))) if patched else Match(mixin)
    return Match(next((mixin for condition, mixin in CONDITIONS if condition(kind)), None))


def owner_of(name: str, model: nn.Module) -> str | None:
    """Return the name of the module that multiplies this module's parameters itself, if there is one."""
    if not name:
        return None
    parent, _, child = name.rpartition(".")
    bases = target_class(model.get_submodule(parent)).__mro__
    return parent if any(child in LAYERS[base].owns for base in bases if base in LAYERS) else None


def target_class(module: nn.Module) -> type[nn.Module]:
    """Return the class of a module, or the class that a lazy module will become."""
    become = getattr(module, "cls_to_become", None)
    return become if become is not None and isinstance(module, LazyModuleMixin) else type(module)


@cache
def _names(mixin: type, base: type[nn.Module]) -> list[str]:
    """Return the names of a mixin that a layer does not have, and that would hide those of a subclass."""
    return sorted({name for name in dir(mixin) if not name.startswith("__")} - {*dir(base)})


def _check_mixin(mixin: object, decorator: str) -> None:
    if not (isinstance(mixin, type) and issubclass(mixin, QuantizedLayer)):
        raise TypeError(f"{decorator} decorates a QuantizedLayer subclass, got {mixin!r}")
