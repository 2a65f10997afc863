"""What was found, for the top of the page: one sentence per claim with its verdict, the details one click below.

This is the only module of the report that reads the words and verdicts of an analysis.
"""

from __future__ import annotations

from enum import Enum

from bitcycle._study.analysis import Analysis, Claim, Comparison, DeficitAnalysis
from bitcycle._support.charts.markup import Markup, tag

Question = Analysis | DeficitAnalysis


class Mark(Enum):
    """A verdict as the report shows it: the class of its colour, and an icon."""

    SUPPORTED = ("supported", "✓")
    CONTRADICTED = ("contradicted", "✗")
    OPEN = ("open", "?")

    def __init__(self, class_: str, icon: str) -> None:
        self.class_, self.icon = class_, icon


def mark_of(claim: Claim) -> Mark:
    """Return the mark of a claim's verdict."""
    return next((mark for mark in Mark if mark.class_ == claim.verdict), Mark.OPEN)


def headline(claim: Claim, analysis: Question) -> str:
    """Return a claim in one short sentence."""
    return claim.text


def details(claim: Claim, analysis: Question) -> str:
    """Return the numbers and tests behind a claim; empty if the headline says it all."""
    return ""


def recommendations(analysis: Analysis) -> list[str]:
    """Return what the analysis means for the reader's choice."""
    return analysis.advice


def outcome_text(comparison: Comparison) -> str:
    """Return the outcome of a comparison."""
    return comparison.verdict


def cost_phrase(relative_cost: float) -> str:
    """Return a cost relative to the baseline in words.

    >>> cost_phrase(0.54), cost_phrase(1.0), cost_phrase(15.83)
    ('46 % less cost', 'the same cost', '15.8 times the cost')
    """
    if relative_cost > 1.005:
        return f"{relative_cost:.1f} times the cost"
    saving = round(100 * (1 - relative_cost))
    return f"{saving} % less cost" if saving > 0 else "the same cost"


def claims_list(analysis: Question, most: int | None = None) -> Markup:
    """Return the first claims of an analysis, or all of them, as a list."""
    return tag("ul", *(_claim(claim, analysis) for claim in analysis.claims[:most]), class_="claims")


def _claim(claim: Claim, analysis: Question) -> Markup:
    mark = mark_of(claim)
    badge = tag(
        "span", tag("span", mark.icon, class_="icon", aria_hidden="true"), mark.class_, class_=f"verdict {mark.class_}"
    )
    text, more = headline(claim, analysis), details(claim, analysis)
    if not more:
        return tag("li", badge, tag("span", text))
    return tag("li", badge, tag("details", tag("summary", text), tag("p", more)))
