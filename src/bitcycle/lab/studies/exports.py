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
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import FIELDS, ComparisonGroup, Condition, RunConfig
from bitcycle.lab.studies.rows import RESULT


def export(records: Iterable[RunResult], path: Path) -> int:
    """Write results to a file whose suffix chooses the format. Only JSON contains the curves.

    The file is written under another name and then renamed, so that it is never incomplete.

    Returns:
        The number of results.

    Raises:
        ValueError: The suffix is not one of ``.csv``, ``.json`` and ``.parquet``.
    """
    if path.suffix not in _WRITERS:
        raise ValueError(f"{path}: cannot export to this format, use a file that ends in {', '.join(_WRITERS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        return _WRITERS[path.suffix](records, unfinished)


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
    """Return a result as one flat row, without its curve."""
    run = {name: getattr(record.run, name) for name in FIELDS if name != "options"}
    return {
        "name": record.run.name,
        **run,
        "backward_bits": str(record.run.backward_bits),  # a number or a text, so that one column holds both
        **{f"option {key}": value for key, value in record.run.options},
        **{name: getattr(record, name) for name in RESULT if name not in _NESTED},
        "effective_gmacs": record.bitops / 32**2 / 1e9,
        **record.extra,
        **{f"version {key}": value for key, value in record.versions.items()},
    }


def _write_json(records: Iterable[RunResult], path: Path) -> int:
    """Write one result a line, so that large stores stream and the file stays readable."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            line = json.dumps(_plain({**row(record), "curve": record.curve}), allow_nan=False)
            file.write(f"{',' if count else '['}\n{line}")
            count += 1
        file.write("\n]\n" if count else "[]\n")
    return count


def _write_csv(records: Iterable[RunResult], path: Path) -> int:
    rows = [row(record) for record in records]
    columns = _columns(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(map(csv_cell, columns))
        writer.writerows(map(csv_cell, map(each.get, columns)) for each in rows)
    return len(rows)


def _write_parquet(records: Iterable[RunResult], path: Path) -> int:
    need("pyarrow", "parquet", "exporting to Parquet")
    import pyarrow
    import pyarrow.parquet

    # BitOps of large trainings exceed 64 bits, so the column is float: exact below 2^53.
    rows = [{**row(record), "bitops": float(record.bitops)} for record in records]
    columns = {name: [each.get(name) for each in rows] for name in _columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return len(rows)


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(rows))) or ["name"]


_WRITERS = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
_NESTED = ("extra", "curve", "versions", "example_losses")


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


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (RunConfig, Condition, ComparisonGroup, RunResult)):
        return _plain(value.as_dict())
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


FORMULA = frozenset("=+-@\t\r")
"""A text that begins with one of these is a formula to a spreadsheet."""


def csv_cell(value: Any) -> Any:
    """Return a value for a cell of a CSV file, such that a spreadsheet does not take a text for a formula.

    A text that begins as a formula does gets an apostrophe before it, which spreadsheets do not show.

    >>> csv_cell("=1+1"), csv_cell("@x"), csv_cell("-3.5"), csv_cell(-3.5), csv_cell("CR:3-8")
    ("'=1+1", "'@x", '-3.5', -3.5, 'CR:3-8')
    """
    if not isinstance(value, str) or value[:1] not in FORMULA:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
