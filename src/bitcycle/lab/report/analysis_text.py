"""An analysis as plain text: the table of settings, and what follows from it."""

from __future__ import annotations

from bitcycle._support.text import table
from bitcycle.lab.format import cost_phrase
from bitcycle.lab.report.wording import headline
from bitcycle.lab.statistics.analysis import Analysis


def analysis_text(analysis: Analysis) -> str:
    """Return the title, the table of settings and the claims."""
    sign = "higher" if analysis.higher_is_better else "lower"
    return "\n".join(
        [
            f"{analysis.title}: {analysis.metric}, {sign} is better",
            table(*analysis_table(analysis)),
            *(f"- {headline(claim, analysis)} ({claim.verdict})" for claim in analysis.claims),
        ]
    )


def analysis_table(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of settings."""
    rows = [
        [
            setting.label,
            f"{setting.quality.mean:.4f}",
            f"[{setting.quality.low:.4f}, {setting.quality.high:.4f}]",
            cost_phrase(setting.relative_cost),
            str(setting.group or ""),
            setting.against.outcome if setting.against else "the baseline" if setting.baseline else "",
        ]
        for setting in analysis.settings
    ]
    return ["setting", "mean", "95 % interval", "cost", "group", "against the baseline"], rows
