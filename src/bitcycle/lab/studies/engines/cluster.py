"""The engine for a cluster: each run is a Ray task, which Ray moves to another node when its node fails."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitcycle._support.extras import need
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import UserCode, code_of
from bitcycle.lab.studies.engines.worker import work
from bitcycle.lab.studies.queue import RunQueue
from bitcycle.lab.studies.store import Store

POLL_INTERVAL_S = 0.5  # between two checks of the cluster
MAX_SUBMITTED = 200  # runs that are submitted at once: each keeps a lock file open


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster, or this machine as a cluster of one node.

    Checkpoints are beside the store if the node can see that folder (a shared file system). Otherwise the node keeps
    its own checkpoints, and a run that moves to another node starts from scratch. Results always reach the store.
    """

    address: str = ""
    """The address of a running cluster; ``auto`` finds the one of this machine; empty starts one on this machine."""
    cpus: float = 1
    """CPUs for each run."""
    gpus: float = 0
    """GPUs for each run; a fraction lets several runs share a GPU."""
    retries: int = 3
    """How often a run is started again when its node fails."""

    @property
    def worker_count(self) -> int | None:
        """How many runs fit on the cluster at once; None before it is connected."""
        ray = need("ray", "ray", "running on a cluster")
        if not ray.is_initialized():
            return None
        resources = ray.cluster_resources()
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return min(int(resources.get(name, 0) / amount) for name, amount in wanted.items() if amount)

    @property
    def thread_count(self) -> int:
        """Threads of each run."""
        return max(1, int(self.cpus))

    def outcomes(
        self, runs: RunQueue, store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """Train the runs and yield their outcomes; see :meth:`bitcycle.lab.studies.driver.Engine.outcomes`."""
        ray = need("ray", "ray", "running on a cluster")
        started_here = not ray.is_initialized()
        if started_here:
            self._connect(ray)
        waiting: dict[Any, RunConfig] = {}
        try:
            progress = _progress_actor(ray)
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)(_work)
            store.checkpoints.mkdir(parents=True, exist_ok=True)
            folder = store.checkpoints.absolute()
            while waiting or runs:
                while len(waiting) < MAX_SUBMITTED and (taken := runs.take()) is not None:
                    arguments = (taken, code_of(taken), str(folder), progress, self.thread_count, self.gpus > 0)
                    waiting[task.remote(*arguments)] = taken
                if not waiting:  # other studies train all that is left
                    time.sleep(POLL_INTERVAL_S)
                    continue
                done, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_INTERVAL_S)
                steps = ray.get(progress.read.remote())
                watch({run.name: steps.get(run.name, 0) for run in waiting.values()})
                for reference in done:
                    run = waiting.pop(reference)
                    yield _outcome(ray, reference, run)
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            if started_here:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        at_termination = signal.getsignal(signal.SIGTERM)  # Ray sets a handler of its own, which would end in silence
        try:
            ray.init(
                address=self.address or "local", log_to_driver=False, include_dashboard=False, logging_level="error"
            )
        except Exception as error:  # Ray has no class for a node that does not start in time
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if self.address:
                raise OSError(f"cannot reach a Ray cluster at {self.address!r}: {reason}") from None
            raise OSError(
                f"Ray did not start on this machine: {reason} The machine may be busy: run the same command again, "
                "or use --engine local"
            ) from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, at_termination)


def _outcome(ray: Any, reference: Any, run: RunConfig) -> RunResult | RunFailure:
    """Return the outcome of a Ray task; a full disk stops the study, a node that fails too often fails the run."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise OSError(str(error.cause)) from None
    except ray.exceptions.RayError as error:
        return RunFailure(run, f"{type(error).__name__}: {error}")


def _work(
    run: RunConfig, code: UserCode | None, checkpoints: str, progress: Any, threads: int, gpu: bool
) -> RunResult | RunFailure:
    """Train a run on a node of the cluster."""
    import torch  # only nodes need it

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    device = "cuda" if gpu else "cpu"

    def report(step: int) -> None:
        progress.write.remote(run.name, step)

    if Path(checkpoints).is_dir():
        return work(run, Path(checkpoints) / run.name, device, report, code)
    with tempfile.TemporaryDirectory(prefix="bitcycle-") as folder:
        return work(run, Path(folder) / run.name, device, report, code)


class ProgressActor:
    """The last reported step of each run, kept by a Ray actor on the node of the driver."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}

    def write(self, name: str, step: int) -> None:
        """Write the current step of a run."""
        self._steps[name] = step

    def read(self) -> dict[str, int]:
        """Return the current step of each run."""
        return self._steps


def _progress_actor(ray: Any) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(ProgressActor).options(num_cpus=0, scheduling_strategy=here).remote()
