"""Send the metrics of a run to TensorBoard, MLflow or Weights & Biases.

Each library is optional and imported only when its logger is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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


class Logger(Protocol):
    """Receives the metrics of one run."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Record the metrics of a step."""

    def close(self) -> None:
        """Flush and release everything."""


class TensorBoard:
    """Event files in ``FOLDER/tensorboard``; view them with ``tensorboard --logdir FOLDER``."""

    def __init__(self, run: LoggedRun, folder: Path, resumed: bool) -> None:
        need("tensorboard", "tensorboard", "logging to TensorBoard")
        writer = need("torch.utils.tensorboard", "tensorboard", "logging to TensorBoard").SummaryWriter
        self._writer = writer(str(folder / "tensorboard"))
        if not resumed:
            self._writer.add_text("run", "\n".join(f"    {key}: {value}" for key, value in run.config.items()))

    def log(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class MLflow:
    """A run of the MLflow experiment "bitcycle"; a resumed run continues it. MLFLOW_TRACKING_URI applies as usual."""

    def __init__(self, run: LoggedRun, folder: Path, resumed: bool) -> None:
        self._mlflow = need("mlflow", "mlflow", "logging to MLflow")
        self._mlflow.set_experiment("bitcycle")
        id_file = folder / "mlflow-run"
        if resumed and id_file.exists():
            self._mlflow.start_run(run_id=id_file.read_text().strip())
        else:
            started = self._mlflow.start_run(run_name=run.title)
            self._mlflow.log_params(dict(run.config))
            id_file.write_text(started.info.run_id + "\n")

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self._mlflow.log_metrics(metrics, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


class WeightsAndBiases:
    """A run of the Weights & Biases project "bitcycle"; ``WANDB_MODE=offline`` keeps it on this machine."""

    def __init__(self, run: LoggedRun, folder: Path, resumed: bool) -> None:
        wandb = need("wandb", "wandb", "logging to Weights & Biases")
        self._run = wandb.init(
            project="bitcycle",
            id=run.run_id,
            name=run.title,
            config=dict(run.config),
            dir=str(folder),
            resume="allow",
        )

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()


LOGGERS: dict[str, Callable[[LoggedRun, Path, bool], Logger]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
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
    chosen = list(names)
    for name in chosen:
        validate_name(name, LOGGERS, "logger")
    if not chosen:
        return _Forwarding([])
    if folder is None:
        raise ValueError("logging needs a folder for the run: give --out FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    return _Forwarding([LOGGERS[name](run, folder, resumed) for name in chosen])


class _Forwarding:
    def __init__(self, loggers: list[Logger]) -> None:
        self._loggers = loggers

    def log(self, step: int, metrics: dict[str, float]) -> None:
        for logger in self._loggers:
            logger.log(step, metrics)

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()
