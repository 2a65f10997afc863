"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the whole result or nothing. Several processes can write to a store: each waits for the others.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from bitcycle._study.migration import migrate
from bitcycle._support.names import nearest
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

VERSION = 2
APPLICATION = 0x62697463  # "bitc": marks the file as a store
PATIENCE = 60  # seconds to wait while another process writes
MAX_NAMES = 500  # in one question; SQLite allows no more than 999 everywhere

Outcome = TypeVar("Outcome", RunResult, RunFailure)

_SCHEMA = """
CREATE TABLE records (
    name TEXT PRIMARY KEY, task TEXT, schedule TEXT, seed INTEGER, run TEXT, metric TEXT, higher_is_better INTEGER,
    test REAL, validation REAL, best_step INTEGER, bitops TEXT, seconds REAL, extra TEXT, curve TEXT, versions TEXT,
    written TEXT
) WITHOUT ROWID;
CREATE TABLE failures (name TEXT PRIMARY KEY, run TEXT, traceback TEXT, written TEXT) WITHOUT ROWID;
CREATE TABLE studies (
    name TEXT PRIMARY KEY, plan TEXT, command TEXT, begun TEXT, workers INTEGER, ended TEXT
) WITHOUT ROWID;
CREATE TABLE members (study TEXT, place INTEGER, run TEXT, PRIMARY KEY (study, place)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Study:
    """A study as it was last started."""

    name: str
    runs: tuple[RunConfig, ...]
    plan: str
    """The plan as TOML text, with every default resolved."""
    command: str
    """The command line that started the study."""
    begun: str
    """When it was last started, in ISO format."""
    workers: int | None = None
    """How many runs were trained at once; None if unknown."""
    ended: str | None = None
    """When its last run was done or failed, in ISO format; None if runs are missing."""


class Store:
    """An open store.

    Opening creates the file if it does not exist, and upgrades a store of an earlier version in one transaction. A file
    that is damaged, of a later version or not a store is refused and left unchanged.

    Args:
        path: The SQLite file.
        must_exist: Refuse to create the file.

    Raises:
        ValueError: The file is missing, damaged, of a later version, or not a store.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' creates one, --store selects one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._clear_errors():
            # Transactions are begun explicitly, so that a read and a write can share one.
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    def _open(self) -> None:
        self._connection.execute("BEGIN")  # one snapshot: another process may be creating the store
        version, application = (self._number(f"PRAGMA {name}") for name in ("user_version", "application_id"))
        empty = not self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        self._connection.execute("COMMIT")
        if empty:
            self._create()
            return
        if application != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file of another program, not a store of studies")
        if not 1 <= version <= VERSION:
            raise ValueError(
                f"{self.path} is a store of version {version}, but this bitcycle writes version {VERSION}: "
                f"choose another file with --store, or use the bitcycle that wrote it"
            )
        [(state,)] = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if state != "ok":
            raise ValueError(f"{self.path} is damaged ({' '.join(state.split())}); nothing was changed")
        if version < VERSION:
            self._migrate(version)

    def _create(self) -> None:
        with self._transaction():
            if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                return
            for statement in _SCHEMA.split(";")[:-1]:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _migrate(self, version: int) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._commit_or_roll_back():
                if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                    return
                migrate(self._connection, self.checkpoints)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            raise OSError(
                f"{self.path} is a store of version {version} and cannot be upgraded to version {VERSION} because it "
                f"is read-only: make the file and its folder writable, or copy it"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def checkpoints(self) -> Path:
        """The folder for the checkpoints of unfinished runs."""
        return self.path.with_suffix(".checkpoints")

    def begin(self, name: str, runs: Iterable[RunConfig], plan: str, command: str) -> Study:
        """Record the start of a study. It replaces an earlier study of the same name, but not its results."""
        study = Study(name, tuple(runs), plan, command, _now())
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?, NULL, NULL)", (name, plan, command, study.begun)
            )
            connection.execute("DELETE FROM members WHERE study = ?", (name,))
            connection.executemany(
                "INSERT INTO members VALUES (?, ?, ?)",
                [(name, place, json.dumps(run.as_dict())) for place, run in enumerate(study.runs)],
            )
        return study

    def set_workers(self, name: str, workers: int | None) -> None:
        """Record how many workers a study has."""
        with self._transaction() as connection:
            connection.execute("UPDATE studies SET workers = ? WHERE name = ?", (workers, name))

    def end(self, name: str) -> None:
        """Record that all runs of a study are done or failed."""
        with self._transaction() as connection:
            connection.execute("UPDATE studies SET ended = ? WHERE name = ?", (_now(), name))

    def studies(self) -> list[str]:
        """Return the names of all studies, the latest last."""
        return [name for (name,) in self._rows("SELECT name FROM studies ORDER BY begun, name")]

    def study(self, name: str) -> Study:
        """Return a study by name.

        Raises:
            ValueError: The store has no study of that name.
        """
        rows = self._rows("SELECT plan, command, begun, workers, ended FROM studies WHERE name = ?", name)
        if not rows:
            raise ValueError(f"{self.path} has no study {name!r}; {nearest(name, self.studies())}")
        members = self._rows("SELECT run FROM members WHERE study = ? ORDER BY place", name)
        with self._clear_errors():
            return Study(name, tuple(RunConfig.from_dict(json.loads(run)) for (run,) in members), *rows[0])

    def write(self, record: RunResult) -> None:
        """Write the result of a run unless it is stored already, and delete an earlier failure of the run."""
        run = record.run
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run.name, run.task, run.schedule, run.seed, json.dumps(run.as_dict())),
                    *(record.metric, record.higher_is_better, record.test, record.validation, record.best_step),
                    *(str(record.bitops), record.seconds),  # as text: large trainings exceed 64 bits
                    *(json.dumps(record.extra), json.dumps(record.curve), json.dumps(record.versions), _now()),
                ),
            )
            connection.execute("DELETE FROM failures WHERE name = ?", (run.name,))

    def fail(self, run: RunConfig, traceback: str) -> None:
        """Write the traceback of a run that failed, unless the run has a result."""
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM records WHERE name = ?", (run.name,)).fetchone():
                return
            row = (run.name, json.dumps(run.as_dict()), traceback, _now())
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", row)

    def clear_failures(self, runs: Iterable[RunConfig]) -> None:
        """Delete the failures of these runs, so that they run again."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM failures WHERE name = ?", [(run.name,) for run in runs])

    def outcome(self, run: RunConfig) -> RunResult | RunFailure | None:
        """Return the result or the failure of a run, or None if the store has neither."""
        found: list[RunResult | RunFailure] = [*self.records([run]), *self.failures([run])]
        return found[0] if found else None

    def records(self, runs: Iterable[RunConfig] | None = None) -> list[RunResult]:
        """Return the results of these runs that are done, in the order of the runs; by default, of all runs."""
        question = (
            "SELECT name, run, metric, higher_is_better, test, validation, best_step, bitops, seconds, extra, curve, "
            "versions FROM records"
        )
        return self._found(runs, question, "task, schedule, seed, name", _record)

    def done(self, names: Iterable[str] | None = None) -> set[str]:
        """Return which of these runs are done; by default, all that are."""
        if names is None:
            return {name for (name,) in self._rows("SELECT name FROM records")}
        return {name for (name,) in self._named("SELECT name FROM records", names)}

    def failures(self, runs: Iterable[RunConfig] | None = None) -> list[RunFailure]:
        """Return the failures among these runs; by default, of all runs."""
        return self._found(runs, "SELECT name, run, traceback FROM failures", "name", _failure)

    def _found(
        self, runs: Iterable[RunConfig] | None, question: str, order: str, made_of: Callable[[list[Any]], Outcome]
    ) -> list[Outcome]:
        """Return what the rows of these runs are made into, in the order of the runs; by default, of all runs."""
        if runs is None:
            with self._clear_errors():
                return [made_of(rest) for _, *rest in self._rows(f"{question} ORDER BY {order}")]
        names = [run.name for run in runs]
        with self._clear_errors():
            found = {name: made_of(rest) for name, *rest in self._named(question, names)}
        return [found[name] for name in names if name in found]

    def _named(self, question: str, names: Iterable[str]) -> Iterator[Any]:
        """Yield the rows with these names."""
        wanted = list(names)
        for first in range(0, len(wanted), MAX_NAMES):
            some = wanted[first : first + MAX_NAMES]
            yield from self._rows(f"{question} WHERE name IN ({', '.join('?' * len(some))})", *some)

    def _rows(self, question: str, *values: Any) -> list[Any]:
        with self._clear_errors():
            return self._connection.execute(question, values).fetchall()

    def _number(self, question: str) -> int:
        return int(self._connection.execute(question).fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements are executed or none; only one process at a time can be in a transaction."""
        with self._clear_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._commit_or_roll_back():
                yield self._connection

    @contextmanager
    def _commit_or_roll_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # SQLite has already rolled back if the disk is full
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and JSON into one line that names the file."""
        try:
            yield
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.path} is damaged: it contains text that is not JSON ({error})") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}; the store was not changed") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a store ({error}); nothing was changed") from error


def _record(row: list[Any]) -> RunResult:
    run, metric, higher, test, validation, best_step, bitops, seconds, extra, curve, versions = row
    return RunResult(
        run=RunConfig.from_dict(json.loads(run)),
        metric=metric,
        higher_is_better=bool(higher),
        test=_float(test),
        validation=_float(validation),
        best_step=best_step,
        bitops=int(bitops),
        seconds=seconds,
        extra=json.loads(extra),
        curve=json.loads(curve),
        versions=json.loads(versions),
    )


def _failure(row: list[Any]) -> RunFailure:
    run, traceback = row
    return RunFailure(RunConfig.from_dict(json.loads(run)), traceback)


def _float(value: float | None) -> float:
    """Return NaN for NULL, which is how SQLite stores NaN."""
    return math.nan if value is None else value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
