"""Why a module, a part of it or a site stays in full precision: the reason as a value, its words, and its record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from torch import nn


class SkipKind(Enum):
    """The reasons to stay in full precision. The comment says what :attr:`Skip.detail` holds."""

    KEPT_BY_RULE = auto()  # the rule
    OUTSIDE_WHERE = auto()  # the rules of where=
    KEPT_BY_POLICY = auto()  # "first" or "last", and the policy
    NOT_CONVERTED = auto()
    EMBEDDING = auto()
    EMBEDDING_NOT_REQUESTED = auto()
    NORMALISATION = auto()
    NO_PRODUCT = auto()
    UNUSED_MATRICES = auto()  # the parameters that are matrices
    PARAMETRISATION = auto()
    FULL_PRECISION_AGGREGATION = auto()
    MESSAGE_WEIGHTS = auto()  # the parameters
    PATCHED_METHOD = auto()  # the methods
    RAN_OUTSIDE_SITES = auto()  # the operations that ran
    NO_GRID = auto()  # the functions that multiply
    OUTPUT_OPTIONS = auto()  # the functions that multiply
    CHECKPOINT = auto()  # the functions that multiply
    AUTOGRAD_FUNCTION = auto()  # the autograd functions
    NOT_RUN_YET = auto()

    @property
    def is_chosen(self) -> bool:
        """Whether the user or a policy asked for full precision."""
        return self in _CHOSEN

    @property
    def denies_products(self) -> bool:
        """Whether the kind says that nothing multiplies, which a run can disprove."""
        return self in _DENIES_PRODUCTS


_CHOSEN = {SkipKind.KEPT_BY_RULE, SkipKind.OUTSIDE_WHERE, SkipKind.KEPT_BY_POLICY}
_DENIES_PRODUCTS = {SkipKind.NO_PRODUCT, SkipKind.UNUSED_MATRICES}
FOUND_BY_RUN = {SkipKind.RAN_OUTSIDE_SITES, SkipKind.CHECKPOINT, SkipKind.AUTOGRAD_FUNCTION}
"""The reasons that only a run shows. A warning names them."""


@dataclass(frozen=True)
class Skip:
    """One reason to stay in full precision, with the names it refers to."""

    kind: SkipKind
    detail: tuple[str, ...] = ()


_RECORD = "bitcycle_skips"
"""The attribute of a module that holds why it, or a part of it, is skipped."""


def record_skips(module: nn.Module, skips: tuple[Skip, ...]) -> None:
    """Record why a module, or a part of it, is skipped."""
    vars(module)[_RECORD] = skips


def recorded_skips(module: nn.Module) -> tuple[Skip, ...] | None:
    """Return why a module, or a part of it, is skipped; None if conversion has not visited the module."""
    skips: tuple[Skip, ...] | None = vars(module).get(_RECORD)
    return skips


def forget_skips(module: nn.Module) -> None:
    """Remove what was recorded on a module."""
    vars(module).pop(_RECORD, None)


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
        case SkipKind.UNUSED_MATRICES:
            return f"owns {names}, but ran no product"
        case SkipKind.PARAMETRISATION:
            return "computes a weight from parameters: no activation is multiplied"
        case SkipKind.FULL_PRECISION_AGGREGATION:
            return "aggregation in full precision (FP-Agg) unless Recipe(aggregation='quantized')"
        case SkipKind.MESSAGE_WEIGHTS:
            return f"message weights {names} in full precision"
        case SkipKind.PATCHED_METHOD:
            return f"its {' and '.join(skip.detail)} was replaced on the module itself: not converted"
        case SkipKind.RAN_OUTSIDE_SITES:
            return f"runs {names} outside any site"
        case SkipKind.NO_GRID:
            return f"products of sparse or complex tensors ({names}) stay in full precision"
        case SkipKind.OUTPUT_OPTIONS:
            return f"products with out= or out_dtype= ({names}) stay in full precision"
        case SkipKind.CHECKPOINT:
            return f"what it checkpoints ({names}) is recomputed in full precision, except for modules in it"
        case SkipKind.AUTOGRAD_FUNCTION:
            return f"the backward of its autograd functions ({names}) computes in full precision"
        case SkipKind.NOT_RUN_YET:
            return "products in its code become sites when it first runs"
