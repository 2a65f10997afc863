"""Conversion: make a model compute on a few bits, set the bits, and give the float model back."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch import nn

from bitcycle.arithmetic import Site
from bitcycle.nn import load_families
from bitcycle.nn.layer import Conversion, QuantizedLayer, conversion_of, quantized_class
from bitcycle.nn.registry import LEFT, find, target_class
from bitcycle.nn.transformer import KeepsToItsChildren
from bitcycle.quantizers import check_width
from bitcycle.recipe import Recipe
from bitcycle.schedules.names import nearest
from bitcycle.visible_products import visible_products

M = TypeVar("M", bound=nn.Module)
Rule = str | type[nn.Module]
Rules = Rule | Iterable[Rule] | None

POLICIES: dict[str, tuple[str, ...]] = {
    "cifar-resnet": ("last",),
    "imagenet-resnet": ("first", "last"),
    "retinanet": (),
    "gnn": (),
    "lstm": (),
    "bert": (),
}
"""What the paper keeps in full precision in each of its model families: the first layer, the last, or neither."""

_UNCHANGED: Any = object()
_REASONS = "bitcycle_reasons"


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
    >>> [site.name for site in sites(model)]
    ['0']
    """
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe is a bc.Recipe, not {recipe!r}")
    _refuse_wrapped(model)
    load_families()
    kept = _as_tuple(keep)
    reasons = _decide(model, kept, _as_tuple(where), policy)
    unknown = []
    for name, module in model.named_modules():
        if name in reasons:
            continue
        mixin, almost = find(module)
        if mixin is not None:
            reason = mixin.in_full_precision(module, recipe)
            names = mixin.site_names(module, recipe)
            if names or issubclass(mixin, KeepsToItsChildren):
                made = {local: _site(join_names(name, local), recipe, kept) for local in names}
                convert_layer(module, mixin, recipe, made)
            if reason:
                reasons[name] = reason
        else:
            reason, suspicious = _why_left(module, almost)
            reasons[name] = reason
            if suspicious:
                unknown.append(f"{name or 'the model itself'} ({type(module).__name__}: {reason})")
    setattr(model, _REASONS, {name: reason for name, reason in reasons.items() if reason})
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
    vars(model).pop(_REASONS, None)
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
    for site in sites(model, where):
        site.set(**given)


def sites(model: nn.Module, where: str | Iterable[str] | None = None) -> list[Site]:
    """The sites whose bits can be set, or those of them whose names match one of the patterns."""
    every = [site for site in all_sites(model) if not site.kept]
    if not every:
        raise ValueError("the model has no quantised layer: convert it first with bc.quantize(model)")
    if where is None:
        return every
    patterns = (where,) if isinstance(where, str) else tuple(where)
    for pattern in patterns:
        if not any(_matches(site.name, pattern) for site in every):
            known = [site.name for site in every]
            raise ValueError(f"no site matches {pattern!r}; {nearest(pattern, known, f'the first is {known[0]!r}')}")
    return [site for site in every if any(_matches(site.name, pattern) for pattern in patterns)]


def reasons_of(model: nn.Module) -> dict[str, str]:
    """Why each module that was left alone was, by name."""
    stored = vars(model).get(_REASONS)
    if stored is not None:
        return dict(stored)
    load_families()
    found = {}
    for name, module in model.named_modules():
        if conversion_of(module) is None:
            mixin, almost = find(module)
            found[name] = "not converted" if mixin is not None else _why_left(module, almost)[0]
    return {name: reason for name, reason in found.items() if reason}


def all_sites(model: nn.Module) -> Iterator[Site]:
    """Every site, those included that a rule keeps in full precision."""
    for module in model.modules():
        conversion = conversion_of(module)
        if conversion is not None:
            yield from conversion.sites.values()


def _site(name: str, recipe: Recipe, keep: tuple[Rule, ...]) -> Site:
    rule = next((rule for rule in keep if isinstance(rule, str) and _matches(name, rule)), None)
    return Site(name, recipe, kept="" if rule is None else f"kept by rule {rule!r}")


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


def _decide(model: nn.Module, keep: tuple[Rule, ...], where: tuple[Rule, ...], policy: str | None) -> dict[str, str]:
    """The modules that rules leave alone, with the reason."""
    reasons: dict[str, str] = {}
    unmatched = {*keep, *where} - _rules_for_sites(model, keep)
    for name, module in model.named_modules():
        if conversion_of(module) is not None:
            raise ValueError(f"{name or 'the model'} is quantised already: bc.restore(model) first")
        kept = [rule for rule in keep if _rule_matches(rule, name, module, model)]
        chosen = [rule for rule in where if _rule_matches(rule, name, module, model)]
        unmatched -= {*kept, *chosen}
        owner = owner_of(name, model)
        if owner is not None:
            reasons[name] = reasons.get(owner, "")
            continue
        if find(module)[0] is None:
            continue
        if kept:
            reasons[name] = f"kept by rule {_show(kept[0])}"
        elif where and not chosen:
            reasons[name] = f"outside of where={', '.join(map(_show, where))}"
    if policy is not None:
        reasons.update(_policy_reasons(model, policy, reasons))
    if unmatched:
        names = [name for name, _ in model.named_modules() if name]
        hints = (f"{_show(rule)} ({nearest(str(rule), names, 'no name is near')})" for rule in unmatched)
        warnings.warn(f"bc.quantize: rules that matched nothing: {', '.join(sorted(hints))}", stacklevel=3)
    return reasons


