"""One run of a study, done in a worker: from its last checkpoint to its record."""

from __future__ import annotations

import errno
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.training import TrainingProgress, train

PROGRESS = "progress"
"""The file in which a run says how far it is."""
PAUSE = 0.25  # seconds between two reports


def work(
    run: RunConfig,
    folder: Path,
    device: str = "cpu",
    tell: Callable[[int], None] | None = None,
    store: Path | None = None,
) -> RunResult | RunFailure:
    """Train a run, or what is left of it, with its checkpoint in the folder; an error becomes a failure.

    ``tell`` hears the step now and then. If another study had the run in hand, its record is taken from the store.
    A full disk is no fault of the run: that error goes on to whoever runs the study.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder) as waited:
        if waited and store is not None and (records := Store(store).records([run])):
            return records[0]
        folder.mkdir(exist_ok=True)
        try:
            result, _ = train(run, folder, _every_so_often(tell or _into(folder)), _often_enough(run), device)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            return RunFailure(run, traceback.format_exc())
        except Exception:
            return RunFailure(run, traceback.format_exc())
    return result


def step_of(folder: Path) -> int:
    """How far the run in a folder is, by its own word."""
    try:
        return int((folder / PROGRESS).read_text() or 0)
    except (OSError, ValueError):
        return 0


def forget(folder: Path) -> None:
    """Remove the checkpoint of a run that is done."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".lock").unlink(missing_ok=True)


def _often_enough(run: RunConfig) -> int:
    """Steps between checkpoints: a kill costs a tenth of a run at most."""
    return max(1, run.steps // 10)


def _into(folder: Path) -> Callable[[int], None]:
    def tell(step: int) -> None:
        (folder / PROGRESS).write_text(str(step))

    return tell


def _every_so_often(tell: Callable[[int], None]) -> Callable[[TrainingProgress], None]:
    told = 0.0

    def report(progress: TrainingProgress) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= PAUSE:
            told = now
            tell(progress.step)

    return report


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Hold the run against other processes; whether one had it, so that this had to wait."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two studies may then do the same work twice
        yield False
        return
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            waited = False
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waited = True
        yield waited
