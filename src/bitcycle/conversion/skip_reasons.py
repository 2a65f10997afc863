"""Why modules are skipped, and the wording of all reasons."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.nn.parameter import is_lazy

from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.code_scan import products_of_function, products_of_module
from bitcycle.nn.own_products import QuantizedForward
from bitcycle.nn.registry import SKIPPED, Match, find

FORWARD = "forward"
PATCHED_FORWARD = Skip(SkipKind.PATCHED_METHOD, (FORWARD,))


def mixin_for(module: nn.Module) -> Match:
    """Return the mixin that quantises a module, or why nothing does; neither for a mere container.

    A module that no layer is registered for is quantised by its own code, if that multiplies.
    """
    match = find(module)
    if match.mixin is not None:
        return match
    skip = skip_reason(module, match.skip)
    if skip is not None and skip.kind in (SkipKind.OWN_METHOD, SkipKind.UNKNOWN_PRODUCTS) and not match.is_fused:
        return Match(None, PATCHED_FORWARD) if FORWARD in vars(module) else Match(QuantizedForward)
    return Match(None, skip)


def skip_reason(module: nn.Module, mismatch: Skip | None) -> Skip | None:
    """Return why a module that no mixin quantises is skipped; ``None`` for a mere container.

    ``mismatch`` says how the module differs from a registered layer, if it almost is one.
    """
    kind = type(module)
    products = products_of_module(kind, module)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and not products:
        return Skip(SkipKind.EMBEDDING)
    if mismatch is not None:
        return mismatch
    if kind.__module__.startswith("torch.nn.utils"):
        return Skip(SkipKind.PARAMETRISATION)
    if kind.__module__.startswith("torch.nn.modules"):
        return Skip(SkipKind.NORMALISATION) if "Norm" in kind.__name__ else _container_or_no_product(module)
    for condition, skip in SKIPPED:
        if condition(kind):
            return skip
    if products:
        return Skip(SkipKind.UNKNOWN_PRODUCTS, products)
    matrices = [name for name, parameter in module.named_parameters(recurse=False) if _is_matrix(parameter)]
    if matrices:
        return Skip(SkipKind.NO_PRODUCT_IN_CODE, tuple(matrices))
    return _container_or_no_product(module)


def skips_of_hooks(module: nn.Module) -> tuple[Skip, ...]:
    """Return the products in functions that a module calls before or after its ``forward``."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    products = sorted({name for hook in hooks for name in products_of_function(hook)})
    return (Skip(SkipKind.HOOK, tuple(products)),) if products else ()


def explain(skips: Iterable[Skip]) -> str:
    """Return the reasons in words.

    >>> explain([Skip(SkipKind.KEPT_BY_RULE, ("head",))])
    "kept by rule 'head'"
    """
    return "; ".join(map(_explain, skips))


def _explain(skip: Skip) -> str:
    names = ", ".join(skip.detail)
    match skip.kind:
        case SkipKind.KEPT_BY_RULE:
            return f"kept by rule {names!r}"
        case SkipKind.OUTSIDE_WHERE:
            return f"not matched by where={', '.join(map(repr, skip.detail))}"
        case SkipKind.KEPT_BY_POLICY:
            end, policy = skip.detail
            return f"{end} layer, kept by policy {policy!r}"
        case SkipKind.NOT_CONVERTED:
            return "not converted"
        case SkipKind.EMBEDDING:
            return "embeddings stay in full precision"
        case SkipKind.EMBEDDING_NOT_REQUESTED:
            return "embeddings stay in full precision unless Recipe(embeddings=True)"
        case SkipKind.NORMALISATION:
            return "normalisation stays in full precision"
        case SkipKind.NO_PRODUCT:
            return "no product"
        case SkipKind.NO_PRODUCT_IN_CODE:
            return f"owns {names}, but its code shows no product"
        case SkipKind.PARAMETRISATION:
            return "computes a weight from parameters: no activation is multiplied"
        case SkipKind.POSITION_ANGLES:
            return "computes position angles: no activation is multiplied"
        case SkipKind.FULL_PRECISION_AGGREGATION:
            return "aggregation in full precision (FP-Agg) unless Recipe(aggregation='quantized')"
        case SkipKind.MESSAGE_WEIGHTS:
            return f"message weights {names} in full precision"
        case SkipKind.OWN_METHOD:
            kind, base, *methods = skip.detail
            return f"{kind} overrides {' and '.join(methods)} of {base}: not converted"
        case SkipKind.PATCHED_METHOD:
            return f"its {' and '.join(skip.detail)} was replaced on the module itself: not converted"
        case SkipKind.UNKNOWN_PRODUCTS:
            return f"its code multiplies ({names}) and no layer is registered for it"
        case SkipKind.PRODUCTS_OUTSIDE_SITES:
            return f"its code multiplies ({names}) outside its sites"
        case SkipKind.RAN_OUTSIDE_SITES:
            return f"runs {names} outside any site"
        case SkipKind.NO_GRID:
            return f"products of sparse or complex tensors ({names}) stay in full precision"
        case SkipKind.OUTPUT_OPTIONS:
            return f"products with out= or out_dtype= ({names}) stay in full precision"
        case SkipKind.HOOK:
            return f"its hooks multiply ({names}) outside its sites"
        case SkipKind.CHECKPOINT:
            return "what it checkpoints is recomputed in full precision, except for modules in it"
        case SkipKind.AUTOGRAD_FUNCTION:
            return f"the backward of its autograd functions ({names}) multiplies in full precision"
        case SkipKind.NOT_AT_A_SITE:
            return f"its code multiplies ({names}), but no run has computed that at a site"
        case SkipKind.NOT_RUN_YET:
            return f"its products ({names}) become sites when the model first runs"


def _container_or_no_product(module: nn.Module) -> Skip | None:
    is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))
    return None if is_container or next(module.children(), None) is not None else Skip(SkipKind.NO_PRODUCT)


def _is_matrix(parameter: nn.Parameter) -> bool:
    return not is_lazy(parameter) and sum(size > 1 for size in parameter.shape) > 1
