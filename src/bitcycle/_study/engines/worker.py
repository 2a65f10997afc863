"""Train one run of a study in a worker, from its last checkpoint to its result."""

from __future__ import annotations

import errno
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

if TYPE_CHECKING:
    from bitcycle.experiments.training import TrainingProgress

PROGRESS = "progress"
"""The file in which a run writes its current step."""
PAUSE = 0.25  # seconds between two writes of the progress


def work(
    run: RunConfig,
    folder: Path,
    device: str = "cpu",
    report: Callable[[int], None] | None = None,
    store: Path | None = None,
) -> RunResult | RunFailure:
    """Train a run, or the rest of it, with its checkpoint in a folder.

    Args:
        run: What to train.
        folder: The folder of the checkpoint.
        device: The device to train on.
        report: Called with the current step now and then; by default, the step is written to a file in the folder.
        store: If another study was training the same run, its result is read from this store.

    Returns:
        The result, or a failure with the traceback of the error that ended the run.

    Raises:
        OSError: The disk is full, which is not the fault of the run.
    """
    # Loads torch, which takes seconds: the driver does not need it, and a worker first has to ignore Ctrl-C.
    from bitcycle.experiments.training import train

    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder) as waited:
        if waited and store is not None and (results := Store(store).records([run])):
            return results[0]
        folder.mkdir(exist_ok=True)
        try:
            progress = _at_intervals(report or _write_progress(folder))
            result, _ = train(run, folder, progress, _checkpoint_interval(run), device)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            return RunFailure(run, traceback.format_exc())
        except Exception:
            return RunFailure(run, traceback.format_exc())
    return result


def current_step(folder: Path) -> int:
    """Return the last step that the run in a folder has reported."""
    try:
        return int((folder / PROGRESS).read_text() or 0)
    except (OSError, ValueError):
        return 0


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a run that has ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".lock").unlink(missing_ok=True)


def _checkpoint_interval(run: RunConfig) -> int:
    """Return the steps between checkpoints; a killed run loses at most a tenth of its steps."""
    return max(1, run.steps // 10)


def _write_progress(folder: Path) -> Callable[[int], None]:
    def report(step: int) -> None:
        (folder / PROGRESS).write_text(str(step))

    return report


def _at_intervals(report: Callable[[int], None]) -> Callable[[TrainingProgress], None]:
    last = 0.0

    def progress(now: TrainingProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            report(now.step)

    return progress


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a run against other processes, and say whether this process had to wait for another."""
    try:
        import fcntl
    except ImportError:  # not on this system: two studies may then train the same run twice
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
