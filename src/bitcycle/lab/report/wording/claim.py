"""A claim in words."""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

from bitcycle.lab.statistics.analysis import Analysis, Claim, DeficitAnalysis

AnyAnalysis = Analysis | DeficitAnalysis


class Wording(NamedTuple):
    """A claim in words."""

    headline: str
    """One short sentence with its number, without a full stop."""
    details: str
    """The same with all statistics."""


@singledispatch
def wording(claim: Claim, analysis: AnyAnalysis) -> Wording:
    """Return a claim in words. Each kind of claim registers its own function."""
    raise TypeError(f"no wording for {type(claim).__name__}")
