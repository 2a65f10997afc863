"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the whole result or nothing. Several processes can write to a store: each waits for the others.

Each row has a digest that is checked when it is read, and the structure of the file is checked when it is opened. A row
whose name has changed is not found under its own, and its run would seem never to have been done. So an answer that
lacks runs is given only after all rows that belong to no study have been checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._study.rows import (
    CURVE,
    DamagedRowError,
    Row,
    check,
    digest_of_study,
    failure_of,
    is_intact,
    is_intact_study,
    losses_of,
    record_of,
    row_of_failure,
    row_of_losses,
    row_of_record,
    run_of,
)
from bitcycle._study.store_file import StoreFile
from bitcycle._support.names import nearest
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

MAX_NAMES = 500  # in one question; SQLite allows no more than 999 everywhere
SORTED_IN_MEMORY = 2**29
"""Bytes of a store whose curves are sorted in memory. Reading a larger one in order takes little memory, but longer."""
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


class Store(StoreFile):
    """An open store.

    It is opened as :class:`StoreFile` describes.

    Args:
        path: The SQLite file.
        must_exist: Refuse to create the file.
    """

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        super().__init__(path, must_exist)
        self._intact: set[tuple[str, str]] = set()  # studies that were checked: the name and the digest

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
        if not is_intact_study(study, self._members(study)):
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

    def set_aside_damage(self) -> Counter[str]:
        """Move the rows that are damaged to a table of their own, and return how many were moved from which table.

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
        return Counter(table for table, _ in damaged)

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

        Those with curves are read one after the other, so that a large store needs little memory.

        Args:
            study: The name of a study; all results if empty.
            with_curves: Whether the results have their curves, most of what there is to read.

        Raises:
            ValueError: The store has no such study, or rows are damaged. The results that are not are yielded first.
        """
        if study or with_curves:
            rows = self._rows_of_study("records", study) if study else self._ordered_records()
            yield from self._made(rows, lambda row: record_of(row, with_curves))
        else:  # there is memory for all of them, and the order of the file is the fastest
            yield from self._made(self._each_row("SELECT * FROM records"), lambda row: record_of(row, False), _order)

    def all_records_and_curves(self, study: str = "") -> Iterator[tuple[RunResult, str]]:
        """Yield what :meth:`all_records` does, without curves, and each curve as JSON text, as it was written.

        Raises:
            ValueError: As :meth:`all_records`.
        """

        def made(row: Row) -> tuple[RunResult, str]:
            return record_of(row, with_curve=False), row[CURVE]

        if study:
            yield from self._made(self._rows_of_study("records", study), made)
        elif self.path.stat().st_size > SORTED_IN_MEMORY:
            yield from self._made(self._ordered_records(), made)
        else:
            scan = self._each_row("SELECT * FROM records")
            yield from self._made(scan, made, lambda pair: _order(pair[0]))

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
        # Without a limit, SQLite forgets the order. It orders names because rows with curves may not fit in memory.
        ordered = "SELECT name FROM records ORDER BY task, schedule, seed, name LIMIT -1"
        all_found = True
        for row in self._each_row(f"SELECT records.* FROM ({ordered}) LEFT JOIN records USING (name)"):
            if row[0] is None:
                all_found = False
            else:
                yield row
        if not all_found:  # a name that has changed hides its neighbours from a search, too
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

    def _made(
        self, rows: Iterable[Row], made_of: Callable[[Row], Made], order: Callable[[Made], Any] | None = None
    ) -> Iterator[Made]:
        """Yield what the rows stand for, sorted if an order is given; damaged rows are left out and told of last."""
        damaged: list[str] = []

        def intact() -> Iterator[Made]:
            for row in rows:
                try:
                    yield made_of(row)
                except DamagedRowError as error:
                    damaged.append(str(error))

        yield from intact() if order is None else sorted(intact(), key=order)
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


def _place(name: Any) -> str:
    """Return the SQL in which :func:`_key` takes the place of the question mark."""
    return "CAST(? AS TEXT)" if isinstance(name, str) else "?"


def _key(name: Any) -> Any:
    """Return a name as a parameter; as bytes if it is a text, because a damaged text may not be UTF-8."""
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


def _order(record: RunResult) -> tuple[str, str, int, str]:
    run = record.run
    return run.task, run.schedule, run.seed, run.name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
