"""The rows of a store: the columns of a run and its outcome, how values are written in them, and the digest of a row.

The columns are the fields of :class:`RunConfig` and :class:`RunResult`, so that a new field becomes a column by itself.
Texts, integers and finite numbers are stored as they are; everything else as JSON, in a blob.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import FIELDS, RunConfig

Row = Sequence[Any]

RESULT = tuple(field.name for field in fields(RunResult) if field.name != "run")
COLUMNS = {
    "runs": ("name", *FIELDS, *RESULT, "traceback", "written", "digest"),
    "studies": ("name", "plan", "command", "begun", "workers", "ended", "members", "deficits", "digest"),
}
"""The columns of each table. The first is the key, the last the digest of the others."""

MAX_INTEGER = 2**63 - 1  # of SQLite; the BitOps of large trainings exceed it
_LOSS = np.dtype("<f4")


def with_digest(columns: Iterable[Any]) -> Row:
    """Return a row: the columns as they are stored, and the SHA-256 digest of their ``repr``.

    >>> row = with_digest(["a", True, {"x": 0.5}])
    >>> row[:-1], len(row[-1])
    (('a', b'true', b'{"x": 0.5}'), 64)
    """
    encoded = tuple(map(_encode, columns))
    return (*encoded, _digest(encoded))


def is_intact(row: Row) -> bool:
    """Whether the last column of a row is the digest of the others."""
    return bool(row[-1] == _digest(tuple(row[:-1])))


def row_of(outcome: RunResult | RunFailure, written: str) -> Row:
    """Return an outcome as a row of ``runs``."""
    run = outcome.run
    if isinstance(outcome, RunFailure):
        ending = [*(None for _ in RESULT), outcome.traceback]
    else:
        ending = [*(getattr(outcome, name) for name in RESULT), None]
    return with_digest([run.name, *(getattr(run, name) for name in FIELDS), *ending, written])


def outcome_of(row: Row, with_curve: bool = True) -> RunResult | RunFailure:
    """Return the result, without the losses of examples, or the failure in a row of ``runs``."""
    values = named("runs", row)
    run = RunConfig(**{name: decode(values[name]) for name in FIELDS})
    if values["traceback"] is not None:
        return RunFailure(run, values["traceback"])
    left_out = ("example_losses",) if with_curve else ("example_losses", "curve")
    return RunResult(run, **{name: decode(values[name]) for name in RESULT if name not in left_out})


def losses_of(row: Row) -> NDArray[np.float32] | None:
    """Return the losses of the test examples in a row of ``runs``."""
    losses = named("runs", row)["example_losses"]
    return None if losses is None else np.frombuffer(losses, _LOSS)


def named(table: str, row: Row) -> dict[str, Any]:
    """Return the columns of a row by their names."""
    return dict(zip(COLUMNS[table], row, strict=True))


def decode(column: Any) -> Any:
    """Return the value that :func:`with_digest` wrote in a column."""
    return json.loads(column) if isinstance(column, bytes) else column


def _encode(value: Any) -> str | int | float | bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return value.astype(_LOSS).tobytes()
    if isinstance(value, str):
        return str(value)  # a plain one: the repr of an enum is another
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return json.dumps(value).encode()


def _digest(columns: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(columns).encode()).hexdigest()
