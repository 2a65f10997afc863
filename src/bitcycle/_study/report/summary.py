"""The report in Markdown, for papers and pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.correlation import correlation_words, pair_rows
from bitcycle._study.report.deficits.summary import deficit_blocks
from bitcycle._study.report.facts import better_words, question_words
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.markdown import claims_of, fenced, plain, table
from bitcycle._study.report.page import what_was_run
from bitcycle._study.report.settings_table import columns
from bitcycle._study.wording import recommendations

SHOWN = 11
"""The first so many columns of the table on the page; the rest is in the CSV file."""


def summary(
    study: StudyInfo,
    analyses: Sequence[Analysis],
    figures: Sequence[Sequence[str]] = (),
    deficits: Sequence[DeficitAnalysis] = (),
) -> str:
    """The study in Markdown; ``figures`` are the addresses of the pictures of each question, the deficits last.

    >>> print(summary(StudyInfo("digits", "bitcycle study", planned=1, done=0), []).splitlines()[0])
    # digits
    """
    blocks = [f"# {plain(study.name)}", plain(what_was_run(study, analyses, deficits))]
    if not study.finished:
        blocks.append(f"**{study.done:,} of {study.planned:,} runs finished.** What follows is about these.")
    pictures = [*figures, *[()] * (len(analyses) + len(deficits) - len(figures))]
    for analysis, some in zip(analyses, pictures, strict=False):
        blocks += _question(analysis, some)
    for deficit, some in zip(deficits, pictures[len(analyses) :], strict=False):
        blocks += deficit_blocks(deficit, some)
    blocks += _failures(study)
    blocks += _reproduction(study)
    return "\n\n".join(blocks) + "\n"


def _question(analysis: Analysis, figures: Sequence[str]) -> list[str]:
    blocks = [f"## {plain(analysis.title)}"]
    blocks.append(plain(f"{question_words(analysis)}; {analysis.metric} on the test part, {better_words(analysis)}."))
    if analysis.claims:
        blocks.append(claims_of(analysis.claims, analysis))
    blocks += [f"![{plain(analysis.title)}: {_kind(address)}]({address})" for address in figures]
    shown = columns(analysis)[:SHOWN]
    rows = [[column.cell(setting) for column in shown] for setting in analysis.settings]
    blocks.append(table([column.head for column in shown], rows, [column.numeric for column in shown]))
    if analysis.correlations:
        heads = ["correlation of quality with cost", "over", "value", "95 % interval"]
        blocks.append(table(heads, [correlation_words(c) for c in analysis.correlations], [False, False, True, True]))
    if analysis.equal_cost and analysis.equal_cost.pairs:
        heads = ["at equal cost", "better by", "95 % interval", "p (Holm)", "verdict on the first"]
        rows = pair_rows(analysis, analysis.equal_cost)
        blocks.append(table(heads, rows, [False, True, True, True, False]))
    blocks.append("What it means for the choice:")
    blocks.append("\n".join(f"- {plain(sentence)}" for sentence in recommendations(analysis)))
    return blocks


def _kind(address: str) -> str:
    """What a figure shows, by the name of its file.

    >>> _kind("figures/cost-image.png")
    'cost'
    """
    return address.rpartition("/")[2].partition("-")[0]


def _failures(study: StudyInfo) -> list[str]:
    if not study.failed:
        return []
    rows = [[label, str(seed), last] for label, seed, last in study.failed]
    return ["## Runs that failed", table(["schedule", "seed", "why"], rows, [False, True, False])]


def _reproduction(study: StudyInfo) -> list[str]:
    versions = [f"{name} {version}" for name, version in study.versions.items()]
    facts = [
        f"seeds {', '.join(str(seed) for seed in study.seeds)}" if study.seeds else "",
        f"{words.duration(study.seconds)} on {words.count(study.workers, 'worker')}",
        *versions,
    ]
    return ["## How to reproduce it", fenced(study.command), plain("; ".join(fact for fact in facts if fact)) + "."]
