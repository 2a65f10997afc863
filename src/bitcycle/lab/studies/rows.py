"""The rows of a store: the columns of a run and its outcome, how values are written in them, and the digest of a row.

The columns are the fields of :class:`RunConfig` and :class:`RunResult`, so that a new field becomes a column by itself.
Texts, integers and finite numbers are stored as they are; everything else as JSON, in a blob.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig

Row = Sequence[Any]

RUN = tuple(field.name for field in fields(RunConfig))
RESULT = tuple(field.name for field in fields(RunResult) if field.name not in ("run", "example_losses"))
TABLES = {
    "runs": ("name", *RUN, *RESULT, "traceback", "written", "digest"),
    "losses": ("name", "losses", "digest"),
    "studies": ("name", "plan", "command", "begun", "workers", "ended", "members", "deficits", "digest"),
}
"""The columns of each table. The first is the key, the last the digest of the others."""

MAX_INTEGER = 2**63 - 1  # of SQLite; the BitOps of large trainings exceed it

_LOSS = np.dtype("<f4")
_NO_RESULT = (None,) * len(RESULT)
_CURVE = RESULT.index("curve")
_ENCODER = json.JSONEncoder()  # made once, because there may be many rows


class DamagedRowError(ValueError):
    """A row does not hold what was written."""


def with_digest(columns: Row) -> Row:
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


def check(row: Row) -> None:
    """Raise a DamagedRowError if a row does not match its digest."""
    if not is_intact(row):
        raise DamagedRowError(f"the row of {row[0]!r} does not match its digest")


def row_of_result(result: RunResult, written: str) -> Row:
    """Return a result as a row of ``runs``."""
    return with_digest([*_run_columns(result.run), *(getattr(result, name) for name in RESULT), None, written])


def row_of_failure(failure: RunFailure, written: str) -> Row:
    """Return a failure as a row of ``runs``."""
    return with_digest([*_run_columns(failure.run), *_NO_RESULT, failure.traceback, written])


def outcome_of(row: Row, with_curve: bool = True) -> RunResult | RunFailure:
    """Return the result or the failure in a row of ``runs``.

    Raises:
        DamagedRowError: The row does not match its digest, or holds no outcome of a run.
    """
    check(row)
    try:
        run = RunConfig(**dict(zip(RUN, map(decode, row[1:]), strict=False)))
        result, traceback = list(row[1 + len(RUN) : -3]), row[-3]
        if traceback is not None:
            return RunFailure(run, str(traceback))
        if not with_curve:
            result[_CURVE] = b"[]"
        return RunResult(run, **dict(zip(RESULT, map(decode, result), strict=True)))
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedRowError(f"the row of {row[0]!r} is not that of a run ({error})") from error


def row_of_losses(name: str, losses: NDArray[np.float32]) -> Row:
    """Return the losses of the test examples of a run as a row of ``losses``."""
    return with_digest([name, losses.astype(_LOSS).tobytes()])


def losses_of(row: Row) -> NDArray[np.float32]:
    """Return the losses in a row of ``losses``.

    Raises:
        DamagedRowError: The row does not match its digest.
    """
    check(row)
    return np.frombuffer(row[1], _LOSS)


def decode(column: Any) -> Any:
    """Return the value that :func:`with_digest` wrote in a column."""
    return json.loads(column) if isinstance(column, bytes) else column


def _run_columns(run: RunConfig) -> list[Any]:
    return [run.name, *(getattr(run, name) for name in RUN)]


def _encode(value: Any) -> str | int | float | bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return str(value)  # a plain one: the repr of an enum is another
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return _ENCODER.encode(value).encode()


def _digest(columns: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(columns).encode()).hexdigest()
