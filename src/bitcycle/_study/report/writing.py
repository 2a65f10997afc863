"""The files of a report. All are made before the first is put in its place, so that none is ever half there."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.report.deficits.points_csv import deficits_csv
from bitcycle._study.report.figures import deficit_figures, figures
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.page import page
from bitcycle._study.report.settings_csv import settings_csv
from bitcycle._study.report.summary import summary
from bitcycle.experiments.result import RunResult


def write_report(
    folder: Path,
    study: StudyInfo,
    analyses: list[Analysis],
    records: list[RunResult],
    deficits: Sequence[DeficitAnalysis] = (),
) -> list[Path]:
    """Write report.html, summary.md, settings.csv and the folder ``figures``; give the paths of all of them.

    Deficit experiments have a deficits.csv as well. An OSError says in one line why a report could not be written; the
    files of an earlier one are then still whole.
    """
    contents: dict[str, bytes] = {}
    names = file_names([analysis.question.task for analysis in analyses])
    drawn = [figures(analysis, records, name) for analysis, name in zip(analyses, names, strict=True)]
    names = file_names([deficit.task for deficit in deficits])
    drawn += [deficit_figures(deficit, records, name) for deficit, name in zip(deficits, names, strict=True)]
    pictures = []
    for files in drawn:
        contents |= {f"figures/{file}": content for file, content in files.items()}
        pictures.append([f"figures/{file}" for file in files if file.endswith(".png")])
    contents["settings.csv"] = settings_csv(analyses).encode("utf-8", "replace")
    if deficits:
        contents["deficits.csv"] = deficits_csv(deficits).encode("utf-8", "replace")
    contents["summary.md"] = summary(study, analyses, pictures, deficits).encode("utf-8", "replace")
    contents["report.html"] = page(study, analyses, records, deficits).encode("utf-8", "replace")
    return replace_all(Path(folder), contents)


def file_names(tasks: Sequence[str]) -> list[str]:
    """A name for the figures of each question: its task, numbered where several share it.

    >>> file_names(["image", "Graph/2", "image"])
    ['image-1', 'graph-2', 'image-3']
    """
    safe = [re.sub("[^a-z0-9]+", "-", task.lower()).strip("-")[:40] or "task" for task in tasks]
    return [f"{task}-{i}" if safe.count(task) > 1 else task for i, task in enumerate(safe, start=1)]


def replace_all(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write all files beside their places first, then move them there, which cannot fail for want of room."""
    waiting: list[tuple[str, Path]] = []
    try:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            waiting.append((_write_beside(path, content), path))
        for temporary, path in waiting:
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(
            error.errno,
            f"the report could not be written ({reason}); files of an earlier report are whole",
            str(folder),
        ) from error
    finally:
        for temporary, _ in waiting:
            Path(temporary).unlink(missing_ok=True)
    return [path for _, path in waiting]


def _write_beside(path: Path, content: bytes) -> str:
    """The name of a finished file in the same folder; nothing is left behind if there is no room for it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_mask())  # mkstemp makes files for the user alone
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return temporary


def _mask() -> int:
    """What the user takes away from the rights of new files; it can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
