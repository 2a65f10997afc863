"""Conversion: make a model compute on a few bits, set the bits, and give the float model back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import nn

from bitcycle.arithmetic import Site
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.rules import Rules, as_rules, excluded, rule_for_site
from bitcycle.conversion.sites import join_names, sites
from bitcycle.conversion.skip_reasons import why_left
from bitcycle.kernels.rounding import check_width
from bitcycle.nn import load_families
from bitcycle.nn.layer import Conversion, QuantizedLayer, conversion_of, quantized_class
from bitcycle.nn.registry import find, owner_of, target_class
from bitcycle.nn.transformer import KeepsToItsChildren

M = TypeVar("M", bound=nn.Module)

_UNCHANGED: Any = object()
_REASON = "bitcycle_reason"
"""The attribute that tells, on a module that was left alone, why."""


def quantize(
    model: M, recipe: Recipe | None = None, *, keep: Rules = None, where: Rules = None, policy: str | None = None
) -> M:
    """Make a model compute its products on a few bits, in place; it stays in full precision until bits are set.

    ``keep`` and ``where`` are names with wildcards (a container stands for all inside it) or module classes: what stays
    in full precision, and what alone is converted; ``keep`` may also name one site of a layer that has several.
    ``policy`` names a model family of the paper, which keeps its first or last layer. Parameters stay the same objects
    under the same names; :func:`restore` undoes it all.

    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model = quantize(model, keep="2")
    >>> set_bits(model, forward=4, backward=8)
    >>> list(sites(model))
    ['0']
    """
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe is a bc.Recipe, not {recipe!r}")
    _refuse_what_cannot_be_converted(model)
    load_families()
    kept = as_rules(keep)
    reasons = excluded(model, kept, as_rules(where), policy)
    unknown = []
    for name, module in list(model.named_modules()):
        if owner_of(name, model) is not None:
            continue
        reason, suspicious = reasons.get(module, ""), False
        if not reason:
            reason, suspicious = _convert_or_say_why(name, module, recipe, kept)
        if reason:
            vars(module)[_REASON] = reason
        if suspicious:
            unknown.append(f"{name or 'the model itself'} ({_original(module).__name__}: {reason})")
    if unknown:
        warnings.warn(
            "bc.quantize leaves products in full precision that it does not know: " + "; ".join(unknown), stacklevel=2
        )
    return model


def restore(model: M) -> M:
    """The very same float model back: same objects, same classes, same parameters.

    >>> layer = nn.Linear(2, 2)
    >>> type(restore(quantize(layer))) is nn.Linear
    True
    """
    for module in list(model.modules()):
        restore_layer(module)
        vars(module).pop(_REASON, None)
    return model


def set_bits(
    model: nn.Module,
    forward: int | None = _UNCHANGED,
    backward: int | None = _UNCHANGED,
    *,
    evaluate: int | None = _UNCHANGED,
    where: str | Iterable[str] | None = None,
) -> None:
    """Set the bits of all sites, or of those whose names match ``where``, at once; ``None`` is full precision.

    ``forward`` are the bits of weights and activations, ``backward`` those of the errors, ``evaluate`` those in
    evaluation mode (the forward bits unless given). What is not given stays as it is.
    """
    bits = {"forward": forward, "backward": backward, "evaluate": evaluate}
    given = {name: check_width(value, name) for name, value in bits.items() if value is not _UNCHANGED}
    for site in sites(model, where).values():
        site.set(**given)


def reasons_of(model: nn.Module) -> dict[str, str]:
    """Why each module that was left alone was, by name."""
    load_families()
    found = {}
    for name, module in model.named_modules():
        reason = vars(module).get(_REASON)
        if reason is None and conversion_of(module) is None and owner_of(name, model) is None:
            mixin, almost = find(module)
            reason = "not converted" if mixin is not None else why_left(module, almost)[0]
        if reason:
            found[name] = reason
    return found


def convert_layer(module: nn.Module, mixin: type[QuantizedLayer], recipe: Recipe, made: dict[str, Site]) -> None:
    """Put a mixin in front of a layer's class, with its sites by their local names."""
    original = target_class(module)
    vars(module)["bitcycle"] = Conversion(mixin, original, recipe, made)
    if type(module) is original:
        module.__class__ = quantized_class(mixin, original)
        mixin.attach(module)
    else:  # a lazy module takes this class, instead of the plain one, when it learns its shape
        vars(module)["cls_to_become"] = quantized_class(mixin, original)


def restore_layer(module: nn.Module) -> None:
    """Take the mixin away again, if the layer has one."""
    conversion = conversion_of(module)
    if conversion is None:
        return
    made = quantized_class(conversion.mixin, conversion.original)
    if type(module) is made:
        conversion.mixin.detach(module)
        module.__class__ = conversion.original
    elif vars(module).get("cls_to_become") is not made:
        raise ValueError(f"{type(module).__name__} was wrapped or changed after conversion: undo that, then restore")
    vars(module).pop("cls_to_become", None)
    del vars(module)["bitcycle"]


def _convert_or_say_why(name: str, module: nn.Module, recipe: Recipe, keep: tuple[Any, ...]) -> tuple[str, bool]:
    """Convert a module that is a known layer; what of it stays in full precision, and whether that is suspicious."""
    mixin, almost = find(module)
    if mixin is None:
        return why_left(module, almost)
    local_names = mixin.site_names(module, recipe)
    own_products = mixin.unknown_products(module)
    reasons = [mixin.in_full_precision(module, recipe)]
    if own_products:
        reasons.append(f"its code multiplies ({', '.join(own_products)}) beside its sites")
    if local_names or issubclass(mixin, KeepsToItsChildren):
        full_names = {local: join_names(name, local) for local in local_names}
        made = {local: Site(full, recipe, rule_for_site(full, keep)) for local, full in full_names.items()}
        convert_layer(module, mixin, recipe, made)
    return "; ".join(reason for reason in reasons if reason), bool(own_products)


def _original(module: nn.Module) -> type[nn.Module]:
    conversion = conversion_of(module)
    return type(module) if conversion is None else conversion.original


def _refuse_what_cannot_be_converted(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"bc.quantize takes a torch.nn.Module, not {type(model).__name__}")
    for name, module in model.named_modules():
        if conversion_of(module) is not None:
            raise ValueError(f"{name or 'the model'} is quantised already: bc.restore(model) first")
        lineage = {base.__name__ for base in type(module).__mro__}
        wrapped = lineage & {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DataParallel"}
        if wrapped:
            raise ValueError(f"the model is wrapped by {wrapped.pop()}: convert it first, then wrap it")
        if "OptimizedModule" in lineage:
            raise ValueError("the model is compiled: convert it first, then torch.compile it")
        if "ScriptModule" in lineage:
            raise ValueError("a TorchScript module cannot be converted: convert the model it was made from")
