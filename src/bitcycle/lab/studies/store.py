"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the complete result or nothing. Several processes can write to a store: each waits for the others.

The structure of the file is checked when it is opened, and each row has a digest that is checked when it is read, so
that an answer is right or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.rows import (
    TABLES,
    DamagedRowError,
    Row,
    check,
    decode,
    is_intact,
    losses_of,
    outcome_of,
    row_of_failure,
    row_of_losses,
    row_of_result,
    with_digest,
)
from bitcycle.lab.studies.store_file import StoreFile

MAX_LISTED = 3  # damaged rows that an error names

Value = TypeVar("Value")


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


class Store(StoreFile):
    """An open store, which is opened as :class:`StoreFile` describes.

    Methods that read raise a ValueError if rows they need are damaged. They skip these rows, and the error at the end
    lists them.
    """

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
        columns = (name, plan, command, _now(), None, None, described, [_values(part) for part in deficits])
        with self._transaction():
            self._insert("studies", with_digest(columns))

    def set_workers(self, name: str, workers: int | None) -> None:
        """Record how many workers a study has."""
        self._update_study(name, "workers", workers)

    def end(self, name: str) -> None:
        """Record that all runs of a study are done or failed."""
        self._update_study(name, "ended", _now())

    def _update_study(self, name: str, column: str, value: object) -> None:
        with self._transaction():
            columns = list(self._study_row(name)[:-1])
            columns[TABLES["studies"].index(column)] = value
            self._insert("studies", with_digest(columns))

    def studies(self) -> list[str]:
        """Return the names of all studies, the latest last."""
        return list(self._read(self._each_row("studies", "begun, name"), _name_of))

    def study(self, name: str) -> Study:
        """Return a study by name.

        Raises:
            ValueError: The store has no study of that name, or its row is damaged.
        """
        row = dict(zip(TABLES["studies"], map(decode, self._study_row(name)), strict=True))
        try:
            members = {RunConfig.from_dict(values): Purpose(purpose) for values, purpose in row.pop("members")}
            deficits = tuple(map(_deficit_part, row.pop("deficits")))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path}: the study {name!r} has a member that is not a run ({error})") from error
        del row["digest"]
        return Study(members=members, deficits=deficits, **row)

    def _study_row(self, name: str) -> Row:
        """Return the row of a study that is not damaged."""
        for row in self._rows("studies", [name]):
            if not is_intact(row):
                raise ValueError(
                    f"{self.path}: the study {name!r} is damaged; start it again to write it anew. Its results are kept"
                )
            return row
        raise ValueError(f"{self.path} has no study {name!r}; {nearest(name, self.studies())}")

    def write(self, result: RunResult) -> None:
        """Write the result of a run in place of an earlier failure, unless the run already has a result."""
        name = result.run.name
        with self._transaction():
            if not self._has_result(name):
                self._insert("runs", row_of_result(result, _now()))
                if result.example_losses is not None:
                    self._insert("losses", row_of_losses(name, result.example_losses))

    def fail(self, run: RunConfig, traceback: str) -> None:
        """Write the traceback of a run that failed, unless the run has a result."""
        with self._transaction():
            if not self._has_result(run.name):
                self._insert("runs", row_of_failure(RunFailure(run, traceback), _now()))

    def clear_failures(self, runs: Iterable[RunConfig]) -> None:
        """Delete the failures of these runs, so that they run again."""
        with self._transaction() as connection:
            names = [(run.name,) for run in runs]
            connection.executemany("DELETE FROM runs WHERE name = ? AND traceback IS NOT NULL", names)

    def delete_damaged(self) -> list[str]:
        """Delete the rows that are damaged and return their names, so that the runs among them are trained again."""
        damaged = []
        with self._transaction() as connection:
            for table in TABLES:
                for row in self._each_row(table, "name"):
                    if not is_intact(row):
                        connection.execute(f"DELETE FROM {table} WHERE name = ?", (row[0],))
                        damaged.append(str(row[0]))
        return damaged

    def outcome(self, run: RunConfig) -> RunResult | RunFailure | None:
        """Return the result or the failure of a run, or None if the store has neither."""
        return next(self._read(self._rows("runs", [run.name]), outcome_of), None)

    def outcomes(
        self, runs: Iterable[RunConfig] | None = None, with_curves: bool = True
    ) -> Iterator[RunResult | RunFailure]:
        """Yield results and failures one after the other, so that a large store needs little memory.

        Args:
            runs: The runs whose outcomes are read, in this order; default: all, by task, schedule and seed.
            with_curves: Whether the results have their curves, most of what there is to parse.
        """
        if runs is None:
            rows = self._each_row("runs", "task, schedule, seed, name")
        else:
            rows = self._rows("runs", [run.name for run in runs])
        yield from self._read(rows, lambda row: outcome_of(row, with_curves))

    def records(self, runs: Iterable[RunConfig] | None = None, with_curves: bool = True) -> list[RunResult]:
        """Return the results among the :meth:`outcomes` of these runs."""
        return [each for each in self.outcomes(runs, with_curves) if isinstance(each, RunResult)]

    def failures(self, runs: Iterable[RunConfig] | None = None) -> list[RunFailure]:
        """Return the failures among the :meth:`outcomes` of these runs."""
        return [each for each in self.outcomes(runs, with_curves=False) if isinstance(each, RunFailure)]

    def done(self, names: Iterable[str] | None = None) -> set[str]:
        """Return which of these runs have a result; by default, all that have."""
        rows = self._each_row("runs", "name") if names is None else self._rows("runs", names)
        return {name for name, is_done in self._read(rows, _is_done) if is_done}

    def _has_result(self, name: str) -> bool:
        return bool(self._query("SELECT 1 FROM runs WHERE name = ? AND traceback IS NULL", [name]))

    def example_losses(self, runs: Iterable[RunConfig]) -> dict[str, NDArray[np.float32]]:
        """Return the losses of the test examples of these runs, by the name of the run; runs without any are left out.

        Raises:
            ValueError: Some of their rows are damaged.
        """
        rows = self._rows("losses", [run.name for run in runs])
        return dict(self._read(rows, lambda row: (row[0], losses_of(row))))

    def _each_row(self, table: str, order: str) -> Iterator[Row]:
        """Yield all rows of a table. Only names are sorted, because rows with curves may not fit in memory."""
        return self._rows(table, [name for (name,) in self._query(f"SELECT name FROM {table} ORDER BY {order}")])

    def _read(self, rows: Iterable[Row], value_of: Callable[[Row], Value]) -> Iterator[Value]:
        """Yield the values of rows; damaged rows are skipped, and an error at the end lists them."""
        damaged: list[str] = []
        for row in rows:
            try:
                yield value_of(row)
            except DamagedRowError as error:
                damaged.append(str(error))
        if damaged:
            more = f", and {len(damaged) - MAX_LISTED} more" if len(damaged) > MAX_LISTED else ""
            raise ValueError(
                f"{self.path} is damaged: {'; '.join(damaged[:MAX_LISTED])}{more}; nothing was changed. "
                "Start the study again: it deletes damaged rows and repeats their runs"
            )


def _name_of(row: Row) -> str:
    check(row)
    return str(row[0])


def _is_done(row: Row) -> tuple[str, bool]:
    check(row)
    return row[0], row[TABLES["runs"].index("traceback")] is None


def _values(part: DeficitPart) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _deficit_part(values: dict[str, Any]) -> DeficitPart:
    """Return the experiments with these values, in which JSON has lists in the place of tuples."""
    arguments: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    return DeficitPart(**arguments)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
