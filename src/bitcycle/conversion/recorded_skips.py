"""Why modules are skipped: conversion records it on each module, and the summary of a model reads it."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.skip_reasons import mixin_for
from bitcycle.nn.code_scan import products_of_module
from bitcycle.nn.families import load_families
from bitcycle.nn.layer import Conversion, conversion_of
from bitcycle.nn.registry import owner_of

_SKIPS = "bitcycle_skips"
"""The attribute of a module that holds why it, or a part of it, is skipped."""


def record_skips(module: nn.Module, skips: tuple[Skip, ...]) -> None:
    """Record why a module, or a part of it, is skipped."""
    vars(module)[_SKIPS] = skips


def recorded_skips(module: nn.Module) -> tuple[Skip, ...]:
    """Return why conversion skipped a module, or a part of it."""
    skips: tuple[Skip, ...] = vars(module).get(_SKIPS, ())
    return skips


def forget_skips(module: nn.Module) -> None:
    """Remove what conversion recorded on a module."""
    vars(module).pop(_SKIPS, None)


def skips_of(model: nn.Module) -> dict[str, tuple[Skip, ...]]:
    """Return why each module that is skipped, wholly or in part, is skipped, by name."""
    load_families()
    skipped = {}
    for name, module in model.named_modules():
        skips: tuple[Skip, ...] | None = vars(module).get(_SKIPS)
        conversion = conversion_of(module)
        if conversion is not None and conversion.template is not None:
            skips = (*(skips or ()), *_discovery_so_far(module, conversion))
        if skips is None:
            skips = () if conversion is not None or owner_of(name, model) is not None else _why_float(module)
        if skips:
            skipped[name] = skips
    return skipped


def left_float(conversion: Conversion) -> Iterator[Skip]:
    """Yield which calls of a module's own ``forward`` were left in full precision."""
    if conversion.products_without_grids:
        yield Skip(SkipKind.NO_GRID, tuple(sorted(conversion.products_without_grids)))
    if conversion.products_with_output_options:
        yield Skip(SkipKind.OUTPUT_OPTIONS, tuple(sorted(conversion.products_with_output_options)))


def _discovery_so_far(module: nn.Module, conversion: Conversion) -> Iterator[Skip]:
    """Yield why products of a module's own ``forward`` are not sites."""
    reasons = [*left_float(conversion)]
    yield from reasons
    if not reasons and not conversion.sites:
        products = products_of_module(conversion.original, module) or ("found by a run",)
        yield Skip(SkipKind.NOT_AT_A_SITE if conversion.has_run else SkipKind.NOT_RUN_YET, products)


def _why_float(module: nn.Module) -> tuple[Skip, ...]:
    """Return why a module that conversion has not visited is a float module."""
    mixin, skip, _ = mixin_for(module)
    skip = skip if mixin is None else Skip(SkipKind.NOT_CONVERTED)
    return () if skip is None else (skip,)
