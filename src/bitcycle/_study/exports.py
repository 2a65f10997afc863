"""Records as tables for other programs: CSV, JSON, Parquet."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bitcycle._support.extras import need
from bitcycle.experiments.result import RunResult

FORMATS = (".csv", ".json", ".parquet")


def export(records: Iterable[RunResult], path: Path) -> None:
    """Write a file in the format that its name ends in, whole or not at all. Curves are in the JSON alone."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: results are exported to a file that ends in {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        _WRITERS[path.suffix](list(records), unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def row(record: RunResult) -> dict[str, Any]:
    """A record as one flat row."""
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


def _csv(records: list[RunResult], path: Path) -> None:
    rows = [row(record) for record in records]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _columns(rows), restval="")
        writer.writeheader()
        writer.writerows(rows)


def _json(records: list[RunResult], path: Path) -> None:
    rows = [{**row(record), "curve": record.curve} for record in records]
    path.write_text(json.dumps(_finite(rows), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _parquet(records: list[RunResult], path: Path) -> None:
    need("pyarrow", "parquet", "exporting to Parquet")
    import pyarrow
    import pyarrow.parquet

    # BitOps of large trainings exceed 64 bits, and a column has one type: they go as floats, exact below 2^53.
    rows = [{**row(record), "bitops": float(record.bitops)} for record in records]
    columns = {name: [each.get(name) for each in rows] for name in _columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for each in rows for name in each)) or ["name"]


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become text, so that nobody takes them for a number or for nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value


_WRITERS = {".csv": _csv, ".json": _json, ".parquet": _parquet}
