"""The report in Markdown, for papers and pull requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitcycle._study.report.columns import FAILURE_COLUMNS
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.page import run_facts, what_was_run
from bitcycle._study.report.section import Section
from bitcycle._study.report.tables import fenced, markdown_table, plain


def summary(study: StudyInfo, sections: Sequence[Section], addresses: Mapping[str, Sequence[str]]) -> str:
    """Return the study in Markdown; ``addresses`` are those of the figures of each section, by its anchor.

    >>> print(summary(StudyInfo("digits", "bitcycle study", planned=1, done=0), [], {}).splitlines()[0])
    # digits
    """
    blocks = [f"# {plain(study.name)}", plain(what_was_run(study, sections))]
    if not study.finished:
        blocks.append(f"**{study.done:,} of {study.planned:,} runs finished.** The results cover these.")
    for section in sections:
        blocks += section.markdown(addresses.get(section.anchor, ()))
    if study.failed:
        blocks += ["## Failed runs", markdown_table(FAILURE_COLUMNS, study.failed)]
    facts = "; ".join(f"{name} {value}" for name, value in run_facts(study))
    blocks += ["## How to reproduce it", fenced(study.command), plain(facts) + "."]
    return "\n\n".join(blocks) + "\n"
