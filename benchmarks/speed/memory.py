"""The peak memory of a training step.

Each variant runs in a process of its own, on one thread. A small version of the step runs first, so that all code is
loaded. What counts is the most memory that the process holds while it builds the model and trains two steps, above what
it held before: parameters, gradients, data, what the backward pass saves and what the kernels need for a moment. The
allocator is told to return every large block at once, so that what counts is memory in use. Linux only.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import torch

from benchmarks.speed.peers import NotAvailableError
from benchmarks.speed.settings import BenchSettings
from benchmarks.speed.variants import FULL_PRECISION, training_step, variants_of
from bitcycle._support.text import format_error

MEASURED_STEPS = 2
RESET_PEAK = "5"
"""What Linux takes as the order to forget the peak of a process so far."""
RETURN_MEMORY_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True)
class PeakMemory:
    """The peak memory of a training step; without a number, a note says why."""

    model: str
    variant: str
    bytes: int | None = None
    ratio: float | None = None
    """To full precision."""
    note: str = ""


def peak_memory(model: str, settings: BenchSettings) -> list[PeakMemory]:
    """Measure all variants of a model, each in a new process."""
    rows: list[PeakMemory] = []
    for variant in variants_of(model):
        if not sys.platform.startswith("linux"):
            rows.append(PeakMemory(model, variant, note="only measured on Linux"))
            continue
        with mock.patch.dict(os.environ, RETURN_MEMORY_AT_ONCE), ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                peak = pool.submit(_measure, model, variant, settings).result()
            except NotAvailableError as reason:
                rows.append(PeakMemory(model, variant, note=str(reason)))
            except Exception as error:  # the process may also have been killed
                rows.append(PeakMemory(model, variant, note=format_error(error)))
            else:
                full = peak if variant == FULL_PRECISION else rows[0].bytes
                rows.append(PeakMemory(model, variant, peak, peak / full if full else None))
    return rows


def _measure(model: str, variant: str, settings: BenchSettings) -> int:
    torch.set_num_threads(1)
    training_step(model, variant, settings.forward, settings.backward, quick=True)()
    gc.collect()
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before = _status("VmRSS")
    step = training_step(model, variant, settings.forward, settings.backward, settings.quick)
    for _ in range(MEASURED_STEPS):
        step()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    """Return a field of the status of this process in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, field
    return 1024 * int(found[1])
