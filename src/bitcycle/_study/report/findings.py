"""The claims of an analysis, each with its verdict as a sign and in words."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import Analysis, Claim, DeficitAnalysis
from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.wording import details

ICONS = {"supported": "✓", "contradicted": "✗", "open": "?"}
MAIN = 2  # of each question, where there are several: the others stand in its section
MAIN_OF_DEFICITS = 3  # damage is not to be read without its control, the restart


def main_findings(analyses: Sequence[Analysis], deficits: Sequence[DeficitAnalysis] = ()) -> Markup:
    """What the page opens with: all claims of a single question, the first ones of several."""
    questions: list[tuple[str, Analysis | DeficitAnalysis, int]] = [
        *((f"#task-{i}", analysis, MAIN) for i, analysis in enumerate(analyses, start=1)),
        *((f"#deficit-{i}", deficit, MAIN_OF_DEFICITS) for i, deficit in enumerate(deficits, start=1)),
    ]
    groups = []
    for address, question, most in questions:
        if not question.claims:
            continue
        if len(questions) == 1:
            groups.append(claims_list(question.claims, question))
            continue
        title = tag("h3", tag("a", question.title, href=address))
        groups.append(title + claims_list(question.claims[:most], question))
    return tag("div", tag("h2", "What was found"), *groups, class_="findings") if groups else Markup("")


def claims_list(claims: Sequence[Claim], analysis: Analysis | DeficitAnalysis) -> Markup:
    """Claims under one another."""
    return tag("ul", *(_claim(claim, analysis) for claim in claims), class_="claims")


def _claim(claim: Claim, analysis: Analysis | DeficitAnalysis) -> Markup:
    verdict = claim.verdict
    icon = tag("span", ICONS[verdict], class_="icon", aria_hidden="true")
    badge = tag("span", icon, claim.verdict, class_=f"verdict {verdict}")
    return tag("li", badge, tag("span", details(claim, analysis)))
