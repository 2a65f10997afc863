"""The store: one SQLite file with the plans of studies and the records of their runs.

A record is written once, in one transaction, when its run is done; so a kill at any moment leaves it there whole or not
at all. Several processes may write at once: each waits for the other.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

VERSION = 1
APPLICATION = 0x62697463  # "bitc": tells a store from any other SQLite file
PATIENCE = 60  # seconds to wait while another process writes

_SCHEMA = """
CREATE TABLE records (
    name TEXT PRIMARY KEY, task TEXT, schedule TEXT, seed INTEGER, run TEXT, metric TEXT, higher_is_better INTEGER,
    test REAL, validation REAL, best_step INTEGER, bitops TEXT, seconds REAL, extra TEXT, curve TEXT, versions TEXT,
    written TEXT
) WITHOUT ROWID;
CREATE TABLE failures (name TEXT PRIMARY KEY, run TEXT, traceback TEXT, written TEXT) WITHOUT ROWID;
CREATE TABLE studies (name TEXT PRIMARY KEY, plan TEXT, command TEXT, begun TEXT) WITHOUT ROWID;
CREATE TABLE members (study TEXT, place INTEGER, run TEXT, PRIMARY KEY (study, place)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Study:
    """A study as it was last started."""

    name: str
    runs: tuple[RunConfig, ...]
    plan: str
    """As TOML."""
    command: str
    begun: str


class Store:
    """Opens the file, or makes it; one that is damaged or of another version is refused and left as it is."""

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' makes one, --store names it")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._saying_what_is_wrong():
            # Transactions are begun by hand, so that reading and writing within one cannot be torn apart.
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            self._open()

    def _open(self) -> None:
        self._connection.execute("BEGIN")  # one look, lest another process makes the store between two
        version, application = (self._number(f"PRAGMA {name}") for name in ("user_version", "application_id"))
        empty = not self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        self._connection.execute("COMMIT")
        if application != APPLICATION and not empty:
            raise ValueError(f"{self.path} is an SQLite file of something else, not a store of studies")
        if not empty and version != VERSION:
            raise ValueError(
                f"{self.path} is a store of version {version}, this bitcycle writes version {VERSION}: "
                f"choose another with --store, or the bitcycle that wrote it"
            )
        if not empty:
            [(state,)] = self._connection.execute("PRAGMA quick_check(1)").fetchall()
            if state != "ok":
                raise ValueError(f"{self.path} is damaged ({' '.join(state.split())}); nothing was changed")
            return
        with self._transaction():
            if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                return
            for statement in _SCHEMA.split(";")[:-1]:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def checkpoints(self) -> Path:
        """Where unfinished runs keep their checkpoints."""
        return self.path.with_suffix(".checkpoints")

    def begin(self, name: str, runs: Iterable[RunConfig], plan: str, command: str) -> Study:
        """Note a study. Started again under the same name, perhaps with other runs, it takes the place of the old."""
        study = Study(name, tuple(runs), plan, command, _now())
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?)", (name, plan, command, study.begun))
            connection.execute("DELETE FROM members WHERE study = ?", (name,))
            connection.executemany(
                "INSERT INTO members VALUES (?, ?, ?)",
                [(name, place, _json(run.as_dict())) for place, run in enumerate(study.runs)],
            )
        return study

    def studies(self) -> list[str]:
        """The names of all studies, the latest last."""
        return [name for (name,) in self._rows("SELECT name FROM studies ORDER BY begun, name")]

    def study(self, name: str) -> Study:
        """A study by its name."""
        found = self._rows("SELECT plan, command, begun FROM studies WHERE name = ?", name)
        if not found:
            raise ValueError(f"{self.path} has no study {name!r}; {nearest(name, self.studies())}")
        members = self._rows("SELECT run FROM members WHERE study = ? ORDER BY place", name)
        [(plan, command, begun)] = found
        with self._saying_what_is_wrong():
            return Study(name, tuple(RunConfig.from_dict(json.loads(run)) for (run,) in members), plan, command, begun)

    def write(self, record: RunResult) -> None:
        """Keep a record, unless it is there already; an earlier failure of the run is forgotten."""
        run = record.run
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run.name, run.task, run.schedule, run.seed, _json(run.as_dict())),
                    *(record.metric, record.higher_is_better, record.test, record.validation, record.best_step),
                    *(str(record.bitops), record.seconds),  # as text: large trainings exceed 64 bits
                    *(_json(record.extra), _json(record.curve), _json(record.versions), _now()),
                ),
            )
            connection.execute("DELETE FROM failures WHERE name = ?", (run.name,))

    def fail(self, run: RunConfig, traceback: str) -> None:
        """Keep the traceback of a run that failed."""
        with self._transaction() as connection:
            row = (run.name, _json(run.as_dict()), traceback, _now())
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", row)

    def clear_failures(self, runs: Iterable[RunConfig]) -> None:
        """Forget that these runs failed."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM failures WHERE name = ?", [(run.name,) for run in runs])

    def records(self, runs: Iterable[RunConfig] | None = None) -> list[RunResult]:
        """The records of these runs as far as they are done, in the order of the runs; all of them if not given."""
        rows = self._rows(
            "SELECT name, run, metric, higher_is_better, test, validation, best_step, bitops, seconds, extra, curve, "
            "versions FROM records ORDER BY task, schedule, seed, name"
        )
        with self._saying_what_is_wrong():
            found = {name: _record(rest) for name, *rest in rows}
        return list(found.values()) if runs is None else [found[run.name] for run in runs if run.name in found]

    def done(self) -> set[str]:
        """The names of all runs that are done."""
        return {name for (name,) in self._rows("SELECT name FROM records")}

    def failures(self, runs: Iterable[RunConfig] | None = None) -> list[RunFailure]:
        """The failures among these runs; all of them if not given."""
        rows = self._rows("SELECT name, run, traceback FROM failures ORDER BY name")
        with self._saying_what_is_wrong():
            found = {name: RunFailure(RunConfig.from_dict(json.loads(run)), text) for name, run, text in rows}
        return list(found.values()) if runs is None else [found[run.name] for run in runs if run.name in found]

    def _rows(self, question: str, *values: Any) -> list[Any]:
        with self._saying_what_is_wrong():
            return self._connection.execute(question, values).fetchall()

    def _number(self, question: str) -> int:
        return int(self._connection.execute(question).fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; only one process at a time."""
        with self._saying_what_is_wrong():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _saying_what_is_wrong(self) -> Iterator[None]:
        try:
            yield
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.path} is damaged, it holds a text that is no JSON: {error}") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}; what was there before is untouched") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or no store ({error}); nothing was changed") from error


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


def _float(value: float | None) -> float:
    """SQLite keeps not-a-number as NULL."""
    return math.nan if value is None else value


def _json(value: Any) -> str:
    return json.dumps(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
