"""``bitcycle report``, and what the commands that run studies print at their end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bitcycle._support.text import table
from bitcycle.cli.parameters import REPORT_JSON, STORE, Margin, ReportFolder, StorePath, argument, json_option
from bitcycle.lab.studies.exports import json_text

if TYPE_CHECKING:
    from bitcycle.lab.statistics.analysis import DeficitAnalysis
    from bitcycle.lab.studies.reporting import Reported
    from bitcycle.lab.studies.store import Store


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
        names = opened.studies()
        if not names:
            raise ValueError(f"{store} has no study yet")
        name = study or names[-1]
        if name not in names and is_reference(name):  # a study of my_task.py:MyTask is called MyTask
            name = name.rpartition(":")[2]
        write_and_print(opened, name, out or report_folder(store, name), margin, as_json)


def report_folder(store: Path, name: str) -> Path:
    """Return the folder beside the store that is named after the study, with characters that are safe in a path."""
    return store.parent / (re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study")


def write_and_print(store: Store, name: str, folder: Path, margin: float | None, as_json: bool) -> None:
    """Write the report of a study and print its main results."""
    from bitcycle.lab.studies.reporting import report

    options: dict[str, Any] = {} if margin is None else {"margin": margin}
    reported = report(store, name, folder, **options)
    if as_json:
        print(json_text(_document(store, name, folder, reported)))
    else:
        _print(reported)
        print(f"\nreport: {folder / 'report.html'}")


def _document(store: Store, name: str, folder: Path, reported: Reported) -> dict[str, Any]:
    runs = store.study(name).runs
    return {
        "study": name,
        "planned": len(runs),
        "done": len(store.done() & {run.name for run in runs}),
        "failures": [{"run": failure.run, "reason": failure.reason} for failure in store.failures(runs)],
        "analyses": reported.analyses,
        "deficits": reported.deficits,
        "report": str(folder / "report.html"),
    }


def _print(reported: Reported) -> None:
    from bitcycle.lab.report.words import analysis_text

    for analysis in reported.analyses:
        print(f"\n{analysis_text(analysis)}")
    for deficit in reported.deficits:
        _print_deficit(deficit)


def _print_deficit(analysis: DeficitAnalysis) -> None:
    from bitcycle.lab.report.words import headline

    sign = "higher" if analysis.higher_is_better else "lower"
    print(f"\n{analysis.title}: {analysis.metric}, {sign} is better")
    for heading, points in (("length", analysis.lengths), ("begins at", analysis.positions)):
        rows = [
            [
                *(f"{point.place:,} steps", point.arm, f"{point.quality.mean:.4f}"),
                f"[{point.quality.low:.4f}, {point.quality.high:.4f}]",
                point.loss.outcome if point.loss else "the control",
            ]
            for point in points
        ]
        if rows:
            print(table([heading, "arm", "mean", "95 % interval", "against the control"], rows))
    for claim in analysis.claims:
        print(f"- {headline(claim, analysis)} ({claim.verdict})")
