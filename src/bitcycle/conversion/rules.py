"""Rules about what to convert: names with wildcards, module classes, and the paper's policies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from torch import nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.skip_reasons import mixin_for
from bitcycle.nn.functional_ops import public_methods
from bitcycle.nn.registry import find, owner_of
from bitcycle.nn.site_names import join_names, matches
from bitcycle.nn.transformer import FusedContainer

Rule = str | type[nn.Module]
Rules = Rule | Iterable[Rule] | None

POLICIES: dict[str, tuple[str, ...]] = {
    "cifar-resnet": ("last",),
    "imagenet-resnet": ("first", "last"),
    **dict.fromkeys(("retinanet", "gnn", "lstm", "bert"), ()),
}
"""The layers that the paper keeps in full precision in each of its model families: the first, the last, or none."""


def as_rules(rules: Rules) -> tuple[Rule, ...]:
    """Return one rule or several as a tuple of checked rules."""
    if rules is None:
        return ()
    listed = (rules,) if isinstance(rules, (str, type)) or not isinstance(rules, Iterable) else tuple(rules)
    for rule in listed:
        if not isinstance(rule, str) and not (isinstance(rule, type) and issubclass(rule, nn.Module)):
            raise ValueError(f"a rule must be a name such as 'fc' or '*.head', or a module class, got {rule!r}")
    return listed


def excluded_layers(
    model: nn.Module, keep: tuple[Rule, ...], where: tuple[Rule, ...], policy: str | None
) -> dict[nn.Module, Skip]:
    """Return the layers that rules and a policy exclude from conversion. Warn about rules that match nothing."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    excluded: dict[nn.Module, Skip] = {}
    unmatched = {*keep, *where} - _rules_for_sites(model, keep)
    for module in names:
        kept_by, chosen_by = (
            [rule for rule in rules if any(_applies(rule, name, module, model) for name in names[module])]
            for rules in (keep, where)
        )
        unmatched -= {*kept_by, *chosen_by}
        mixin = mixin_for(module).mixin
        if mixin is None or issubclass(mixin, FusedContainer):  # it does not multiply, and has no code that may
            continue
        if kept_by:
            excluded[module] = Skip(SkipKind.KEPT_BY_RULE, (_name_of(kept_by[0]),))
        elif where and not chosen_by:
            excluded[module] = Skip(SkipKind.OUTSIDE_WHERE, tuple(map(_name_of, where)))
    if unmatched:
        known = [name for name, _ in model.named_modules() if name]
        hints = sorted(
            f"{_name_of(rule)!r} ({nearest(_name_of(rule), known, 'no similar name')})" for rule in unmatched
        )
        warnings.warn(f"bc.quantize: rules that matched nothing: {', '.join(hints)}", stacklevel=3)
    if policy is not None:
        excluded.update(_kept_by_policy(model, policy, excluded))
    return excluded


def _applies(rule: Rule, name: str, module: nn.Module, model: nn.Module) -> bool:
    """Return whether a rule matches this module or a module that contains it."""
    if isinstance(rule, str):
        return matches(name, rule)
    outer_names = ["", *(name[:end] for end, character in enumerate(name) if character == ".")]
    return isinstance(module, rule) or any(isinstance(model.get_submodule(outer), rule) for outer in outer_names)


def _rules_for_sites(model: nn.Module, keep: tuple[Rule, ...]) -> set[Rule]:
    """Return the rules that name a site inside a layer."""
    names = [rule for rule in keep if isinstance(rule, str)]
    if not names:
        return set()
    everything = Recipe(embeddings=True, aggregation="quantized")
    matched: set[Rule] = set()
    for name, module in model.named_modules():
        mixin = mixin_for(module).mixin
        for local in mixin.site_names(module, everything) if mixin is not None else []:
            matched |= {rule for rule in names if matches(join_names(name, local), rule)}
        if mixin is not None and (mixin.is_intercepted or public_methods(type(module))):  # its sites are not known yet
            matched |= {rule for rule in names if ":" in rule and matches(name, rule.partition(":")[0])}
    return matched


def _kept_by_policy(model: nn.Module, policy: str, excluded: dict[nn.Module, Skip]) -> dict[nn.Module, Skip]:
    """Return the layers that a policy keeps. First and last refer to the order of definition."""
    if policy not in POLICIES:
        raise ValueError(f"unknown policy {policy!r}; {nearest(policy, POLICIES)}")
    layers = []
    for name, module in model.named_modules():
        mixin = find(module).mixin
        if module not in excluded and mixin is not None and owner_of(name, model) is None:
            layers += [module] if mixin.site_names(module, Recipe()) else []
    ends = {"first": layers[:1], "last": layers[-1:]}
    return {module: Skip(SkipKind.KEPT_BY_POLICY, (end, policy)) for end in POLICIES[policy] for module in ends[end]}


def _name_of(rule: Rule) -> str:
    return rule if isinstance(rule, str) else rule.__name__
