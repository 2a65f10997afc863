"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the whole result or nothing. Several processes can write to a store: each waits for the others.

Each row has a digest that is checked when it is read, and the structure of the file is checked when it is opened. A row
whose name has changed is not found under its own, and its run would seem never to have been done. So an answer that
lacks runs is given only after all rows that belong to no study have been checked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._study.migration import migrate
from bitcycle._study.rows import (
    SCHEMA,
    DamagedRowError,
    Row,
    check,
    digest_of_study,
    failure_of,
    is_intact,
    losses_of,
    record_of,
    row_of_failure,
    row_of_losses,
    row_of_record,
    run_of,
)
from bitcycle._support.names import nearest
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

VERSION = 4
APPLICATION = 0x62697463  # "bitc": marks the file as a store
PATIENCE = 60  # seconds to wait while another process writes
PAGE = 16384  # bytes; a result fits on a page with others, which makes a large store half as large and twice as fast
MAX_NAMES = 500  # in one question; SQLite allows no more than 999 everywhere
MAX_SHOWN = 3  # damaged rows that an error names

Made = TypeVar("Made")

_OUTCOMES = ("records", "failures", "examples")
"""The tables with one row per run."""


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
        self._intact: set[tuple[str, str]] = set()  # studies that were checked: the name and the digest
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' creates one, --store selects one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._clear_errors():
            # Transactions are begun explicitly, so that a read and a write can share one.
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            # Text that is not UTF-8 any more is damage that the digest of its row shows.
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
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
        if _columns(self._connection) != _expected_columns():  # a changed type would change how names are compared
            raise ValueError(f"{self.path} is damaged (its tables have other columns); nothing was changed")

    def _create(self) -> None:
        self._connection.execute(f"PRAGMA page_size = {PAGE}")
        with self._transaction():
            if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                return
            for statement in SCHEMA.split(";")[:-1]:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _migrate(self, version: int) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._commit_or_roll_back():
                if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                    return
                migrate(self._connection, version, self.checkpoints)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ) as error:  # rows that are not what version 1 or 2 wrote
            raise ValueError(
                f"{self.path} is damaged, so it cannot be upgraded ({_line(error)}); nothing was changed"
            ) from error
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
        members = [(name, place, json.dumps(run.as_dict()), run.name) for place, run in enumerate(study.runs)]
        row = (name, plan, command, study.begun, None, None)
        with self._transaction() as connection:
            digest = digest_of_study(row, members)
            connection.execute("INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, digest))
            connection.execute("DELETE FROM members WHERE study = ?", (name,))
            connection.executemany("INSERT INTO members VALUES (?, ?, ?, ?)", members)
        return study

    def set_workers(self, name: str, workers: int | None) -> None:
        """Record how many workers a study has."""
        self._change_study(name, "workers", workers)

    def end(self, name: str) -> None:
        """Record that all runs of a study are done or failed."""
        self._change_study(name, "ended", _now())

    def _change_study(self, name: str, column: str, value: object) -> None:
        with self._transaction() as connection:
            self._study_row(name)
            connection.execute(f"UPDATE studies SET {column} = ? WHERE name = ?", (value, name))
            [row] = connection.execute("SELECT * FROM studies WHERE name = ?", (name,))
            digest = digest_of_study(row[:-1], self._members(row))
            connection.execute("UPDATE studies SET digest = ? WHERE name = ?", (digest, name))

    def studies(self) -> list[str]:
        """Return the names of all studies, the latest last.

        Raises:
            ValueError: A study is damaged.
        """
        with self._snapshot():
            rows = self._rows("SELECT * FROM studies ORDER BY begun, name")
            for row in rows:
                self._check_study(row)
        return [row[0] for row in rows]

    def study(self, name: str) -> Study:
        """Return a study by name.

        Raises:
            ValueError: The store has no study of that name, or its rows are damaged.
        """
        with self._snapshot():
            row = self._study_row(name)
            members = self._members(row)
        try:
            runs = tuple(run_of(text) for _, _, text, _ in members)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.path}: the study {name!r} has a member that is not a run ({error})") from error
        return Study(row[0], runs, *row[1:-1])

    def deficit_plans(self, names: Iterable[str]) -> list[str]:
        """Return the plans of those of these studies that have deficit experiments."""
        plans = [self._study_row(name)[1] for name in names]
        return [plan for plan in plans if "[[deficit]]" in plan]

    def _study_row(self, name: str) -> Row:
        """Return the row of a study that is not damaged."""
        with self._snapshot():
            rows = self._rows("SELECT * FROM studies WHERE name = ?", name)
            if not rows:
                raise ValueError(f"{self.path} has no study {name!r}; {nearest(name, self.studies())}")
            self._check_study(rows[0])
        row: Row = rows[0]
        return row

    def _check_study(self, study: Row) -> None:
        if (study[0], study[-1]) not in self._intact and not self._is_intact(study):
            raise ValueError(
                f"{self.path}: the study {study[0]!r} is damaged; start it again to write it anew. Its results are kept"
            )

    def _is_intact(self, study: Row) -> bool:
        if study[-1] != digest_of_study(study[:-1], self._members(study)):
            return False
        self._intact.add((study[0], study[-1]))
        return True

    def _members(self, study: Row) -> list[Row]:
        return self._rows(f"SELECT * FROM members WHERE study = {_place(study[0])} ORDER BY place", _key(study[0]))

    def write(self, record: RunResult) -> None:
        """Write the result of a run unless it is stored already, and delete an earlier failure of the run."""
        row = row_of_record(record, _now())
        with self._transaction() as connection:
            connection.execute(f"INSERT OR IGNORE INTO records VALUES ({', '.join('?' * len(row))})", row)
            if (losses := row_of_losses(record)) is not None:
                connection.execute("INSERT OR IGNORE INTO examples VALUES (?, ?, ?)", losses)
            connection.execute("DELETE FROM failures WHERE name = ?", (record.run.name,))

    def fail(self, run: RunConfig, traceback: str) -> None:
        """Write the traceback of a run that failed, unless the run has a result."""
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM records WHERE name = ?", (run.name,)).fetchone():
                return
            row = row_of_failure(run, traceback, _now())
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", row)

    def set_aside_damage(self) -> int:
        """Move the rows that are damaged to a table of their own, and return their number.

        Runs whose results were damaged are missing then, so that a study that has them runs them again. A damaged study
        is moved with its members; its results stay.
        """
        with self._transaction() as connection:
            rows = {table: connection.execute(f"SELECT * FROM {table}") for table in (*_OUTCOMES, "studies")}
            damaged = [(table, row) for table in _OUTCOMES for row in rows[table] if not is_intact(row)]
            damaged += [("studies", row) for row in rows["studies"].fetchall() if not self._is_intact(row)]
            for table, row in damaged:
                # With "+" the type of the column does not matter, because that of a damaged name may be another.
                connection.execute(f"DELETE FROM {table} WHERE +name IS {_place(row[0])}", (_key(row[0]),))
            without_study = "FROM members WHERE study NOT IN (SELECT name FROM studies)"
            damaged += [("members", row) for row in connection.execute(f"SELECT * {without_study}")]
            connection.execute(f"DELETE {without_study}")
            connection.executemany(
                "INSERT INTO damaged VALUES (?, ?, ?)",
                [(table, json.dumps(row, default=repr), _now()) for table, row in damaged],
            )
        return len(damaged)

    def clear_failures(self, runs: Iterable[RunConfig]) -> None:
        """Delete the failures of these runs, so that they run again."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM failures WHERE name = ?", [(run.name,) for run in runs])

    def outcome(self, run: RunConfig) -> RunResult | RunFailure | None:
        """Return the result or the failure of a run, or None if the store has neither."""
        found: list[RunResult | RunFailure] = list(self._made(self._named("records", [run.name]), record_of))
        found += self._made(self._named("failures", [run.name]), failure_of)
        return found[0] if found else None

    def records(self, runs: Iterable[RunConfig] | None = None) -> list[RunResult]:
        """Return the results of these runs that are done, in the order of the runs; by default, of all runs.

        Raises:
            ValueError: Some of their rows are damaged.
        """
        if runs is None:
            return list(self.all_records())
        return self._found(runs, "records", record_of)

    def all_records(self, study: str = "", with_curves: bool = True) -> Iterator[RunResult]:
        """Yield the results of a study in the order of its plan, or all results ordered by task, schedule and seed.

        They are read one after the other, so that a large store needs little memory.

        Args:
            study: The name of a study; all results if empty.
            with_curves: Whether the results have their curves, most of what there is to read.

        Raises:
            ValueError: The store has no such study, or rows are damaged. The results that are not are yielded first.
        """
        rows = self._rows_of_study("records", study) if study else self._ordered_records()
        yield from self._made(rows, lambda row: record_of(row, with_curves))

    def done(self, names: Iterable[str] | None = None) -> set[str]:
        """Return which of these runs are done; by default, all that are.

        Raises:
            ValueError: A row that belongs to no study is damaged.
        """
        self._check_strays("records")
        if names is None:
            return {name for (name,) in self._rows("SELECT name FROM records")}
        return {row[0] for row in self._named("records", names, "name")}

    def example_losses(self, runs: Iterable[RunConfig]) -> dict[str, NDArray[np.float32]]:
        """Return the losses of the test examples of these runs, by the name of the run; runs without any are left out.

        Raises:
            ValueError: Some of their rows are damaged.
        """
        rows = self._named("examples", [run.name for run in runs])
        return dict(self._made(rows, lambda row: (row[0], losses_of(row))))

    def failures(self, runs: Iterable[RunConfig] | None = None) -> list[RunFailure]:
        """Return the failures among these runs; by default, of all runs."""
        return list(self.all_failures()) if runs is None else self._found(runs, "failures", failure_of)

    def all_failures(self, study: str = "") -> Iterator[RunFailure]:
        """Yield the failures of a study in the order of its plan, or all failures."""
        ordered = self._each_row("SELECT * FROM failures ORDER BY name")
        yield from self._made(self._rows_of_study("failures", study) if study else ordered, failure_of)

    def _ordered_records(self) -> Iterator[Row]:
        names = [name for (name,) in self._rows("SELECT name FROM records ORDER BY task, schedule, seed, name")]
        found = 0
        for row in self._named("records", names):
            found += 1
            yield row
        if found < len(names):  # a name that has changed hides its neighbours from a search, too
            self._check_strays("records")

    def _rows_of_study(self, table: str, study: str) -> Iterator[Row]:
        """Yield the rows of the runs of a study in the order of its plan."""
        self._study_row(study)
        yield from self._each_row(
            f"SELECT {table}.* FROM members JOIN {table} USING (name) WHERE study = ? ORDER BY place", study
        )
        self._check_strays(table)

    def _found(self, runs: Iterable[RunConfig], table: str, made_of: Callable[[Row], Made]) -> list[Made]:
        names = [run.name for run in runs]
        found = list(self._made(self._named(table, names), made_of))
        if len(found) < len(names):
            self._check_strays(table)
        return found

    def _check_strays(self, table: str) -> None:
        """Check the rows that belong to no study: one of them may belong to a run under another name.

        Raises:
            ValueError: Some of them are damaged.
        """
        rows = self._each_row(f"SELECT * FROM {table} WHERE name NOT IN (SELECT name FROM members WHERE name NOT NULL)")
        for _ in self._made(rows, check):
            pass

    def _made(self, rows: Iterable[Row], made_of: Callable[[Row], Made]) -> Iterator[Made]:
        """Yield what the rows stand for; damaged rows are left out, and told of at the end."""
        damaged = []
        for row in rows:
            try:
                yield made_of(row)
            except DamagedRowError as error:
                damaged.append(str(error))
        if damaged:
            more = f", and {len(damaged) - MAX_SHOWN} more" if len(damaged) > MAX_SHOWN else ""
            raise ValueError(
                f"{self.path} is damaged: {'; '.join(damaged[:MAX_SHOWN])}{more}; nothing was changed. "
                f"Start the study again: it sets damaged rows aside and repeats their runs"
            )

    def _named(self, table: str, names: Iterable[str], columns: str = "*") -> Iterator[Row]:
        """Yield the rows with these names, in the order of the names."""
        wanted = list(names)
        for first in range(0, len(wanted), MAX_NAMES):
            some = wanted[first : first + MAX_NAMES]
            places = ", ".join(map(_place, some))
            question = f"SELECT {columns} FROM {table} WHERE name IN ({places})"
            found = {row[0]: row for row in self._rows(question, *map(_key, some))}
            yield from (found[name] for name in some if name in found)

    def _each_row(self, question: str, *values: Any) -> Iterator[Row]:
        with self._clear_errors():
            yield from self._connection.execute(question, values)

    def _rows(self, question: str, *values: Any) -> list[Any]:
        with self._clear_errors():
            return self._connection.execute(question, values).fetchall()

    def _number(self, question: str) -> int:
        return int(self._connection.execute(question).fetchone()[0])

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several questions see the store at one moment, whatever other processes write meanwhile."""
        if self._connection.in_transaction:
            yield
            return
        with self._clear_errors():
            self._connection.execute("BEGIN")
            with self._commit_or_roll_back():
                yield

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
        """Turn errors of SQLite into one line that names the file."""
        try:
            yield
        except UnicodeDecodeError as error:  # in a message of SQLite about a damaged schema
            raise ValueError(f"{self.path} is damaged ({_line(error)}); nothing was changed") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {_line(error)}; the store was not changed") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a store ({_line(error)}); nothing was changed") from error


def _columns(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """Return the names and types of all columns."""
    return set(
        connection.execute(
            "SELECT tables.name, columns.cid, columns.name, columns.type, columns.pk "
            "FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
        )
    )


@cache
def _expected_columns() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _columns(connection)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _place(name: Any) -> str:
    """Return the SQL in which :func:`_key` takes the place of the question mark."""
    return "CAST(? AS TEXT)" if isinstance(name, str) else "?"


def _key(name: Any) -> Any:
    """Return a name as a parameter; as bytes if it is a text, because a damaged text may not be UTF-8."""
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