def _rules_for_sites(model: nn.Module, keep: tuple[Rule, ...]) -> set[Rule]:
    """The rules that name a site inside of a layer."""
    found: set[Rule] = set()
    recipe = Recipe(embeddings=True, aggregation="quantized")
    for name, module in model.named_modules():
        mixin, _ = find(module)
        for local in mixin.site_names(module, recipe) if mixin is not None else []:
            found |= {rule for rule in keep if isinstance(rule, str) and _matches(join_names(name, local), rule)}
    return found


def _policy_reasons(model: nn.Module, policy: str, reasons: dict[str, str]) -> dict[str, str]:
    if policy not in POLICIES:
        raise ValueError(f"unknown policy {policy!r}; {nearest(policy, POLICIES)}")
    recipe = Recipe()
    layers = []
    for name, module in model.named_modules():
        mixin, _ = find(module)
        if name not in reasons and mixin is not None and mixin.site_names(module, recipe):
            layers.append(name)
    ends = {"first": layers[:1], "last": layers[-1:]}
    return {name: f"the {end} layer, kept by policy {policy!r}" for end in POLICIES[policy] for name in ends[end]}


def owner_of(name: str, model: nn.Module) -> str | None:
    """The name of the module that multiplies this one's parameters by itself, if there is one."""
    parent_name, _, child = name.rpartition(".")
    if not name:
        return None
    mixin, _ = find(model.get_submodule(parent_name))
    return parent_name if mixin is not None and child in mixin.owns else None


def _why_left(module: nn.Module, almost: str) -> tuple[str, bool]:
    """Why a module without a registered layer is left alone, and whether it multiplies all the same."""
    kind = type(module)
    if almost:
        return f"{almost}: not converted", True
    if kind.__module__.startswith("torch.nn.modules"):
        if "Norm" in kind.__name__:
            return "normalisation stays in full precision", False
        is_container = next(module.children(), None) is not None or isinstance(module, (nn.ModuleList, nn.ModuleDict))
        return ("" if is_container else "no product"), False
    for condition, reason in LEFT:
        if condition(kind):
            return reason, False
    seen = visible_products(kind)
    if seen:
        return f"its code multiplies ({', '.join(seen)}) and no layer is registered for it", True
    matrices = [name for name, p in module.named_parameters(recurse=False) if sum(size > 1 for size in p.shape) > 1]
    if matrices:
        return f"owns {', '.join(matrices)}, and no product shows in its code", False
    return ("" if next(module.children(), None) is not None else "no product"), False


def _refuse_wrapped(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"bc.quantize takes a torch.nn.Module, not {type(model).__name__}")
    for module in model.modules():
        lineage = {base.__name__ for base in type(module).__mro__}
        wrapped = lineage & {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DataParallel"}
        if wrapped:
            raise ValueError(f"the model is wrapped by {wrapped.pop()}: convert it first, then wrap it")
        if "OptimizedModule" in lineage:
            raise ValueError("the model is compiled: convert it first, then torch.compile it")
        if "ScriptModule" in lineage:
            raise ValueError("a TorchScript module cannot be converted: convert the model it was made from")


def _rule_matches(rule: Rule, name: str, module: nn.Module, model: nn.Module) -> bool:
    """Whether a rule means this module or something it is inside of."""
    if isinstance(rule, type):
        ancestors = [name[:end] for end, character in enumerate(name) if character == "."]
        return isinstance(module, rule) or any(isinstance(model.get_submodule(a), rule) for a in ancestors)
    return _matches(name, rule)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a name, or the name of something that contains it."""
    ends = [end for end, character in enumerate(name) if character == "."]
    return any(fnmatch.fnmatchcase(name[:end], pattern) for end in [*ends, len(name)])


def _as_tuple(rules: Rules) -> tuple[Rule, ...]:
    if rules is None:
        return ()
    listed = (rules,) if isinstance(rules, (str, type)) else tuple(rules)
    for rule in listed:
        if not isinstance(rule, str) and not (isinstance(rule, type) and issubclass(rule, nn.Module)):
            raise ValueError(f"a rule is a name such as 'fc' or '*.head', or a module class, not {rule!r}")
    return listed


def _show(rule: Rule) -> str:
    return repr(rule) if isinstance(rule, str) else rule.__name__


def join_names(*parts: str) -> str:
    """Names of modules and sites put together; empty ones vanish."""
    return ".".join(part for part in parts if part)
