"""The runs of a study that are still to be trained, each locked against other studies while it is under way."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bitcycle.lab.locks import try_lock, unlock
from bitcycle.lab.runs.checkpoints import has_checkpoint
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.store import Store

if TYPE_CHECKING:
    from filelock import BaseFileLock

TRAINING_LOCK = "training.lock"
"""The lock in the folder of a run that a worker holds while it trains there."""


class RunQueue:
    """The runs that are waiting, and the locks of the runs that were taken.

    Several studies can share a store. A run is locked by the study that takes it until its outcome is in the store, so
    that no other study trains it meanwhile. A run that another study has locked waits until that study has ended it;
    its outcome is then read from the store.

    Args:
        runs: The runs to train.
        store: The store they are written to. The locks are in its folder of checkpoints.
        ended_elsewhere: Called with the outcome of a run that another study has ended.
    """

    def __init__(
        self, runs: Iterable[RunConfig], store: Store, ended_elsewhere: Callable[[RunResult | RunFailure], None]
    ) -> None:
        self._waiting = deque(runs)
        self._store = store
        self._ended_elsewhere = ended_elsewhere
        self._locks: dict[RunConfig, BaseFileLock] = {}

    def __len__(self) -> int:
        """Runs that have not been taken, including those that other studies train."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[RunConfig]:
        """Take all runs that other studies do not train."""
        while (run := self.take()) is not None:
            yield run

    def take(self) -> RunConfig | None:
        """Lock the next run and return it, or return None if there is none that could be trained now."""
        if self._waiting:
            self._store.checkpoints.mkdir(parents=True, exist_ok=True)
        for _ in range(len(self._waiting)):
            run = self._waiting.popleft()
            lock = try_lock(_lock_path(self._folder(run)))
            if lock is None:
                self._waiting.append(run)
            elif (outcome := self._store.outcome(run)) is not None:
                unlock(lock)
                self._ended_elsewhere(outcome)
            else:
                self._locks[run] = lock
                return run
        return None

    def end(self, run: RunConfig, keep_checkpoint: bool) -> None:
        """Unlock a run, and remove its folder unless it has a checkpoint that is to be kept."""
        lock = self._locks.pop(run, None)
        if lock is not None:
            if not (keep_checkpoint and has_checkpoint(self._folder(run))):
                _remove(self._folder(run))
            unlock(lock)

    def close(self) -> None:
        """Unlock all runs that were taken and have not ended; they keep their checkpoints."""
        for run in list(self._locks):
            self.end(run, keep_checkpoint=True)

    def _folder(self, run: RunConfig) -> Path:
        return self._store.checkpoints / run.name


def remove_leftovers(store: Store) -> None:
    """Remove the folders of runs that are done, which a study leaves if it is killed right after writing a result."""
    if not store.checkpoints.is_dir():
        return
    folders = {path.stem for path in store.checkpoints.iterdir()}
    for name in sorted(store.done(folders)):
        lock = try_lock(_lock_path(store.checkpoints / name))
        if lock is not None:
            _remove(store.checkpoints / name)
            unlock(lock)


def _lock_path(folder: Path) -> Path:
    return folder.with_suffix(".lock")


def _remove(folder: Path) -> None:
    """Remove the folder of a run unless a worker still trains there: a worker can briefly outlive a killed study."""
    if not folder.is_dir():
        return
    lock = try_lock(folder / TRAINING_LOCK)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        unlock(lock)
