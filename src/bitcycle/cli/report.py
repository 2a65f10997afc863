"""``bitcycle report``, and what the commands that run studies print at their end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bitcycle.cli.parameters import REPORT_JSON, STORE, Margin, ReportFolder, StorePath, argument, json_option
from bitcycle.lab.studies.exports import json_text

if TYPE_CHECKING:
    from bitcycle.lab.studies.store import Store
    from bitcycle.lab.studies.study_result import StudyResult


def report(
    study: Annotated[str, argument("The study, by its name or by that of your own task; default: the latest.")] = "",
    store: StorePath = STORE,
    out: ReportFolder = None,
    margin: Margin = None,
    as_json: Annotated[bool, json_option(REPORT_JSON)] = False,
) -> None:
    """Write the report of a study: an HTML page, figures, tables and a Markdown summary."""
    from bitcycle.lab.runs.user_code import is_reference
    from bitcycle.lab.studies.store import Store

    with Store(store, must_exist=True) as opened:
        if is_reference(study) and study not in opened.studies():
            study = study.rpartition(":")[2]  # a study of my_task.py:MyTask is called MyTask
        write_and_print(opened, opened.study(study).name, out, margin, as_json)


def write_and_print(store: Store, name: str, folder: Path | None, margin: float | None, as_json: bool) -> StudyResult:
    """Write the report of a study, and print and return its main results."""
    from bitcycle.lab.studies.reporting import report

    safe = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study"  # without characters that a path must not have
    folder = folder or store.path.parent / safe
    result = report(store, name, folder, margin)
    page = folder / "report.html"
    if as_json:
        failures = [{"run": each.run, "reason": each.reason} for each in result.failures]
        found = {name: getattr(result, name) for name in ("planned", "done", "analyses", "deficits")}
        print(json_text({"study": name, **found, "failures": failures, "report": str(page)}))
    else:
        print(f"\n{result}\n\nreport: {page}")
    return result
