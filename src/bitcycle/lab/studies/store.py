"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the complete result or nothing. Several processes can write to a store: each waits for the others.

``PRAGMA integrity_check`` finds damage to the structure of the file, and to the names of runs, which an index holds a
second time, when the file is opened. Each row has a digest that is checked when it is read. So an answer is right or
refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.rows import COLUMNS, Row, decode, is_intact, losses_of, named, outcome_of, row_of, with_digest

VERSION = 7
APPLICATION = 0x62697463  # "bitc": marks the file as a store
LOCK_TIMEOUT_S = 60
"""How long to wait while another process writes."""
MAX_NAMES = 500  # in one query; SQLite allows no more than 999 everywhere

SCHEMA = {
    table: f"CREATE TABLE {table} ({names[0]} TEXT PRIMARY KEY, " + ", ".join(f'"{name}"' for name in names[1:]) + ")"
    for table, names in COLUMNS.items()
}
"""The statement that creates each table. Columns have no type, so that SQLite converts no value."""


@dataclass(frozen=True)
class Study:
    """A study as it was last started."""

    name: str
    members: dict[RunConfig, Purpose]
    """The runs of its plan, each with its purpose."""
    deficits: tuple[DeficitPart, ...]
    """The deficit experiments of its plan."""
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

    @property
    def runs(self) -> tuple[RunConfig, ...]:
        """The runs of its plan."""
        return tuple(self.members)


