"""A report of a study: one page that works offline, a summary in Markdown, tables and figures.

All files are made before the first is moved into place, so that none is ever half written.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report.columns import FAILURE_COLUMNS, deficits_csv, settings_csv
from bitcycle.lab.report.deficit_section import DeficitSection, drawn_conditions
from bitcycle.lab.report.figures import png
from bitcycle.lab.report.labels import drawn_settings
from bitcycle.lab.report.line_plots import Curves
from bitcycle.lab.report.rendering import fenced, html_table, markdown_table, plain, render, script, style
from bitcycle.lab.report.section import ICONS, Section, StudyInfo
from bitcycle.lab.report.study_section import StudySection
from bitcycle.lab.report.words import details, headline
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis


def write_report(
    folder: Path,
    study: StudyInfo,
    analyses: Sequence[Analysis],
    records: Iterable[RunResult],
    deficits: Sequence[DeficitAnalysis] = (),
) -> list[Path]:
    """Write report.html, summary.md, settings.csv and the folder ``figures``.

    Deficit experiments add a deficits.csv. The records are read once, so they may come from an iterator.

    Returns:
        The paths of all files.

    Raises:
        OSError: If a file cannot be written; the files of an earlier report are then still complete.
    """
    sections = sections_of(analyses, records, deficits)
    contents: dict[str, bytes] = {}
    addresses: dict[str, list[str]] = {}
    names = file_names([a.comparison_group.task for a in analyses]) + file_names([deficit.task for deficit in deficits])
    for section, name in zip(sections, names, strict=True):
        for figure in section.figures:
            path, image = f"figures/{figure.name}-{name}", figure.file()
            contents |= {f"{path}.png": png(image), f"{path}.svg": image.encode()}
            addresses.setdefault(section.anchor, []).append(f"{path}.png")
    texts = {
        "settings.csv": settings_csv(analyses),
        **({"deficits.csv": deficits_csv(deficits)} if deficits else {}),
        "summary.md": summary(study, sections, addresses),
        "report.html": page(study, sections),
    }
    return replace_all(Path(folder), contents | {name: text.encode("utf-8", "replace") for name, text in texts.items()})


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
    blocks += ["## How to reproduce this study", fenced(study.command), plain(facts) + "."]
    return "\n\n".join(blocks) + "\n"


def file_names(tasks: Sequence[str]) -> list[str]:
    """Return a name for the figures of each section: its task, numbered where several share it.

    >>> file_names(["image", "Graph/2", "image"])
    ['image-1', 'graph-2', 'image-3']
    """
    safe = [re.sub("[^a-z0-9]+", "-", task.lower()).strip("-")[:40] or "task" for task in tasks]
    return [f"{task}-{i}" if safe.count(task) > 1 else task for i, task in enumerate(safe, start=1)]


def replace_all(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write all files inside the folder first, then move them, which cannot fail for lack of space."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as temporary:
            for name, content in contents.items():
                for path in (Path(temporary, name), folder / name):
                    path.parent.mkdir(exist_ok=True)
                Path(temporary, name).write_bytes(content)
            return [Path(temporary, name).replace(folder / name) for name in contents]
    except OSError as error:
        reason = (
            f"the report could not be written ({error.strerror or error}); the files of an earlier report are complete"
        )
        raise type(error)(error.errno, reason, str(folder)) from error
