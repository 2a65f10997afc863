"""Rules about what to convert: names with wildcards, module classes, and the paper's policies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from torch import nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.sites import join_names, matches
from bitcycle.nn.registry import find, owner_of
from bitcycle.nn.transformer import KeepsToItsChildren

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


def as_rules(rules: Rules) -> tuple[Rule, ...]:
    """One rule or several as a tuple, each checked."""
    if rules is None:
        return ()
    listed = (rules,) if isinstance(rules, (str, type)) or not isinstance(rules, Iterable) else tuple(rules)
    for rule in listed:
        if not isinstance(rule, str) and not (isinstance(rule, type) and issubclass(rule, nn.Module)):
            raise ValueError(f"a rule is a name such as 'fc' or '*.head', or a module class, not {rule!r}")
    return listed


def excluded(
    model: nn.Module, keep: tuple[Rule, ...], where: tuple[Rule, ...], policy: str | None
) -> dict[nn.Module, str]:
    """The layers that the rules leave alone, with the reason; rules that match nothing are warned about."""
    reasons: dict[nn.Module, str] = {}
    unmatched = {*keep, *where} - _rules_for_sites(model, keep)
    for module, names in _all_names(model).items():
        kept = [rule for rule in keep if any(_applies(rule, name, module, model) for name in names)]
        chosen = [rule for rule in where if any(_applies(rule, name, module, model) for name in names)]
        unmatched -= {*kept, *chosen}
        mixin, _ = find(module)
        if mixin is None or issubclass(mixin, KeepsToItsChildren):
            continue
        if kept:
            reasons[module] = f"kept by rule {_show(kept[0])}"
        elif where and not chosen:
            reasons[module] = f"outside of where={', '.join(map(_show, where))}"
    if policy is not None:
        reasons.update(_kept_by_policy(model, policy, reasons))
    if unmatched:
        known = [name for name, _ in model.named_modules() if name]
        hints = sorted(f"{_show(rule)} ({nearest(_show(rule), known, 'no name is near')})" for rule in unmatched)
        warnings.warn(f"bc.quantize: rules that matched nothing: {', '.join(hints)}", stacklevel=3)
    return reasons


def is_chosen(reason: str) -> bool:
    """Whether a reason says that the user, or a policy, wants a layer to stay in full precision."""
    return reason.startswith(("kept by rule", "outside of where", "the first layer", "the last layer"))


def rule_for_site(name: str, keep: tuple[Rule, ...]) -> str:
    """The reason for which a single site stays in full precision, if a rule names it."""
    rule = next((rule for rule in keep if isinstance(rule, str) and matches(name, rule)), None)
    return "" if rule is None else f"kept by rule {rule!r}"


def _all_names(model: nn.Module) -> dict[nn.Module, list[str]]:
    """Every module with all the names it is known by."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    return names


def _applies(rule: Rule, name: str, module: nn.Module, model: nn.Module) -> bool:
    """Whether a rule means this module or something it is inside of."""
    if isinstance(rule, str):
        return matches(name, rule)
    inside_of = ["", *(name[:end] for end, character in enumerate(name) if character == ".")]
    return isinstance(module, rule) or any(isinstance(model.get_submodule(outer), rule) for outer in inside_of)


def _rules_for_sites(model: nn.Module, keep: tuple[Rule, ...]) -> set[Rule]:
    """The rules that name a site inside of a layer."""
    everything = Recipe(embeddings=True, aggregation="quantized")
    found: set[Rule] = set()
    for name, module in model.named_modules():
        mixin, _ = find(module)
        for local in mixin.site_names(module, everything) if mixin is not None else []:
            found |= {rule for rule in keep if isinstance(rule, str) and matches(join_names(name, local), rule)}
    return found


def _kept_by_policy(model: nn.Module, policy: str, reasons: dict[nn.Module, str]) -> dict[nn.Module, str]:
    """First and last are meant in the order in which layers are defined."""
    if policy not in POLICIES:
        raise ValueError(f"unknown policy {policy!r}; {nearest(policy, POLICIES)}")
    layers = []
    for name, module in model.named_modules():
        mixin, _ = find(module)
        if module not in reasons and mixin is not None and owner_of(name, model) is None:
            layers += [module] if mixin.site_names(module, Recipe()) else []
    ends = {"first": layers[:1], "last": layers[-1:]}
    return {module: f"the {end} layer, kept by policy {policy!r}" for end in POLICIES[policy] for module in ends[end]}


def _show(rule: Rule) -> str:
    return repr(rule) if isinstance(rule, str) else rule.__name__
