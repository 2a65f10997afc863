"""``bitcycle results``."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import short, table
from bitcycle.cli.parameters import STORE, StorePath, json_option

if TYPE_CHECKING:
    from bitcycle._study.deficits import Cell
    from bitcycle._study.store import Study
    from bitcycle.experiments.result import RunResult
    from bitcycle.experiments.run_config import RunConfig

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
    from bitcycle._study.exports import export as write
    from bitcycle._study.exports import json_text, row
    from bitcycle._study.store import Store

    with Store(store, must_exist=True) as opened:
        names = opened.studies()
        runs = opened.study(study).runs if study else None
        found, failures = opened.records(runs), opened.failures(runs)
        purposes = _purposes([opened.study(name) for name in ([study] if study else names)])
    if export is not None:
        write(found, export)
        print(f"written: {export} ({len(found)} runs)")
    elif as_json:
        described = [{**row(each), "deficit": [_cell(cell) for cell in purposes.get(each.run, [])]} for each in found]
        broken = [{"run": each.run, "traceback": each.traceback} for each in failures]
        print(json_text({"runs": described, "failures": broken, "studies": names}))
    elif failed:
        for failure in failures:
            print(f"{failure.run.task} {failure.run.schedule} seed {failure.run.seed}\n{failure.traceback}")
    else:
        print(_table(found, purposes))
        print(f"{len(found)} runs, {len(failures)} failed; studies: {', '.join(names) or 'none'}")


def _purposes(studies: list[Study]) -> dict[RunConfig, list[Cell]]:
    """Return what the runs of deficit experiments are for."""
    from bitcycle._study.deficits import DeficitPart
    from bitcycle._study.plan_file import stored_parts

    purposes: dict[RunConfig, dict[Cell, None]] = defaultdict(dict)
    for study in studies:
        with suppress(ValueError):  # results are shown even if the plan cannot be read
            for part in stored_parts(study.plan):
                if isinstance(part, DeficitPart):
                    for cell, run in part.cells():
                        purposes[run][cell] = None
    return {run: list(cells) for run, cells in purposes.items()}


def _cell(cell: Cell) -> dict[str, Any]:
    return {"experiment": cell.experiment, "length_or_start": cell.place, "arm": cell.arm}


def _table(found: list[RunResult], purposes: dict[RunConfig, list[Cell]]) -> str:
    configurations = [_flat(each.run, purposes.get(each.run, [])) for each in found]
    columns = [*ALWAYS, *_distinguishing(configurations)]
    rows = [
        [
            *(str(configuration.get(column, "")) for column in columns),
            f"{each.test:.4f} {each.metric}",
            *(short(each.bitops // 32**2), f"{each.seconds:.1f} s", each.run.name),
        ]
        for each, configuration in zip(found, configurations, strict=True)
    ]
    headings = [column.replace("_", " ") for column in columns]
    return table([*headings, "test", "effective MACs", "time", "run"], rows)


def _flat(run: RunConfig, cells: list[Cell]) -> dict[str, Any]:
    """Return the configuration of a run as one row, with its purpose in deficit experiments."""
    values = run.as_dict()
    return {
        **{key: value for key, value in values.items() if key != "options"},
        "learning_rate": run.learning_rate or "default",
        **{f"option {key}": value for key, value in values["options"].items()},
        "experiment": ", ".join(cell.experiment for cell in cells),
        "length_or_start": ", ".join(str(cell.place) for cell in cells),
        "arm": ", ".join(dict.fromkeys(cell.arm for cell in cells)),
    }


def _distinguishing(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns in which rows with the same task, schedule and seed differ.

    >>> _distinguishing([
    ...     {"task": "image", "schedule": "CR", "seed": 0, "steps": 9, "model": "a"},
    ...     {"task": "image", "schedule": "CR", "seed": 0, "steps": 9, "model": "b"},
    ...     {"task": "graph", "schedule": "CR", "seed": 0, "steps": 7, "model": "c"},
    ... ])
    ['model']
    """
    values: dict[tuple[Any, ...], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    columns = dict.fromkeys(column for row in rows for column in row)
    for row in rows:
        same = values[tuple(row[column] for column in ALWAYS)]
        for column in columns:
            same[column].add(row.get(column))
    return [column for column in columns if any(len(same[column]) > 1 for same in values.values())]
