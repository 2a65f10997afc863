"""The engine for one machine: a pool of processes that share the cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

from bitcycle._study.engines.worker import current_step, work
from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

PAUSE = 0.2  # seconds between two checks of the workers
MAX_CRASHES = 3  # after so many crashes of its worker, a run has failed


@dataclass(frozen=True)
class LocalEngine:
    """Worker processes on this machine.

    Small models gain little from a second thread, so by default each core gets one worker with one thread. A worker
    that crashes is replaced, and its run resumes from its checkpoint. After three crashes the run has failed.
    """

    workers: int = 0
    """The number of processes; 0 = one per core."""
    threads: int = 0
    """Threads of each worker; 0 = its share of the cores."""
    device: str = "cpu"
    """The device to train on."""

    def __post_init__(self) -> None:
        for name in ("workers", "threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")

    def outcomes(
        self, runs: Iterable[RunConfig], store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """Train the runs and yield their outcomes; see :meth:`bitcycle._study.driver.Engine.outcomes`."""
        waiting, crashes = deque(runs), Counter[RunConfig]()
        folder = {run: store.checkpoints / run.name for run in waiting}
        while waiting:
            with self._pool(min(self.worker_count, len(waiting))) as pool:
                running: dict[Future[RunResult | RunFailure], RunConfig] = {}
                while waiting or running:
                    try:
                        while waiting and len(running) < self.worker_count:
                            run = waiting[0]
                            future = pool.submit(work, run, folder[run], self.device, store=store.path)
                            running[future] = waiting.popleft()
                        done, _ = wait(running, PAUSE, FIRST_COMPLETED)
                        watch({run.name: current_step(folder[run]) for run in running.values()})
                        for future in done:
                            outcome = future.result()
                            del running[future]
                            yield outcome
                    except BrokenProcessPool:
                        break
            for run in running.values():
                crashes[run] += 1
                if crashes[run] < MAX_CRASHES:
                    waiting.appendleft(run)
                else:
                    yield RunFailure(run, f"worker crashed {MAX_CRASHES} times: out of memory, or killed")

    @property
    def worker_count(self) -> int:
        """The number of processes."""
        return self.workers or os.cpu_count() or 1

    @property
    def thread_count(self) -> int:
        """Threads of each process."""
        return self.threads or max(1, (os.cpu_count() or 1) // self.worker_count)

    @contextmanager
    def _pool(self, workers: int) -> Iterator[ProcessPoolExecutor]:
        """Make a pool whose processes have ended when the context is left, also after an error."""
        others = set(multiprocessing.active_children())
        with _environment(OMP_NUM_THREADS=str(self.thread_count)):
            pool = ProcessPoolExecutor(
                workers, multiprocessing.get_context("spawn"), _begin, (self.thread_count, os.getpid())
            )
            finished = False
            try:
                yield pool
                finished = True
            finally:
                if not finished:  # an error or Ctrl-C: the current runs have their checkpoints
                    for process in set(multiprocessing.active_children()) - others:
                        process.kill()
                pool.shutdown(wait=True, cancel_futures=True)


def _begin(threads: int, parent: int) -> None:
    """Set up a worker: the parent handles Ctrl-C, and a worker ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore")
    import torch  # slow, so after Ctrl-C is ignored

    torch.set_num_threads(threads)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables for the workers; torch reads the number of threads when it is loaded."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
