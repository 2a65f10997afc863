"""The report as one self-contained HTML page, which works offline and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report.columns import FAILURE_COLUMNS
from bitcycle.lab.report.curves import Curves
from bitcycle.lab.report.deficit_section import DeficitSection, drawn_conditions
from bitcycle.lab.report.info import StudyInfo
from bitcycle.lab.report.labels import drawn_settings
from bitcycle.lab.report.rendering import render, script, style
from bitcycle.lab.report.section import ICONS, Section
from bitcycle.lab.report.study_section import StudySection
from bitcycle.lab.report.tables import html_table
from bitcycle.lab.report.wording import details, headline
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis


def sections_of(
    analyses: Sequence[Analysis], records: Iterable[RunResult], deficits: Sequence[DeficitAnalysis] = ()
) -> list[Section]:
    """Return all sections of a report with their figures described; the records are read once."""
    drawn = [setting.condition for analysis in analyses for setting in drawn_settings(analysis)]
    curves = Curves(records, [*drawn, *(each for deficit in deficits for each in drawn_conditions(deficit))])
    return [
        *(StudySection(i, analysis, curves) for i, analysis in enumerate(analyses, start=1)),
        *(DeficitSection(i, deficit, curves) for i, deficit in enumerate(deficits, start=1)),
    ]


def page(study: StudyInfo, sections: Sequence[Section]) -> str:
    """Return the page about a study.

    >>> text = page(StudyInfo("<b>", "bitcycle study", planned=1, done=0), [])
    >>> text[:15], "<h1>&lt;b&gt;</h1>" in text
    ('<!doctype html>', True)
    """
    text = render(
        "page.html",
        study=study,
        sections=sections,
        what_was_run=what_was_run(study, sections),
        failures=html_table(FAILURE_COLUMNS, study.failed, "Failed runs", "failures"),
        facts=run_facts(study),
        has_deficits=any(isinstance(section, DeficitSection) for section in sections),
        has_schedules=not sections or any(isinstance(section, StudySection) for section in sections),
        style=Markup(style()),
        script=Markup(script()),
        icons=ICONS,
        headline=headline,
        details=details,
        count=fmt.count,
        hash=_hash,
    )
    return str(text)


def _hash(text: str) -> str:
    """The hash of a style or script; a browser runs no other."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def what_was_run(study: StudyInfo, sections: Sequence[Section]) -> str:
    """Return what was run, in a sentence or two."""
    analyses = [each.analysis for each in sections if isinstance(each.analysis, Analysis)]
    deficits = [each.analysis for each in sections if isinstance(each.analysis, DeficitAnalysis)]
    if not sections:
        return f"{fmt.count(study.planned, 'run')} planned; none has finished yet."
    settings = sum(len(analysis.settings) for analysis in analyses)
    what = [f"{settings:,} schedules and baselines"] * bool(analyses) + ["deficit experiments"] * bool(deficits)
    seeds = f", {fmt.count(len(study.seeds), 'seed')} each" if study.seeds else ""
    runs = fmt.count(study.done, "training run")
    sentences = [f"{runs}: {' and '.join(what)}{seeds}, {fmt.duration(study.seconds)} of training in total."]
    if analyses:
        titles = "; ".join(analysis.title for analysis in analyses)
        sentences.append(f"{'Task' if len(analyses) == 1 else 'Tasks'}: {titles}.")
    if deficits:
        tasks = fmt.listed(dict.fromkeys(deficit.task for deficit in deficits))
        sentences.append(f"Deficits on {tasks}: a stretch of training at low precision, with its controls.")
    return " ".join(sentences)


def run_facts(study: StudyInfo) -> list[tuple[str, str]]:
    """Return what is known about how a study was run."""
    facts = [
        ("seeds", ", ".join(str(seed) for seed in study.seeds)),
        ("runs", f"{study.done:,} of {study.planned:,}"),
        ("total time of all runs", fmt.duration(study.seconds)),
        ("workers", "" if study.workers is None else f"{study.workers:,}"),
        ("started", fmt.moment(study.started)),
        ("ended", fmt.moment(study.ended or "")),
        *study.versions.items(),
    ]
    return [(name, value) for name, value in facts if value]
