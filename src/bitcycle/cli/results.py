"""``bitcycle results`` and ``bitcycle report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitcycle._support.text import short, table
from bitcycle.cli.parameters import STORE, Stored
from bitcycle.cli.study_output import print_report, report_folder


def results(
    study: Annotated[str, typer.Argument(help="A study; all runs of the store if not given.")] = "",
    store: Stored = STORE,
    export: Annotated[Path | None, typer.Option(help="Write them to a .csv, .json or .parquet file instead.")] = None,
    failed: Annotated[bool, typer.Option(help="Show what failed, with tracebacks.")] = False,
) -> None:
    """List the results in a store, or export them."""
    from bitcycle._study.exports import export as write
    from bitcycle._study.store import Store

    with Store(store, must_exist=True) as opened:
        runs = opened.study(study).runs if study else None
        if failed:
            for failure in opened.failures(runs):
                print(f"{failure.run.task} {failure.run.schedule} seed {failure.run.seed}\n{failure.traceback}")
            return
        records = opened.records(runs)
        names = opened.studies()
        failures = len(opened.failures(runs))
    if export is not None:
        write(records, export)
        print(f"written: {export} ({len(records)} runs)")
        return
    rows = [
        [
            *(record.run.task, record.run.schedule, str(record.run.seed), f"{record.test:.4f} {record.metric}"),
            *(short(record.bitops // 32**2), f"{record.seconds:.1f} s", record.run.name),
        ]
        for record in records
    ]
    print(table(["task", "schedule", "seed", "test", "effective MACs", "time", "run"], rows))
    print(f"{len(records)} runs, {failures} failed; studies: {', '.join(names) or 'none'}")


def report(
    study: Annotated[str, typer.Argument(help="The study; the latest if not given.")] = "",
    store: Stored = STORE,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; beside the store if not given.")] = None,
) -> None:
    """Write the report of a study: an HTML page, figures, a table and a Markdown summary."""
    from bitcycle._study.store import Store

    with Store(store, must_exist=True) as opened:
        names = opened.studies()
        if not names:
            raise ValueError(f"{store} has no study yet")
        chosen = study or names[-1]
        print_report(opened, chosen, out or report_folder(store, chosen))
