"""The engine for one machine: worker processes that share the cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Self

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import code_of
from bitcycle.lab.studies.engines.worker import work
from bitcycle.lab.studies.queue import RunQueue
from bitcycle.lab.studies.store import Store

POLL_INTERVAL_S = 0.2  # between two checks of the workers
SHUTDOWN_TIMEOUT_S = 5  # that a process may take to end after it has closed its connection
MAX_CRASHES = 3  # after so many crashes of its worker, a run has failed


@dataclass(frozen=True)
class LocalEngine:
    """Worker processes on this machine.

    Small models gain little from a second thread, so by default each core gets one worker with one thread. A worker
    that crashes is replaced, and its run resumes from its checkpoint; the other workers go on. After its second crash,
    a run waits until it can train alone, so that the memory of other runs is not what ends it. After the third, it has
    failed.
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
        self, runs: RunQueue, store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """Train the runs and yield their outcomes; see :meth:`bitcycle.lab.studies.driver.Engine.outcomes`."""
        order = _Order(runs)
        with _Pool(store.checkpoints, self.device, self.thread_count) as pool:
            while order or pool.busy:
                while len(pool.busy) < self.worker_count and (run := order.next(pool.busy)) is not None:
                    pool.start(run)
                pool.wait()
                for run, ending in pool.collect():
                    outcome = order.crashed(run, ending) if isinstance(ending, str) else ending
                    if outcome is not None:
                        yield outcome
                watch({run.name: worker.step for run, worker in pool.training.items()})

    @property
    def worker_count(self) -> int:
        """The number of processes."""
        return self.workers or os.cpu_count() or 1

    @property
    def thread_count(self) -> int:
        """Threads of each process."""
        return self.threads or max(1, (os.cpu_count() or 1) // self.worker_count)


class _Order:
    """Which run is trained next: those of the queue, and between them again those whose worker crashed."""

    def __init__(self, runs: RunQueue) -> None:
        self.queue = runs
        self.again: deque[RunConfig] = deque()
        self.suspects: deque[RunConfig] = deque()  # to be trained alone
        self.alone: RunConfig | None = None
        self.crashes = Counter[RunConfig]()

    def __len__(self) -> int:
        return len(self.queue) + len(self.again) + len(self.suspects)

    def next(self, busy: list[RunConfig]) -> RunConfig | None:
        """Return the next run to train beside these, or None if nothing can begin now."""
        if self.alone in busy:
            return None
        run = self.again.popleft() if self.again else self.queue.take()
        if run is None and self.suspects and not busy:
            run = self.alone = self.suspects.popleft()
        return run

    def crashed(self, run: RunConfig, how: str) -> RunFailure | None:
        """Count a crash of the worker that trained a run, and say whether it was one too many."""
        self.crashes[run] += 1
        if self.crashes[run] == MAX_CRASHES:
            return RunFailure(run, f"worker crashed {MAX_CRASHES} times ({how}): out of memory, or killed")
        (self.suspects if self.crashes[run] == MAX_CRASHES - 1 else self.again).append(run)
        return None


class _Pool:
    """Worker processes, each with a connection of its own, so that a crash is known to be that of one run.

    All of them have ended when its context is left. An error or Ctrl-C kills them: the current runs have their
    checkpoints.
    """

    def __init__(self, checkpoints: Path, device: str, threads: int) -> None:
        self.checkpoints, self.device, self.threads = checkpoints, device, threads
        self.training: dict[RunConfig, _Worker] = {}
        self.idle: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        for worker in (*self.training.values(), *self.idle):
            if error is not None:
                worker.process.kill()
            worker.end()

    @property
    def busy(self) -> list[RunConfig]:
        """The runs that are under way."""
        return list(self.training)

    def start(self, run: RunConfig) -> None:
        """Begin a run in an idle worker, or in a new one."""
        while self.idle:
            worker = self.idle.pop()
            if worker.process.is_alive():
                break
            worker.end()
        else:
            with _environment(OMP_NUM_THREADS=str(self.threads)):
                worker = _Worker(self.threads)
        self.training[run] = worker
        worker.begin(run, self.checkpoints / run.name, self.device)

    def wait(self) -> None:
        """Wait a moment, or until a run has ended or a worker has crashed."""
        if self.training:
            wait([each for worker in self.training.values() for each in worker.waitables], POLL_INTERVAL_S)
        else:
            time.sleep(POLL_INTERVAL_S)

    def collect(self) -> Iterator[tuple[RunConfig, RunResult | RunFailure | str]]:
        """Yield the runs that have ended, with their outcomes, or with how their workers crashed.

        Raises:
            OSError: A checkpoint cannot be written.
        """
        for run, worker in list(self.training.items()):
            outcome = worker.outcome()
            if outcome is None:
                continue
            del self.training[run]
            if isinstance(outcome, str):
                worker.end()
            else:
                self.idle.append(worker)
            if isinstance(outcome, OSError):
                raise outcome
            yield run, outcome


class _Worker:
    """A process that trains one run after the other. It ends when its connection is closed, or with its parent."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.step = 0
        """The step that the process has reported last."""
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, threads, os.getpid()))
        with _without_main_module():
            self.process.start()
        other.close()  # so that the connection ends with the process

    def begin(self, run: RunConfig, folder: Path, device: str) -> None:
        self.step = 0
        with suppress(OSError):  # it has crashed, which shows when its outcome is asked for
            self.connection.send((run, code_of(run), folder, device))

    @property
    def waitables(self) -> tuple[Connection, int]:
        """What becomes ready when a run has ended or the process has."""
        return self.connection, self.process.sentinel

    def outcome(self) -> RunResult | RunFailure | OSError | str | None:
        """Return the outcome of the run, how the process crashed, or None while it is under way."""
        ended = not self.process.is_alive()  # asked first: the process may send its outcome and end in between
        try:
            while self.connection.poll():
                received: int | RunResult | RunFailure | OSError = self.connection.recv()
                if not isinstance(received, int):
                    return received
                self.step = received
        except (EOFError, OSError):  # the connection ended before or within an outcome
            self.process.join(SHUTDOWN_TIMEOUT_S)
            self.process.kill()
            self.process.join()
            ended = True
        if not ended:
            return None
        code = self.process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        self.connection.close()
        self.process.join()
        self.process.close()


def _serve(connection: Connection, threads: int, parent: int) -> None:
    """Train the runs that arrive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore")
    import torch  # slow, so after Ctrl-C is ignored

    torch.set_num_threads(threads)

    def report(step: int) -> None:
        with suppress(OSError):  # the parent has ended, and this process is about to
            connection.send(step)

    while True:
        try:
            run, code, folder, device = connection.recv()
        except EOFError:
            return
        try:
            outcome: RunResult | RunFailure | OSError = work(run, folder, device, report, code)
        except OSError as error:
            outcome = error
        connection.send(outcome)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Hide the main module, which a new process would execute again: workers need nothing of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


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
