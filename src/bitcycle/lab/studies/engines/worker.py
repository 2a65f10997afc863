"""Train one run of a study in a worker, from its last checkpoint to its result."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bitcycle.lab.locks import locked
from bitcycle.lab.runs.checkpoints import CheckpointError
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import UserCode
from bitcycle.lab.studies.queue import TRAINING_LOCK

if TYPE_CHECKING:
    from bitcycle.lab.runs.training import TrainingProgress

REPORT_INTERVAL_S = 0.25  # between two reports of the current step


def work(
    run: RunConfig,
    folder: Path,
    device: str = "cpu",
    report: Callable[[int], None] = lambda step: None,
    code: UserCode | None = None,
) -> RunResult | RunFailure:
    """Train a run, or the rest of it, with its checkpoint in a folder.

    Args:
        run: What to train.
        folder: The folder of the checkpoint.
        device: The device to train on.
        report: Called with the current step now and then.
        code: The code of the task, if it is one of the user's own.

    Returns:
        The result, or a failure with the traceback of the error that ended the run.

    Raises:
        OSError: A checkpoint cannot be read or written, such as on a full disk, which is not the fault of the run.
    """
    # Loads torch, which takes seconds: the driver does not need it, and a worker first has to ignore Ctrl-C.
    from bitcycle.lab.runs.training import train
    from bitcycle.lab.tasks.user_tasks import load_code

    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / TRAINING_LOCK):
        try:
            if code is not None:
                load_code(code)
            tenth = max(1, run.steps // 10)  # the most that a killed run loses
            result, _ = train(run, folder, _at_intervals(report), tenth, device)
            return result
        except CheckpointError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            return RunFailure(run, traceback.format_exc())


def _at_intervals(report: Callable[[int], None]) -> Callable[[TrainingProgress], None]:
    last = 0.0

    def progress(now: TrainingProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_INTERVAL_S:
            last = time.monotonic()
            report(now.step)

    return progress
