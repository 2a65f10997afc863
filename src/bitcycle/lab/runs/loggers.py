"""Send the metrics of a run to TensorBoard, MLflow or Weights & Biases.

Each library is optional and imported only when its logger is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bitcycle._support.extras import need
from bitcycle._support.names import validate_name


@dataclass(frozen=True)
class LoggedRun:
    """What a logger records about a run, besides its metrics."""

    run_id: str
    """Identifies the run. A resumed run has the same id."""
    title: str
    """The name that people see."""
    config: Mapping[str, Any]
    """The configuration as plain values."""


class Logger(NamedTuple):
    """Receives the metrics of one run."""

    log: Callable[[int, dict[str, float]], object]
    """Records the metrics of a step."""
    close: Callable[[], object]
    """Flushes and releases everything."""


def _tensorboard(run: LoggedRun, folder: Path, resumed: bool) -> Logger:
    """Write event files in ``FOLDER/tensorboard``; view them with ``tensorboard --logdir FOLDER``."""
    need("tensorboard", "tensorboard", "logging to TensorBoard")
    writer = need("torch.utils.tensorboard", "tensorboard", "logging to TensorBoard").SummaryWriter
    events = writer(str(folder / "tensorboard"))
    if not resumed:
        events.add_text("run", "\n".join(f"    {key}: {value}" for key, value in run.config.items()))

    def log(step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            events.add_scalar(name, value, step)

    return Logger(log, events.close)


def _mlflow(run: LoggedRun, folder: Path, resumed: bool) -> Logger:
    """Start a run of the MLflow experiment "bitcycle", or continue it. MLFLOW_TRACKING_URI applies as usual."""
    mlflow = need("mlflow", "mlflow", "logging to MLflow")
    mlflow.set_experiment("bitcycle")
    id_file = folder / "mlflow-run"
    if resumed and id_file.exists():
        mlflow.start_run(run_id=id_file.read_text().strip())
    else:
        started = mlflow.start_run(run_name=run.title)
        mlflow.log_params(dict(run.config))
        id_file.write_text(started.info.run_id + "\n")
    return Logger(lambda step, metrics: mlflow.log_metrics(metrics, step=step), mlflow.end_run)


def _wandb(run: LoggedRun, folder: Path, resumed: bool) -> Logger:
    """Start a run of the Weights & Biases project "bitcycle"; ``WANDB_MODE=offline`` keeps it on this machine."""
    wandb = need("wandb", "wandb", "logging to Weights & Biases")
    named = {"id": run.run_id, "name": run.title, "config": dict(run.config)}
    started = wandb.init(project="bitcycle", dir=str(folder), resume="allow", **named)
    return Logger(lambda step, metrics: started.log(metrics, step=step), started.finish)


LOGGERS: dict[str, Callable[[LoggedRun, Path, bool], Logger]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}


def open_loggers(names: Iterable[str], run: LoggedRun, folder: Path | None, resumed: bool = False) -> Logger:
    """Open loggers by name and return them as one logger.

    Args:
        names: Names of :data:`LOGGERS`. With no names, the logger that is returned does nothing.
        run: What to record about the run.
        folder: The folder of the run, created if it does not exist. Required if there are names.
        resumed: Whether the run continues from a checkpoint.

    Returns:
        A logger that forwards to all of them.

    Raises:
        ValueError: If a name is unknown, or there is no folder.
        MissingExtraError: If the library of a logger is not installed.

    Example:
        >>> open_loggers([], LoggedRun("a1", "graph CR seed 0", {"seed": 0}), folder=None).log(1, {"loss": 0.5})
    """
    chosen = [validate_name(name, LOGGERS, "logger") for name in names]
    if chosen and folder is None:
        raise ValueError("logging needs a folder for the run: give --out FOLDER")
    loggers = []
    for name in chosen:
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        loggers.append(LOGGERS[name](run, folder, resumed))

    def log(step: int, metrics: dict[str, float]) -> None:
        for logger in loggers:
            logger.log(step, metrics)

    def close() -> None:
        for logger in loggers:
            logger.close()

    return Logger(log, close)
