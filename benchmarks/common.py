"""What the scripts share: runs in worker processes, paired differences, tables in Markdown, and the name of the CPU."""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics.analysis import Estimate
from bitcycle.lab.statistics.estimates import compare, t_interval


def cpu_model() -> str:
    """Return the name of the CPU."""
    info = Path("/proc/cpuinfo")  # where Linux has it
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def all_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_processes(call: Callable[..., Any], arguments: Iterable[Any], workers: int) -> Iterator[Any]:
    """Yield the result of a call for each argument, in order, from fresh processes with one thread each."""
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_use_one_thread) as pool:
        yield from pool.map(call, arguments)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def trained_metric(run: RunConfig) -> float:
    """Train a run and return its test metric."""
    from bitcycle.lab.runs.training import train

    return train(run)[0].test


def difference(setting: Mapping[int, float], other: Mapping[int, float], sign: int = 1) -> Estimate:
    """Return the mean difference of two settings, paired by seed, with its 95 % interval (Student's t).

    ``sign`` is -1 where a lower metric is better and a better setting should have a positive difference.
    """
    return t_interval(compare(setting, other, sign))


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> print(markdown_table(["model", "time"], [["a", "1 ms"]]))
    | model | time |
    |---|---|
    | a | 1 ms |
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])
