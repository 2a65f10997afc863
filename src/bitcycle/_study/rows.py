"""The rows of a store: how results and failures are written in columns, and the digest that shows damage.

The digest of a row is the SHA-256 of its other columns, see :func:`digest_of`. That of a study also covers its members.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

SCHEMA = """
CREATE TABLE records (
    name TEXT PRIMARY KEY, task TEXT, schedule TEXT, seed INTEGER, run TEXT, metric TEXT, higher_is_better INTEGER,
    test REAL, validation REAL, best_step INTEGER, bitops TEXT, seconds REAL, extra TEXT, curve TEXT, versions TEXT,
    written TEXT, digest TEXT
) WITHOUT ROWID;
CREATE TABLE failures (name TEXT PRIMARY KEY, run TEXT, traceback TEXT, written TEXT, digest TEXT) WITHOUT ROWID;
CREATE TABLE studies (
    name TEXT PRIMARY KEY, plan TEXT, command TEXT, begun TEXT, workers INTEGER, ended TEXT, digest TEXT
) WITHOUT ROWID;
CREATE TABLE members (study TEXT, place INTEGER, run TEXT, name TEXT, PRIMARY KEY (study, place)) WITHOUT ROWID;
CREATE TABLE examples (name TEXT PRIMARY KEY, losses BLOB, digest TEXT) WITHOUT ROWID;
CREATE TABLE damaged (origin TEXT, content TEXT, found TEXT);
"""

CURVE = 13  # the place of the curve in a row of records

Row = Sequence[Any]

_LOSS = np.dtype("<f4")

_SEED = re.compile(r'"seed": (\d+),')  # never inside a text, where quotes are escaped

_FORMAT = "2:"
"""Begins the digests of this version."""

_ENCODER = json.JSONEncoder(separators=(",", ":"), default=repr)  # made once, because there may be many rows


class DamagedRowError(ValueError):
    """A row does not hold what was written."""


def digest_of(columns: Row) -> str:
    """Return the digest of a row: the hash of its columns, with what is not text marked by a character of its own.

    >>> digest_of(["a", 1, 0.5, None])[:16] == digest_of(["a", "1", 0.5, None])[:16]
    False
    """
    text = "\0".join([each if type(each) is str else f"\1{each!r}" for each in columns])
    return _FORMAT + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def is_intact(row: Row) -> bool:
    """Whether the last column of a row is the digest of the others."""
    return matches(row[-1], row[:-1])


def matches(digest: str, columns: Row) -> bool:
    """Whether a digest is that of some columns. Rows of earlier versions have the hash of their columns as JSON."""
    if isinstance(digest, str) and digest.startswith(_FORMAT):
        return digest == digest_of(columns)
    return digest == hashlib.sha256(_ENCODER.encode(columns).encode()).hexdigest()


def row_of_record(record: RunResult, written: str) -> Row:
    """Return a result as a row of ``records``."""
    run = record.run
    columns = (
        *(run.name, run.task, run.schedule, run.seed, json.dumps(run.as_dict())),
        *(record.metric, int(record.higher_is_better), _real(record.test), _real(record.validation), record.best_step),
        *(str(record.bitops), _real(record.seconds)),  # as text: large trainings exceed 64 bits
        *(json.dumps(record.extra), json.dumps(record.curve), json.dumps(record.versions), written),
    )
    return (*columns, digest_of(columns))


def record_of(row: Row, with_curve: bool = True) -> RunResult:
    """Return the result in a row of ``records``.

    Raises:
        DamagedRowError: The row does not match its digest, or is not that of a result.
    """
    check(row)
    try:
        run, metric, higher, test, validation, best_step, bitops, seconds, extra, curve, versions = row[4:-2]
        configuration = run_of(run)
        vars(configuration)["name"] = row[0]  # known, so it need not be computed
        return RunResult(
            run=configuration,
            metric=metric,
            higher_is_better=bool(higher),
            test=math.nan if test is None else test,  # SQLite stores NaN as NULL
            validation=math.nan if validation is None else validation,
            best_step=best_step,
            bitops=int(bitops),
            seconds=seconds,
            extra=json.loads(extra),
            curve=json.loads(curve) if with_curve else [],
            versions=dict(_versions(versions)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedRowError(f"the row of {row[0]!r} is not that of a result ({error})") from error


def row_of_losses(record: RunResult) -> Row | None:
    """Return the losses of a result's examples as a row of ``examples``, or None if it has none."""
    if record.example_losses is None:
        return None
    columns = (record.run.name, record.example_losses.astype(_LOSS).tobytes())
    return (*columns, digest_of(columns))


def losses_of(row: Row) -> NDArray[np.float32]:
    """Return the losses in a row of ``examples``.

    Raises:
        DamagedRowError: The row does not match its digest.
    """
    check(row)
    return np.frombuffer(row[1], _LOSS)


def row_of_failure(run: RunConfig, traceback: str, written: str) -> Row:
    """Return a failure as a row of ``failures``."""
    columns = (run.name, json.dumps(run.as_dict()), traceback, written)
    return (*columns, digest_of(columns))


def failure_of(row: Row) -> RunFailure:
    """Return the failure in a row of ``failures``.

    Raises:
        DamagedRowError: The row does not match its digest, or is not that of a failure.
    """
    check(row)
    try:
        return RunFailure(run_of(row[1]), str(row[2]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedRowError(f"the row of {row[0]!r} is not that of a failure ({error})") from error


def digest_of_study(study: Row, members: Sequence[Row]) -> str:
    """Return the digest of a row of ``studies`` without its last column, together with the members of the study."""
    return digest_of(_with_members(study, members))


def is_intact_study(study: Row, members: Sequence[Row]) -> bool:
    """Whether the last column of a row of ``studies`` is its digest together with the members of the study."""
    return matches(study[-1], _with_members(study[:-1], members))


def _with_members(study: Row, members: Sequence[Row]) -> Row:
    return [*study, [list(member) for member in members]]


def check(row: Row) -> None:
    """Check the digest of a row.

    Raises:
        DamagedRowError: The row does not match it.
    """
    if not is_intact(row):
        raise DamagedRowError(f"the row of {row[0]!r} does not match its digest")


def _real(value: float) -> float | None:
    """Return a number as SQLite gives it back: NaN as NULL, and no negative zero."""
    return None if math.isnan(value) else float(value) + 0.0


def run_of(text: str) -> RunConfig:
    """Return the run configuration in a column.

    Raises:
        ValueError: The text is not that of a run.
    """
    seed = _SEED.search(text)
    if seed is None:
        return _setting(text)
    return _setting(f"{text[: seed.start(1)]}0{text[seed.end(1) :]}").with_seed(int(seed[1]))


@lru_cache(maxsize=4096)
def _setting(text: str) -> RunConfig:
    """Return the run configuration in a text; runs that differ only by their seeds are parsed once."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"a run is an object, not {text[:40]}")
    return RunConfig.from_dict(values)


@lru_cache(maxsize=64)
def _versions(text: str) -> dict[str, str]:
    """Return the versions in a column; nearly all rows have the same."""
    versions: dict[str, str] = json.loads(text)
    return versions
