"""The engine for a cluster: the same runs as tasks of Ray, which moves them elsewhere when a node dies."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitcycle._study.store import Store
from bitcycle._support.extras import need
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

PAUSE = 0.5  # seconds between two looks at the cluster


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster, or this machine as one.

    Checkpoints lie beside the store where a node sees that folder (a shared file system); a node that does not keeps
    its own, and a run that moves away from it starts anew. The records come home to the store either way.
    """

    address: str = ""
    """Of a running cluster; ``auto`` finds the one of this machine; empty starts one here."""
    cpus: float = 1
    gpus: float = 0
    """For each run; several share a GPU by fractions."""
    retries: int = 3
    """When the node of a run dies."""

    def outcomes(
        self, runs: Iterable[RunConfig], store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """What comes of the runs, in the order in which they end; ``watch`` hears how far those under way are."""
        ray = need("ray", "ray", "running on a cluster")
        begun_here = not ray.is_initialized()
        if begun_here:
            self._connect(ray)
        waiting: dict[Any, RunConfig] = {}
        try:
            board = _board(ray)
            do = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)(_work)
            store.checkpoints.mkdir(parents=True, exist_ok=True)
            folder = store.checkpoints.absolute()
            waiting.update({do.remote(run, str(folder), board, int(self.cpus), self.gpus > 0): run for run in runs})
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1, timeout=PAUSE)
                watch(ray.get(board.read.remote()))
                for reference in done:
                    run = waiting.pop(reference)
                    board.clear.remote(run.name)
                    yield _outcome(ray, reference, run)
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            if begun_here:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        try:
            ray.init(
                address=self.address or "local", log_to_driver=False, include_dashboard=False, logging_level="error"
            )
        except ConnectionError as error:
            raise OSError(f"cannot reach a Ray cluster at {self.address!r}: {str(error).splitlines()[0]}") from None


def _outcome(ray: Any, reference: Any, run: RunConfig) -> RunResult | RunFailure:
    """What the task returned; a full disk stops the study, a node that dies too often fails the run."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise OSError(str(error.cause)) from None
    except ray.exceptions.RayError as error:
        return RunFailure(run, f"{type(error).__name__}: {error}")


def _work(run: RunConfig, checkpoints: str, board: Any, threads: int, gpu: bool) -> RunResult | RunFailure:
    """On a node of the cluster."""
    import warnings

    import torch

    from bitcycle._study.engines.worker import work

    warnings.simplefilter("ignore")
    torch.set_num_threads(max(1, threads))
    device = "cuda" if gpu else "cpu"

    def tell(step: int) -> None:
        board.write.remote(run.name, step)

    if Path(checkpoints).is_dir():
        return work(run, Path(checkpoints) / run.name, device, tell)
    with tempfile.TemporaryDirectory(prefix="bitcycle-") as folder:
        return work(run, Path(folder) / run.name, device, tell)


class Board:
    """How far the runs under way are; it lives on the node of the study itself."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}

    def write(self, name: str, step: int) -> None:
        """Note the step of a run."""
        self._steps[name] = step

    def clear(self, name: str) -> None:
        """Forget a run."""
        self._steps.pop(name, None)

    def read(self) -> dict[str, int]:
        """The steps of all runs under way."""
        return self._steps


def _board(ray: Any) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()
