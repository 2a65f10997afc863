"""Results as tables for other programs: CSV, JSON, Parquet."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bitcycle._support.extras import need
from bitcycle._support.text import FORMULA, csv_cell
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig, operands_used

FORMATS = (".csv", ".json", ".parquet")

_ENCODER = json.JSONEncoder(allow_nan=False)  # made once, because there may be many rows


def export(records: Iterable[RunResult], path: Path) -> int:
    """Write results to a file whose suffix chooses the format. Only JSON contains the curves.

    The file is written under another name and then renamed, so that it is never incomplete.

    Returns:
        The number of results.

    Raises:
        ValueError: The suffix is not one of ``.csv``, ``.json`` and ``.parquet``.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: cannot export to this format, use a file that ends in {', '.join(FORMATS)}")
    if path.suffix == ".json":
        return export_json(((record, _json_line(record.curve)) for record in records), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        return _csv(records, unfinished) if path.suffix == ".csv" else _parquet(records, unfinished)


def export_json(records: Iterable[tuple[RunResult, str]], path: Path) -> int:
    """Write results as JSON, one a line, so that a large store neither needs memory nor makes a line nobody can open.

    Args:
        records: The results, each with its curve as JSON text. To read and write these again would take most of the
            time.
        path: The file, which is written under another name and then renamed.

    Returns:
        The number of results.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for record, curve in records:
            if "NaN" in curve or "Infinity" in curve:  # which JSON lacks
                curve = _json_line(json.loads(curve))
            file.write(f'{"," if count else "["}\n{_json_line(row(record))[:-1]}, "curve": {curve}}}')
            count += 1
        file.write("\n]\n" if count else "[]\n")
    return count


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give another name to write a file under, which is renamed when the context is left without an error."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def row(record: RunResult) -> dict[str, Any]:
    """Return a result as one flat row."""
    run = record.run.as_dict()
    options = run.pop("options")
    return {
        "name": record.run.name,
        **run,
        "backward_bits": str(run["backward_bits"]),
        **{f"option {key}": value for key, value in options.items()},
        "metric": record.metric,
        "test": record.test,
        "validation": record.validation,
        "best_step": record.best_step,
        "bitops": record.bitops,
        "effective_gmacs": record.bitops / 32**2 / 1e9,
        "seconds": record.seconds,
        **record.extra,
        **{f"version {key}": value for key, value in record.versions.items()},
    }


def _csv(records: Iterable[RunResult], path: Path) -> int:
    rows = _rows(records)
    columns = _columns(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([csv_cell(column) for column in columns])
        # A store may have a million cells: only those that could be formulas are looked at more closely.
        writer.writerows(
            [
                csv_cell(cell) if isinstance(cell, str) and cell[:1] in FORMULA else cell
                for cell in map(each.get, columns)
            ]
            for each in rows
        )
    return len(rows)


def _parquet(records: Iterable[RunResult], path: Path) -> int:
    need("pyarrow", "parquet", "exporting to Parquet")
    import pyarrow
    import pyarrow.parquet

    # BitOps of large trainings exceed 64 bits, so the column is float: exact below 2^53.
    rows = [{**each, "bitops": float(each["bitops"])} for each in _rows(records)]
    columns = {name: [each.get(name) for each in rows] for name in _columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return len(rows)


def _rows(records: Iterable[RunResult]) -> list[dict[str, Any]]:
    """Return flat rows for a table: a column of operands that some run uses has a value in every row."""
    found = list(records)
    used = operands_used(record.run for record in found)
    if not used:
        return [row(record) for record in found]
    return [row(record) | {name: record.run.operands[name] for name in used} for record in found]


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    layouts = dict.fromkeys(map(tuple, rows))  # nearly all rows have the same
    return list(dict.fromkeys(chain.from_iterable(layouts))) or ["name"]


def json_text(value: Any) -> str:
    """Return a value as standard JSON, with NaN and infinity, which JSON lacks, as the text ``nan``, ``inf``, ``-inf``.

    Dataclasses become objects.

    >>> print(json_text({"test": math.nan, "seeds": (0, 1)}))
    {
     "test": "nan",
     "seeds": [
      0,
      1
     ]
    }
    """
    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _json_line(value: Any) -> str:
    """Return a value as JSON in one line, like :func:`json_text`."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # NaN, which is rare
        return _ENCODER.encode(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, RunConfig):
        return value.as_dict()
    if isinstance(value, RunResult):
        return _plain(value.as_dict())
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
