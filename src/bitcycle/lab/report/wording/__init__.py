"""The results of a study in words: a headline and details for every claim, and recommendations."""

from __future__ import annotations

from bitcycle._study.analysis import Claim
from bitcycle._study.wording import deficits, schedules  # noqa: F401  # they register their claims
from bitcycle._study.wording.claim import AnyAnalysis, wording
from bitcycle._study.wording.recommendations import recommendations

__all__ = ["details", "headline", "recommendations"]


def headline(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say in one short sentence, with its number, the result of a claim.

    Args:
        claim: One of ``analysis.claims``.
        analysis: The analysis that the claim belongs to.
    """
    return wording(claim, analysis).headline


def details(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say the result of a claim with all of its statistics; see :func:`headline`."""
    return wording(claim, analysis).details
