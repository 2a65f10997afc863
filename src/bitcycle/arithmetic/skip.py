"""Why a module, a part of it or a site stays in full precision, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


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
    NO_PRODUCT_IN_CODE = auto()  # the parameters that are matrices
    PARAMETRISATION = auto()
    POSITION_ANGLES = auto()
    FULL_PRECISION_AGGREGATION = auto()
    MESSAGE_WEIGHTS = auto()  # the parameters
    OWN_METHOD = auto()  # the class, the registered base class, and the methods that differ
    PATCHED_METHOD = auto()  # the methods
    UNKNOWN_PRODUCTS = auto()  # the functions that multiply
    PRODUCTS_OUTSIDE_SITES = auto()  # the functions that multiply
    RAN_OUTSIDE_SITES = auto()  # the operations that ran
    NO_GRID = auto()  # the functions that multiply
    OUTPUT_OPTIONS = auto()  # the functions that multiply
    HOOK = auto()  # the functions that multiply
    CHECKPOINT = auto()
    AUTOGRAD_FUNCTION = auto()  # the autograd functions
    NOT_RUN_YET = auto()  # the functions that multiply
    NOT_AT_A_SITE = auto()  # the functions that multiply

    @property
    def is_chosen(self) -> bool:
        """Whether the user or a policy asked for full precision."""
        return self in _CHOSEN

    @property
    def is_unknown(self) -> bool:
        """Whether products stay in full precision only because bitcycle does not know them."""
        return self in _UNKNOWN

    @property
    def denies_products(self) -> bool:
        """Whether the kind says that nothing multiplies, which a run can disprove."""
        return self in _DENIES_PRODUCTS


_CHOSEN = {SkipKind.KEPT_BY_RULE, SkipKind.OUTSIDE_WHERE, SkipKind.KEPT_BY_POLICY}
_UNKNOWN = {
    SkipKind.OWN_METHOD,
    SkipKind.PATCHED_METHOD,
    SkipKind.UNKNOWN_PRODUCTS,
    SkipKind.PRODUCTS_OUTSIDE_SITES,
    SkipKind.RAN_OUTSIDE_SITES,
    SkipKind.HOOK,
    SkipKind.CHECKPOINT,
    SkipKind.AUTOGRAD_FUNCTION,
}
_DENIES_PRODUCTS = {SkipKind.NO_PRODUCT, SkipKind.NO_PRODUCT_IN_CODE}


@dataclass(frozen=True)
class Skip:
    """One reason to stay in full precision, with the names it refers to."""

    kind: SkipKind
    detail: tuple[str, ...] = ()
