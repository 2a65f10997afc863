"""The results of a study in words: a headline and details for every claim, and recommendations."""

from __future__ import annotations

from bitcycle.lab.report.wording import deficits, schedules  # noqa: F401  # they register their claims
from bitcycle.lab.report.wording.claim import AnyAnalysis, wording
from bitcycle.lab.report.wording.recommendations import recommendations
from bitcycle.lab.statistics.analysis import Claim

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
