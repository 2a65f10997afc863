"""The store: one SQLite file with the plans of studies and the results of their runs.

A result is written once, in one transaction, when its run is done. A process that is killed at any moment leaves either
the complete result or nothing. Several processes can write to a store: each waits for the others.

The structure of the file is checked when it is opened, and each row has a digest that is checked when it is read, so
that an answer is right or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.rows import decode, losses_of, named, outcome_of, row_of, with_digest
from bitcycle.lab.studies.store_file import StoreFile


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

    Methods that read raise a ValueError if a row they need is damaged.
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

    def study(self, name: str) -> Study:
        """Return a study by name.

        Raises:
            ValueError: The store has no study of that name, or its row is damaged.
        """
        found = self._study_columns(name)
        with self._decoding(name):
            columns = {key: decode(value) for key, value in found.items() if key != "digest"}
            members = {RunConfig.from_dict(values): Purpose(purpose) for values, purpose in columns.pop("members")}
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
            with self._decoding(row[0]):
                outcome = outcome_of(row, with_curves)
            yield outcome

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

    @contextmanager
    def _decoding(self, name: str) -> Iterator[None]:
        """Turn errors in a row that another program wrote, with its digest, into one line."""
        try:
            yield
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path}: the row of {name!r} is not that of a run or a study ({error})") from error


def _deficit_part(values: dict[str, Any]) -> DeficitPart:
    """Return the experiments with these values, in which JSON has lists in the place of tuples."""
    arguments: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    return DeficitPart(**arguments)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