class Store:
    """An open store.

    Opening creates the file if it does not exist. A file that is damaged, of another version or not a store is refused
    and left unchanged. Methods that read raise a ValueError if a row they need is damaged.

    Args:
        path: The SQLite file.
        must_exist: Refuse to create the file.

    Raises:
        ValueError: The file is missing, damaged, of another version, or not a store.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        self.path = Path(path)
        self.checkpoints = self.path.absolute().with_suffix(".checkpoints")
        """The folder for the checkpoints of unfinished runs. A task may change the working directory."""
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' creates one, --store selects one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._one_line_errors():
            # Transactions are begun explicitly, so that a read and a write can share one.
            self._connection = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
            # Text that is not UTF-8 any more is damage that the digest of its row shows.
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            try:
                if not self._schema():
                    self._create()
                self._check()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def begin(
        self,
        name: str,
        members: Mapping[RunConfig, Purpose],
        plan: str,
        command: str,
        deficits: Iterable[DeficitPart] = (),
    ) -> None:
        """Record the start of a study. It replaces an earlier study of the same name, but not its results."""
        described = [(run.as_dict(), purpose) for run, purpose in members.items()]
        columns = (name, plan, command, _now(), None, None, described, [vars(part) for part in deficits])
        with self._transaction():
            self._insert("studies", with_digest(columns))

    def set_workers(self, name: str, workers: int | None) -> None:
        """Record how many workers a study has."""
        self._update_study(name, workers=workers)

    def end(self, name: str) -> None:
        """Record that all runs of a study are done or failed."""
        self._update_study(name, ended=_now())

    def _update_study(self, name: str, **changes: Any) -> None:
        with self._transaction():
            columns = {**self._study_columns(name), **changes}
            del columns["digest"]
            self._insert("studies", with_digest(columns.values()))

    def studies(self) -> list[str]:
        """Return the names of all studies, the latest last."""
        return [row[0] for row in self._rows("studies", self._names("studies", "begun, name"))]

    def study(self, name: str = "") -> Study:
        """Return a study by name; by default the latest.

        Raises:
            ValueError: The store has no study, or none of that name, or its row is damaged.
        """
        if not name and not (names := self.studies()):
            raise ValueError(f"{self.path} has no study yet")
        row = self._study_columns(name or names[-1])
        columns = {key: decode(value) for key, value in row.items() if key != "digest"}
        members = {RunConfig(**values): Purpose(purpose) for values, purpose in columns.pop("members")}
        deficits = tuple(map(_deficit_part, columns.pop("deficits")))
        return Study(members=members, deficits=deficits, **columns)

    def _study_columns(self, name: str) -> dict[str, Any]:
        for row in self._rows("studies", [name]):
            return named("studies", row)
        raise ValueError(f"{self.path} has no study {name!r}; {nearest(name, self.studies())}")

    def write(self, outcome: RunResult | RunFailure) -> None:
        """Write the result or the failure of a run in place of an earlier failure, unless the run has a result."""
        with self._transaction():
            if not self._query("SELECT 1 FROM runs WHERE name = ? AND traceback IS NULL", [outcome.run.name]):
                self._insert("runs", row_of(outcome, _now()))

    def clear_failures(self, runs: Iterable[RunConfig]) -> None:
        """Delete the failures of these runs, so that they run again."""
        with self._transaction() as connection:
            names = [(run.name,) for run in runs]
            connection.executemany("DELETE FROM runs WHERE name = ? AND traceback IS NOT NULL", names)

    def outcome(self, run: RunConfig) -> RunResult | RunFailure | None:
        """Return the result or the failure of a run, or None if the store has neither."""
        return next(self.outcomes([run]), None)

    def outcomes(
        self, runs: Iterable[RunConfig] | None = None, with_curves: bool = True
    ) -> Iterator[RunResult | RunFailure]:
        """Yield results and failures one after the other, so that a large store needs little memory.

        Args:
            runs: The runs whose outcomes are read, in this order; default: all, by task, schedule and seed.
            with_curves: Whether the results have their curves, most of what there is to parse.
        """
        names = self._names("runs", "task, schedule, seed, name") if runs is None else [run.name for run in runs]
        for row in self._rows("runs", names):
            yield outcome_of(row, with_curves)

    def records(self, runs: Iterable[RunConfig] | None = None, with_curves: bool = True) -> list[RunResult]:
        """Return the results among the :meth:`outcomes` of these runs."""
        return [each for each in self.outcomes(runs, with_curves) if isinstance(each, RunResult)]

    def failures(self, runs: Iterable[RunConfig] | None = None) -> list[RunFailure]:
        """Return the failures among the :meth:`outcomes` of these runs."""
        return [each for each in self.outcomes(runs, with_curves=False) if isinstance(each, RunFailure)]

    def done(self, names: Iterable[str] | None = None) -> set[str]:
        """Return which of these runs have a result; by default, all that have."""
        rows = self._rows("runs", self._names("runs") if names is None else names)
        return {row[0] for row in rows if named("runs", row)["traceback"] is None}

    def example_losses(self, runs: Iterable[RunConfig]) -> dict[str, NDArray[np.float32]]:
        """Return the losses of the test examples of these runs, by the name of the run; runs without any are left out.

        Raises:
            ValueError: One of their rows is damaged.
        """
        rows = self._rows("runs", [run.name for run in runs])
        return {row[0]: losses for row in rows if (losses := losses_of(row)) is not None}

    def delete_damaged(self) -> list[str]:
        """Delete the rows that are damaged and return their names, so that the runs among them are trained again."""
        damaged = []
        with self._transaction() as connection:
            for table in COLUMNS:
                for row in self._unchecked_rows(table, self._names(table)):
                    if not is_intact(row):
                        connection.execute(f"DELETE FROM {table} WHERE name = ?", (row[0],))
                        damaged.append(str(row[0]))
        return damaged

    def _create(self) -> None:
        with self._transaction() as connection:
            if not self._schema():  # else another process was faster
                for statement in SCHEMA.values():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _check(self) -> None:
        """Raise a ValueError if the file is not a store of this version, or is damaged."""
        if self._pragma("application_id") != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file of another program, not a store of studies")
        version = self._pragma("user_version")
        if version != VERSION or self._schema() != SCHEMA:
            raise ValueError(
                f"{self.path} is a store of another version of bitcycle (version {version}, with its own columns; this "
                f"bitcycle writes version {VERSION}) or damaged: choose another file with --store, or use the bitcycle "
                "that wrote it; nothing was changed"
            )
        state = self._pragma("integrity_check(1)")
        if state != "ok":
            raise ValueError(f"{self.path} is damaged ({_line(state)}); nothing was changed")

    def _schema(self) -> dict[str, str]:
        """Return the statements that created everything in the file, by name."""
        return dict(self._query("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))

    def _pragma(self, name: str) -> Any:
        return self._query(f"PRAGMA {name}")[0][0]

    def _query(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """Return all rows that a query finds."""
        with self._one_line_errors():
            return self._connection.execute(query, tuple(values)).fetchall()

    def _names(self, table: str, order: str = "name") -> list[str]:
        """Return the names of all rows of a table. They are sorted without the rows, which may not fit in memory."""
        return [name for (name,) in self._query(f"SELECT name FROM {table} ORDER BY {order}")]

    def _rows(self, table: str, names: Iterable[str]) -> Iterator[Row]:
        """Yield the rows with these names, in the order of the names, a few hundred at a time.

        Raises:
            ValueError: A row is damaged.
        """
        for row in self._unchecked_rows(table, names):
            if not is_intact(row):
                raise ValueError(
                    f"{self.path} is damaged: the row of {row[0]!r} does not match its digest; nothing was changed. "
                    "Start the study again: it deletes damaged rows and repeats their runs"
                )
            yield row

    def _unchecked_rows(self, table: str, names: Iterable[str]) -> Iterator[Row]:
        wanted = list(names)
        for first in range(0, len(wanted), MAX_NAMES):
            some = wanted[first : first + MAX_NAMES]
            query = f"SELECT * FROM {table} WHERE name IN ({', '.join('?' * len(some))})"
            found = {row[0]: row for row in self._query(query, some)}
            yield from (found[name] for name in some if name in found)

    def _insert(self, table: str, row: Row) -> None:
        """Insert a row, or replace the row of the same name."""
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements are executed or none; only one process at a time can be in a transaction."""
        with self._one_line_errors(), self._connection:  # which commits, or rolls back after an error
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into one line that names the file."""
        try:
            yield
        except UnicodeDecodeError as error:  # in a message of SQLite about a damaged schema
            raise ValueError(f"{self.path} is damaged ({_line(error)}); nothing was changed") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {_line(error)}; the store was not changed") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a store ({_line(error)}); nothing was changed") from error


def _deficit_part(values: dict[str, Any]) -> DeficitPart:
    """Return the experiments with these values, in which JSON has lists in the place of tuples."""
    arguments: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    return DeficitPart(**arguments)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _line(message: object) -> str:
    return " ".join(str(message).split())[:200]
