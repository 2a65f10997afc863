"""``bitcycle results``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bitcycle._support.text import table
from bitcycle.cli.parameters import STORE, StorePath, argument, json_option, option
from bitcycle.lab.format import duration, short

if TYPE_CHECKING:
    from bitcycle.lab.runs.result import RunResult
    from bitcycle.lab.runs.run_config import RunConfig
    from bitcycle.lab.studies.deficits import Cell, DeficitPart

ALWAYS = ("task", "schedule", "seed")
"""Columns that identify a run, unless further ones are needed."""


def results(
    study: Annotated[str, argument("A study; default: all runs in the store.")] = "",
    store: StorePath = STORE,
    export: Annotated[Path | None, option("Write a .csv, .json or .parquet file instead.")] = None,
    failed: Annotated[bool, option("Show failed runs with their tracebacks.", "--failed")] = False,
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
            if export.exists() and export.samefile(store):
                raise ValueError(f"{export} is the store itself: choose another file for the export")
            outcomes = opened.outcomes(runs, with_curves=export.suffix == ".json")
            count = write((each for each in outcomes if isinstance(each, RunResult)), export)
            print(f"written: {export} ({count} runs)")
            return
        everything = list(opened.outcomes(runs, with_curves=False))
    found = [each for each in everything if isinstance(each, RunResult)]
    failures = [each for each in everything if isinstance(each, RunFailure)]
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
    """Return the results as a text table with the columns that tell the runs apart."""
    from bitcycle.lab.runs.run_config import operands_used

    rows = [_flat(each.run, purposes.get(each.run, [])) for each in found]
    used = operands_used(each.run.condition for each in found)
    columns = list(dict.fromkeys([*ALWAYS, *used, *_distinguishing(rows)]))
    cells = [
        [
            *(str(row.get(column, "")) for column in columns),
            f"{each.test:.4f} {each.metric}",
            *(short(each.bitops // 32**2), duration(each.seconds), each.run.name),
        ]
        for each, row in zip(found, rows, strict=True)
    ]
    headings = [column.replace("_", " ") for column in columns]
    return table([*headings, "test", "effective MACs", "time", "run"], cells)


def _flat(run: RunConfig, cells: list[Cell]) -> dict[str, Any]:
    """Return the configuration of a run as one row, with its purpose in deficit experiments."""
    values = run.as_dict()
    options = values.pop("options")
    return {
        **values,
        **run.condition.operands,
        "learning_rate": run.learning_rate or "default",
        **{f"option {key}": value for key, value in options.items()},
        "experiment": ", ".join(cell.experiment for cell in cells),
        "length_or_start": ", ".join(str(cell.place) for cell in cells),
        "arm": ", ".join(dict.fromkeys(cell.arm for cell in cells)),
    }


def _distinguishing(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns in which rows with the same task, schedule and seed differ."""
    alike: dict[tuple[Any, ...], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    names = dict.fromkeys(name for row in rows for name in row)
    for row in rows:
        for name in names:
            alike[tuple(row[column] for column in ALWAYS)][name].add(row.get(name))
    return [name for name in names if any(len(values[name]) > 1 for values in alike.values())]
