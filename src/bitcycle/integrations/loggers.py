"""Figures of a running training, sent to TensorBoard, MLflow or Weights & Biases when asked and installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from bitcycle._support.extras import need
from bitcycle._support.names import nearest
from bitcycle.experiments.run_config import RunConfig


class Logger(Protocol):
    """Where figures go."""

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Note the figures of a step."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoard:
    """Event files in a folder: ``tensorboard --logdir FOLDER``."""

    def __init__(self, run: RunConfig, folder: Path, resumed: bool) -> None:
        need("tensorboard", "tensorboard", "logging to TensorBoard")
        writer = need("torch.utils.tensorboard", "tensorboard", "logging to TensorBoard").SummaryWriter
        self._writer = writer(str(folder / "tensorboard"))
        if not resumed:
            self._writer.add_text("run", "\n".join(f"    {key}: {value}" for key, value in run.as_dict().items()))

    def log(self, step: int, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class MLflow:
    """A run in MLflow, which a resumed run goes on in; MLFLOW_TRACKING_URI says where it is kept, as always."""

    def __init__(self, run: RunConfig, folder: Path, resumed: bool) -> None:
        self._mlflow = need("mlflow", "mlflow", "logging to MLflow")
        self._mlflow.set_experiment("bitcycle")
        noted = folder / "mlflow-run"
        if resumed and noted.exists():
            self._mlflow.start_run(run_id=noted.read_text().strip())
        else:
            begun = self._mlflow.start_run(run_name=f"{run.task} {run.schedule} seed {run.seed}")
            self._mlflow.log_params(run.as_dict())
            noted.write_text(begun.info.run_id + "\n")

    def log(self, step: int, figures: dict[str, float]) -> None:
        self._mlflow.log_metrics(figures, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


class WeightsAndBiases:
    """A run in Weights & Biases, named by the run's hash; WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, run: RunConfig, folder: Path, resumed: bool) -> None:
        wandb = need("wandb", "wandb", "logging to Weights & Biases")
        self._run = wandb.init(
            project="bitcycle",
            id=run.name,
            name=f"{run.task} {run.schedule} seed {run.seed}",
            config=run.as_dict(),
            dir=str(folder),
            resume="allow",
        )

    def log(self, step: int, figures: dict[str, float]) -> None:
        self._run.log(figures, step=step)

    def close(self) -> None:
        self._run.finish()


LOGGERS: dict[str, Callable[[RunConfig, Path, bool], Logger]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def open_loggers(names: Iterable[str], run: RunConfig, folder: Path | None, resumed: bool = False) -> Logger:
    """The loggers of these names as one; none at all is one that does nothing."""
    chosen = list(names)
    for name in chosen:
        if name not in LOGGERS:
            raise ValueError(f"unknown logger {name!r}; {nearest(name, LOGGERS)}")
    if not chosen:
        return _All([])
    if folder is None:
        raise ValueError("logging needs a folder for the run: give --out FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    return _All([LOGGERS[name](run, folder, resumed) for name in chosen])


class _All:
    def __init__(self, loggers: list[Any]) -> None:
        self._loggers = loggers

    def log(self, step: int, figures: dict[str, float]) -> None:
        for logger in self._loggers:
            logger.log(step, figures)

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()
