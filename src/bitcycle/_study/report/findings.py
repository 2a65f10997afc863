"""Claims for the top of the page: one sentence each with its verdict, and the details one click below."""

from __future__ import annotations

from bitcycle._study.analysis import Analysis, Claim, DeficitAnalysis, Verdict
from bitcycle._study.wording import details, headline
from bitcycle._support.charts.markup import Markup, tag

Question = Analysis | DeficitAnalysis


ICONS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.OPEN: "?"}


def claims_list(analysis: Question, most: int | None = None) -> Markup:
    """Return the first claims of an analysis, or all of them, as a list."""
    return tag("ul", *(_claim(claim, analysis) for claim in analysis.claims[:most]), class_="claims")


def _claim(claim: Claim, analysis: Question) -> Markup:
    icon = tag("span", ICONS[claim.verdict], class_="icon", aria_hidden="true")
    badge = tag("span", icon, claim.verdict, class_=f"verdict {claim.verdict}")
    summary = tag("summary", headline(claim, analysis))
    return tag("li", badge, tag("details", summary, tag("p", details(claim, analysis))))
