"""Why a module, a part of it or a site stays in full precision: the reason as a value, its words, and its record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from torch import nn


class SkipKind(Enum):
    """The reasons to stay in full precision. The value is their words, with the names of :attr:`Skip.detail`."""

    KEPT_BY_RULE = "kept by rule {quoted}"
    OUTSIDE_WHERE = "not matched by where={quoted}"
    KEPT_BY_POLICY = "{0} layer, kept by policy {1!r}"
    NOT_CONVERTED = "not converted"
    EMBEDDING = "embeddings stay in full precision"
    EMBEDDING_NOT_REQUESTED = "embeddings stay in full precision unless Recipe(embeddings=True)"
    NORMALISATION = "normalisation stays in full precision"
    NO_PRODUCT = "no product"
    UNUSED_MATRICES = "owns {names}, but ran no product"
    PARAMETRISATION = "computes a weight from parameters: no activation is multiplied"
    FULL_PRECISION_AGGREGATION = "aggregation in full precision (FP-Agg) unless Recipe(aggregation='quantized')"
    MESSAGE_WEIGHTS = "message weights {names} in full precision"
    PATCHED_METHOD = "its {names} was replaced on the module itself: not converted"
    RAN_OUTSIDE_SITES = "runs {names} outside any site"
    NO_GRID = "products of sparse or complex tensors ({names}) stay in full precision"
    OUTPUT_OPTIONS = "products with out= or out_dtype= ({names}) stay in full precision"
    CHECKPOINT = "what it checkpoints ({names}) is recomputed in full precision, except for modules in it"
    AUTOGRAD_FUNCTION = "the backward of its autograd functions ({names}) computes in full precision"
    NOT_RUN_YET = "products in its code become sites when it first runs"

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
    return "; ".join(
        skip.kind.value.format(*skip.detail, names=", ".join(skip.detail), quoted=", ".join(map(repr, skip.detail)))
        for skip in skips
    )
