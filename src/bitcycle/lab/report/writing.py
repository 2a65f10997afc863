"""The files of a report: the page, a summary in Markdown, tables and figures.

All are made before the first is moved into place, so that none is ever half written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bitcycle._support.figures import png
from bitcycle.lab.report.columns import FAILURE_COLUMNS, deficits_csv, settings_csv
from bitcycle.lab.report.info import StudyInfo
from bitcycle.lab.report.page import page, run_facts, sections_of, what_was_run
from bitcycle.lab.report.section import Section
from bitcycle.lab.report.tables import fenced, markdown_table, plain
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
