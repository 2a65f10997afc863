"""Which mixin quantises a module, or why none does."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy

from bitcycle.arithmetic.skip import Skip, SkipKind, recorded_skips
from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.layer import Conversion, conversion_of
from bitcycle.nn.registry import LAYERS, Match, find, owner_of, target_class


def mixin_for(module: nn.Module) -> Match:
    """Return the mixin that quantises a module, or why nothing does; neither for a mere container of torch.

    Functional calls in user code become sites when they run, so that any module of user code is converted.
    """
    match = find(module)
    if match.mixin is not None or match.skip is not None:
        return match
    kind = target_class(module)
    if kind.__module__.startswith(("torch.nn.modules", "torch.nn.utils")) and LAYERS.keys().isdisjoint(kind.__mro__):
        return Match(None, _known_skip(module))
    if "forward" in vars(module):
        return Match(None, Skip(SkipKind.PATCHED_METHOD, ("forward",)))
    return Match(FunctionalOps)


def why_skipped(model: nn.Module, name: str, module: nn.Module) -> tuple[Skip, ...]:
    """Return why a module of a model stays in full precision, wholly or in part; nothing if it does not."""
    skips, conversion = recorded_skips(module), conversion_of(module)
    if conversion is not None and conversion.template is not None:
        return (*(skips or ()), *_discovery_so_far(module, conversion, bool(skips)))
    if skips is not None or conversion is not None or owner_of(name, model) is not None:
        return skips or ()
    mixin, skip = mixin_for(module)  # conversion has not visited the module
    if mixin is not None:
        has_layers = mixin is FunctionalOps and next(module.children(), None) is not None
        return () if has_layers else (Skip(SkipKind.NOT_CONVERTED),)
    return () if skip is None else (skip,)


def _discovery_so_far(module: nn.Module, conversion: Conversion, is_explained: bool) -> tuple[Skip, ...]:
    """Return why functional calls of a module are not sites, or why it has no sites."""
    calls, mixin = conversion.skips(), conversion.mixin
    if calls or not mixin.is_intercepted or any(local.startswith(":") for local in conversion.sites):
        return calls
    if mixin.own_product and conversion.sites:
        return ()
    if not conversion.has_run:
        return (Skip(SkipKind.NOT_RUN_YET),)
    weights = mixin.uncounted_weights(module)
    if weights:
        return (Skip(SkipKind.MESSAGE_WEIGHTS, weights),)
    if is_explained or conversion.sites:
        return ()
    named = module.named_parameters(recurse=False)
    matrices = [name for name, x in named if not is_lazy(x) and sum(size > 1 for size in x.shape) > 1]
    if matrices:
        return (Skip(SkipKind.UNUSED_MATRICES, tuple(matrices)),)
    return () if next(module.children(), None) is not None else (Skip(SkipKind.NO_PRODUCT),)


def _known_skip(module: nn.Module) -> Skip | None:
    """Return why a module of torch has no sites; None for a mere container."""
    kind = target_class(module)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return Skip(SkipKind.EMBEDDING)
    if kind.__module__.startswith("torch.nn.utils"):
        return Skip(SkipKind.PARAMETRISATION)
    if "Norm" in kind.__name__:
        return Skip(SkipKind.NORMALISATION)
    is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))
    return None if is_container or next(module.children(), None) is not None else Skip(SkipKind.NO_PRODUCT)
