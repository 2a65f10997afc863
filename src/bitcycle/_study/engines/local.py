"""The engine for one machine: a pool of processes, each with its share of the cores."""

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
from pathlib import Path

from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

PAUSE = 0.2  # seconds between two looks at the workers
PATIENCE = 3  # times that a worker may die over one run


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine.

    Small models gain little from a second thread, so by default each core gets a worker of one thread. A worker that
    dies is replaced, and its run goes on from its checkpoint; one over which workers die again and again fails.
    """

    workers: int = 0
    """0: one a core."""
    threads: int = 0
    """Of each worker; 0: its share of the cores."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("workers", "threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: 0 or more, not {getattr(self, name)}")

    def outcomes(
        self, runs: Iterable[RunConfig], store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """What comes of the runs, in the order in which they end; ``watch`` hears how far those under way are."""
        from bitcycle._study.engines.worker import step_of

        waiting, deaths = deque(runs), Counter[RunConfig]()
        folder = {run: store.checkpoints / run.name for run in waiting}
        while waiting:
            with self._pool(min(self.chosen_workers, len(waiting))) as pool:
                under_way: dict[Future[RunResult | RunFailure], RunConfig] = {}
                while waiting or under_way:
                    try:
                        while waiting and len(under_way) < self.chosen_workers:
                            run = waiting[0]
                            future = pool.submit(_work, run, folder[run], self.device, store.path)
                            under_way[future] = waiting.popleft()
                        done, _ = wait(under_way, PAUSE, FIRST_COMPLETED)
                        watch({run.name: step_of(folder[run]) for run in under_way.values()})
                        for future in done:
                            outcome = future.result()
                            del under_way[future]
                            yield outcome
                    except BrokenProcessPool:
                        break
            for run in under_way.values():
                deaths[run] += 1
                if deaths[run] < PATIENCE:
                    waiting.appendleft(run)
                else:
                    yield RunFailure(run, f"the worker died {PATIENCE} times over this run: out of memory, or killed")

    @property
    def chosen_workers(self) -> int:
        return self.workers or os.cpu_count() or 1

    @property
    def chosen_threads(self) -> int:
        return self.threads or max(1, (os.cpu_count() or 1) // self.chosen_workers)

    @contextmanager
    def _pool(self, workers: int) -> Iterator[ProcessPoolExecutor]:
        """A pool whose processes are gone when it is left, whatever the reason."""
        others = set(multiprocessing.active_children())
        with _environment(OMP_NUM_THREADS=str(self.chosen_threads)):
            pool = ProcessPoolExecutor(
                workers, multiprocessing.get_context("spawn"), _begin, (self.chosen_threads, os.getpid())
            )
            finished = False
            try:
                yield pool
                finished = True
            finally:
                if not finished:  # an error, or Ctrl-C: what is under way has its checkpoint
                    for process in set(multiprocessing.active_children()) - others:
                        process.kill()
                pool.shutdown(wait=True, cancel_futures=True)


def _work(run: RunConfig, folder: Path, device: str, store: Path) -> RunResult | RunFailure:
    from bitcycle._study.engines.worker import work

    return work(run, folder, device, store=store)


def _begin(threads: int, parent: int) -> None:
    """Set a worker up: Ctrl-C is the parent's affair, and a worker does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(threads)


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables that the workers inherit; torch reads the number of threads when it is loaded."""
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
