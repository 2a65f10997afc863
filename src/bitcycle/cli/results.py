"""``bitcycle results``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import short, table
from bitcycle.cli.parameters import STORE, StorePath, json_option

if TYPE_CHECKING:
    from bitcycle.lab.runs.result import RunResult
    from bitcycle.lab.runs.run_config import RunConfig
    from bitcycle.lab.studies.deficits import Cell, DeficitPart

ALWAYS = ("task", "schedule", "seed")
"""Columns that identify a run, unless further ones are needed."""


def results(
    study: Annotated[str, typer.Argument(help="A study; default: all runs in the store.")] = "",
    store: StorePath = STORE,
    export: Annotated[Path | None, typer.Option(help="Write a .csv, .json or .parquet file instead.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Show failed runs with their tracebacks.")] = False,
    as_json: Annotated[
        bool,
        json_option(
            "an object with runs (name, run configuration, metrics, bitops, seconds, versions, and deficit: "
            "experiment, length_or_start and arm), failures (run, traceback) and studies"
        ),
    ] = False,
) -> None:
    """List the results in a store, or export them."""
    from bitcycle.lab.runs.result import RunFailure, RunResult
    from bitcycle.lab.studies.exports import export as write
    from bitcycle.lab.studies.exports import json_text, row
    from bitcycle.lab.studies.store import Store

    with Store(store, must_exist=True) as opened:
        names = opened.studies()
        studies = [opened.study(name) for name in ([study] if study else names)]
        runs = studies[0].runs if study else None
        if export is not None:
            outcomes = opened.outcomes(runs, with_curves=export.suffix == ".json")
            count = write((each for each in outcomes if isinstance(each, RunResult)), export)
            print(f"written: {export} ({count} runs)")
            return
        outcomes = opened.outcomes(runs, with_curves=False)
        found: list[RunResult] = []
        failures: list[RunFailure] = []
        for outcome in outcomes:
            if isinstance(outcome, RunResult):
                found.append(outcome)
            else:
                failures.append(outcome)
    purposes = _purposes(part for each in studies for part in each.deficits)
    if as_json:
        described = [{**row(each), "deficit": [_cell(cell) for cell in purposes.get(each.run, [])]} for each in found]
        broken = [{"run": each.run, "traceback": each.traceback} for each in failures]
        print(json_text({"runs": described, "failures": broken, "studies": names}))
    elif failed:
        for failure in failures:
            print(f"{failure.run.task} {failure.run.schedule} seed {failure.run.seed}\n{failure.traceback}")
    else:
        print(_table(found, purposes))
        print(f"{len(found)} runs, {len(failures)} failed; studies: {', '.join(names) or 'none'}")


def _purposes(parts: Iterable[DeficitPart]) -> dict[RunConfig, list[Cell]]:
    """Return what the runs of deficit experiments are for."""
    purposes: dict[RunConfig, dict[Cell, None]] = defaultdict(dict)
    for part in parts:
        for cell, run in part.cells():
            purposes[run][cell] = None
    return {run: list(cells) for run, cells in purposes.items()}


def _cell(cell: Cell) -> dict[str, Any]:
    return {"experiment": cell.experiment, "length_or_start": cell.place, "arm": cell.arm}


def _table(found: list[RunResult], purposes: dict[RunConfig, list[Cell]]) -> str:
    from bitcycle.lab.runs.run_config import grouped_by_condition, operands_used

    def flat(run: RunConfig) -> dict[str, Any]:
        return _flat(run, purposes.get(run, []))

    settings = grouped_by_condition(each.run for each in found)
    further = list(
        dict.fromkeys([*operands_used(runs[0].condition for runs in settings), *_distinguishing(settings, flat)])
    )
    cells: dict[str, tuple[str, ...]] = {}  # by the name of the run
    if further:
        for alike in settings:
            # Seeds of a setting differ in none of these columns, unless a deficit experiment has only some of them.
            groups = [[run] for run in alike] if purposes else [alike]
            for group in groups:
                values = flat(group[0])
                texts = tuple(str(values.get(column, "")) for column in further)
                cells |= dict.fromkeys((run.name for run in group), texts)
    rows = []
    for each in found:
        run = each.run
        rows.append(
            [
                *(run.task, run.schedule, str(run.seed), *cells.get(run.name, ())),
                f"{each.test:.4f} {each.metric}",
                *(short(each.bitops // 32**2), f"{each.seconds:.1f} s", run.name),
            ]
        )
    headings = [column.replace("_", " ") for column in (*ALWAYS, *further)]
    return table([*headings, "test", "effective MACs", "time", "run"], rows)


def _flat(run: RunConfig, cells: list[Cell]) -> dict[str, Any]:
    """Return the configuration of a run as one row, with its purpose in deficit experiments."""
    values = run.as_dict()
    return {
        **{key: value for key, value in values.items() if key != "options"},
        **run.condition.operands,
        "learning_rate": run.learning_rate or "default",
        **{f"option {key}": value for key, value in values["options"].items()},
        "experiment": ", ".join(cell.experiment for cell in cells),
        "length_or_start": ", ".join(str(cell.place) for cell in cells),
        "arm": ", ".join(dict.fromkeys(cell.arm for cell in cells)),
    }


def _distinguishing(settings: list[list[RunConfig]], flat: Callable[[RunConfig], dict[str, Any]]) -> list[str]:
    """Return the columns in which runs with the same task, schedule and seed differ; such runs have other settings."""
    counts = Counter((runs[0].task, runs[0].schedule) for runs in settings)
    alike: dict[tuple[Any, ...], list[RunConfig]] = defaultdict(list)
    for runs in settings:
        if counts[runs[0].task, runs[0].schedule] > 1:
            for run in runs:
                alike[run.task, run.schedule, run.seed].append(run)
    columns: dict[str, bool] = {}
    for runs in alike.values():
        if len(runs) > 1:
            rows = [flat(run) for run in runs]
            for column in dict.fromkeys(column for row in rows for column in row):
                differs = any(row.get(column) != rows[0].get(column) for row in rows)
                columns[column] = columns.get(column, False) or differs
    return [column for column, differs in columns.items() if differs]
