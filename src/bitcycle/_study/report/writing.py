"""The files of a report. All are made before the first is moved into place, so that none is ever half written."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.report.columns import deficits_csv, settings_csv
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.page import page_of, sections_of
from bitcycle._study.report.study_section import StudySection
from bitcycle._study.report.summary import summary
from bitcycle._support.charts.files import png, svg
from bitcycle.experiments.result import RunResult


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
    texts: dict[str, str] = {}
    pictures: dict[str, bytes] = {}
    addresses: dict[str, list[str]] = {}
    studies = [section for section in sections if isinstance(section, StudySection)]
    others = [section for section in sections if not isinstance(section, StudySection)]
    for group in (studies, others):
        for section, name in zip(group, file_names([section.task for section in group]), strict=True):
            for figure in section.figures:
                path = f"figures/{figure.name}-{name}"
                image = svg(figure.drawing)
                pictures |= {f"{path}.png": png(image), f"{path}.svg": image.encode("utf-8", "replace")}
                addresses.setdefault(section.anchor, []).append(f"{path}.png")
    texts["settings.csv"] = settings_csv(analyses)
    if deficits:
        texts["deficits.csv"] = deficits_csv(deficits)
    texts["summary.md"] = summary(study, sections, addresses)
    texts["report.html"] = page_of(study, sections)
    return replace_all(Path(folder), pictures | {name: text.encode("utf-8", "replace") for name, text in texts.items()})


def file_names(tasks: Sequence[str]) -> list[str]:
    """Return a name for the figures of each section: its task, numbered where several share it.

    >>> file_names(["image", "Graph/2", "image"])
    ['image-1', 'graph-2', 'image-3']
    """
    safe = [re.sub("[^a-z0-9]+", "-", task.lower()).strip("-")[:40] or "task" for task in tasks]
    return [f"{task}-{i}" if safe.count(task) > 1 else task for i, task in enumerate(safe, start=1)]


def replace_all(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write all files next to their final paths first, then move them, which cannot fail for lack of space."""
    waiting: list[tuple[str, Path]] = []
    try:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            waiting.append((_write_temporary(path, content), path))
        for temporary, path in waiting:
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(
            error.errno,
            f"the report could not be written ({reason}); the files of an earlier report are complete",
            str(folder),
        ) from error
    finally:
        for temporary, _ in waiting:
            Path(temporary).unlink(missing_ok=True)
    return [path for _, path in waiting]


def _write_temporary(path: Path, content: bytes) -> str:
    """Return the name of a finished file in the same folder; nothing is left behind if there is no space for it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_mask())  # mkstemp makes files that only the user can read
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return temporary


def _mask() -> int:
    """The user's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
