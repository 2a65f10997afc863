"""Deficit experiments in the Markdown summary."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report.deficits.facts import experiments_of
from bitcycle._study.report.deficits.sentences import asked, cautions, what_ran
from bitcycle._study.report.deficits.table import columns
from bitcycle._study.report.facts import better_words
from bitcycle._study.report.markdown import claims_of, plain, table

KINDS = {
    "deficit-length": "quality against the length of a deficit",
    "deficit-position": "quality against where a deficit begins",
    "measurements": "measurements along training",
}
"""What a figure shows, by how the name of its file begins."""


def deficit_blocks(analysis: DeficitAnalysis, figures: Sequence[str]) -> list[str]:
    """The blocks of text about the experiments; ``figures`` are the addresses of their pictures."""
    blocks = [f"## {plain(analysis.title)}", plain(f"{asked(analysis)} {what_ran(analysis)}")]
    blocks.append(plain(f"{analysis.metric} on the test part, {better_words(analysis)}."))
    blocks += [plain(caution) for caution in cautions(analysis)]
    if analysis.claims:
        blocks.append(claims_of(analysis.claims, analysis))
    blocks += [f"![{plain(analysis.title)}: {_kind(address)}]({address})" for address in figures]
    for experiment in experiments_of(analysis):
        shown = columns(analysis, experiment)
        rows = [[column.cell(point) for column in shown] for point in experiment.points]
        blocks.append(f"{experiment.title}:")
        blocks.append(table([column.head for column in shown], rows, [column.numeric for column in shown]))
    return blocks


def _kind(address: str) -> str:
    """What a figure shows.

    >>> _kind("figures/deficit-length-image.png")
    'quality against the length of a deficit'
    """
    name = address.rpartition("/")[2]
    return next((words for begin, words in KINDS.items() if name.startswith(begin)), "figure")
