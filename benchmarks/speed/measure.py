"""Measuring: training steps, their peak memory, kernels, and the overhead of everything else.

Everything that is compared runs in turns in one process, so that a change in the speed of the machine affects all of it
alike. Only peak memory needs a process for each variant.
"""

from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.common import run_in_processes
from benchmarks.speed.variants import FULL_PRECISION, NotAvailableError, training_step, variants_of
from bitcycle._cost import Meter
from bitcycle.conversion.convert import quantize, set_bits
from bitcycle.conversion.model_summary import summary
from bitcycle.kernels import native
from bitcycle.kernels.noise import noise_key
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes
from bitcycle.lab.format import format_error
from bitcycle.lab.models.resnets import CifarResNet
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules import schedule

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
Row = dict[str, Any]
"""A row of figures, by the keys of the JSON document. A figure that could not be measured is None; a note says why."""


class Part(StrEnum):
    """What can be measured."""

    STEPS = "steps"
    MEMORY = "memory"
    KERNELS = "kernels"
    OVERHEAD = "overhead"


@dataclass(frozen=True)
class Settings:
    """What to measure: the options of the command."""

    models: tuple[str, ...]
    threads: tuple[int, ...]
    forward: int = 7
    backward: int = 8
    rounds: int = 15
    parts: tuple[Part, ...] = tuple(Part)
    quick: bool = False


@dataclass(frozen=True)
class Spread:
    """The median of a sample with its lower and upper quartiles."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, sample: Sequence[float], unit: float | Sequence[float] = 1) -> Spread:
        """Return the spread of a sample, in a unit, or relative to another sample of the same rounds.

        >>> Spread.of([1, 2, 3, 4, 5]), Spread.of([2.0, 6.0, 4.0], [1.0, 2.0, 1.0]).median
        (Spread(median=3.0, lower=2.0, upper=4.0), 3.0)
        """
        lower, median, upper = np.quantile(np.divide(sample, unit), (0.25, 0.5, 0.75)).tolist()
        return cls(median, lower, upper)


def time_in_turns(
    calls: Mapping[Name, Call], rounds: int, warm_up: int = 2, repeats: int = 1, threads: int = 1
) -> dict[Name, list[float]]:
    """Return the seconds of each call in each round.

    A round runs every call once, in an order that changes from round to round, so that no call always follows the same
    one. Times of the same round can be compared although the speed of the machine changes.

    Args:
        calls: What to time, by name.
        rounds: Number of rounds that count.
        warm_up: Number of rounds before them.
        repeats: How often each call runs in its turn; its time is the mean. For calls that are too short for the clock.
        threads: Number of threads of torch.
    """
    order = list(calls)
    shuffle = random.Random(0).shuffle
    seconds: dict[Name, list[float]] = {name: [] for name in calls}
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(warm_up + rounds):
            shuffle(order)
            for name in order:
                call = calls[name]
                start = time.perf_counter()
                for _ in range(repeats):
                    call()
                seconds[name].append((time.perf_counter() - start) / repeats)
    finally:
        torch.set_num_threads(threads_before)
    return {name: times[warm_up:] for name, times in seconds.items()}


# --- Training steps


def time_steps(model: str, threads: int, settings: Settings) -> list[Row]:
    """Time the steps of all variants of a model in turns; ratios are to full precision, round by round."""
    steps, notes = {}, {}
    for variant in variants_of(model):
        try:
            steps[variant] = training_step(model, variant, settings.forward, settings.backward, settings.quick)
        except NotAvailableError as reason:
            notes[variant] = str(reason)
    times = time_in_turns(steps, settings.rounds, threads=threads)
    return [
        {
            "model": model,
            "variant": variant,
            "threads": threads,
            "seconds": Spread.of(times[variant]) if variant in times else None,
            "ratio": Spread.of(times[variant], times[FULL_PRECISION]) if variant in times else None,
            "note": notes.get(variant, ""),
        }
        for variant in variants_of(model)
    ]


# --- Peak memory

MEASURED_STEPS = 2
RETURN_MEMORY_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""Makes the allocator return every large block at once, so that what counts is memory in use."""


def peak_memory(model: str, settings: Settings) -> list[Row]:
    """Measure all variants of a model, each in a new process on one thread; ratios are to full precision. Linux only.

    A small version of the step runs first, so that all code is loaded. What counts is the most memory that the process
    holds while it builds the model and trains two steps, above what it held before: parameters, gradients, data, what
    the backward pass saves and what the kernels need for a moment.
    """
    rows: list[Row] = []
    for variant in variants_of(model):
        peak, note = None, ""
        try:
            if not sys.platform.startswith("linux"):
                raise NotAvailableError("only measured on Linux")
            with mock.patch.dict(os.environ, RETURN_MEMORY_AT_ONCE):
                [peak] = run_in_processes(_measure_peak, [(model, variant, settings)], workers=1)
        except Exception as error:  # the process may also have been killed
            note = str(error) if isinstance(error, NotAvailableError) else format_error(error)
        full = rows[0]["bytes"] if rows else peak
        ratio = peak / full if peak is not None and full else None
        rows.append({"model": model, "variant": variant, "bytes": peak, "ratio": ratio, "note": note})
    return rows


def _measure_peak(job: tuple[str, str, Settings]) -> int:
    model, variant, settings = job
    training_step(model, variant, settings.forward, settings.backward, quick=True)()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    step = training_step(model, variant, settings.forward, settings.backward, settings.quick)
    for _ in range(MEASURED_STEPS):
        step()
    return _memory("VmHWM") - before


def _memory(field: str) -> int:
    """Return a field of the status of this process in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, field
    return 1024 * int(found[1])


# --- Kernels against a memory copy, on one thread

BITS = 7
ROW = 512
"""The length of the rows of the tensors that are rounded."""
ELEMENTS_PER_TURN = 2**18
"""A call on fewer elements is repeated within its turn, so that the turn is long enough for the clock."""


def time_kernels(elements: int, rounds: int) -> list[Row]:
    """Time the kernels on a tensor of this size, and a copy of the tensor, per element."""
    x = torch.randn(elements // ROW, ROW)
    encoded = encode(x, BITS)
    operations: dict[str, Call] = {
        "nearest, one grid": partial(encode, x, BITS),
        "nearest, per row": partial(encode, x, BITS, (1,)),
        "nearest, per channel": partial(encode, x, BITS, (0,)),
        "nearest, codes alone": partial(encode_in_bytes, x, BITS),
        "stochastic, one grid": partial(encode, x, BITS, None, noise_key(1, 2, 3)),
        "decode": partial(decode, encoded.codes, encoded.scale, encoded.zero, torch.float32),
    }
    calls: dict[tuple[str, str], Call] = {("copy", "torch"): partial(torch.empty_like(x).copy_, x)}
    for kernels in dict.fromkeys([native.current_kernels(), "reference"]):
        calls |= {(name, kernels): partial(_run_with, kernels, call) for name, call in operations.items()}
    seconds = time_in_turns(calls, rounds, repeats=max(1, ELEMENTS_PER_TURN // elements))
    return [
        {
            "operation": operation,
            "kernels": kernels,
            "elements": elements,
            "nanoseconds": Spread.of(times, unit=1e-9 * elements),
        }
        for (operation, kernels), times in seconds.items()
    ]


def _run_with(kernels: str, call: Call) -> None:
    before = native.current_kernels()
    native.choose_kernels(kernels)
    try:
        call()
    finally:
        native.choose_kernels(before)


# --- What does not depend on the size of tensors


def time_overhead(rounds: int, quick: bool) -> list[Row]:
    """Time what changes, shows or counts the bits of a model with many sites, and the start of new processes."""
    warm_up, sites, size = 1, 20 if quick else 2000, 8 if quick else 32
    model, constant = (quantize(nn.Sequential(*(nn.Linear(1, 1) for _ in range(sites)))) for _ in range(2))
    widths, x = cycle((3, 4)), torch.randn(2, 1)
    steps = warm_up + rounds + 1
    alternating = schedule(lambda step, total: 3 + step % 2, name="alternating")
    scheduler = PrecisionScheduler(model, alternating, steps, backward_bits=8)
    static = PrecisionScheduler(constant, "static:7", steps, backward_bits=8)
    resnet, images = quantize(CifarResNet(20)), torch.randn(32, 3, size, size)
    meter = Meter(resnet)
    resnet(images)  # with the extra pass that counts the products of this shape
    run = partial(subprocess.run, stdout=subprocess.DEVNULL, check=True)
    calls: dict[str, Call] = {
        f"set_bits, {sites:,} sites": lambda: set_bits(model, forward=next(widths), backward=8),
        f"scheduler step, {sites:,} sites, new bits": scheduler.step,
        f"scheduler step, {sites:,} sites, same bits": static.step,
        f"summary with inputs, {sites:,} sites": lambda: str(summary(constant, x)),
        "meter, ResNet-20": lambda: meter._before(resnet, (images,), {}),
        "start of Python": partial(run, [sys.executable, "-c", "pass"]),
        "import bitcycle": partial(run, [sys.executable, "-c", "import bitcycle"]),
        "bitcycle --help": partial(run, [sys.executable, "-m", "bitcycle", "--help"]),
    }
    seconds = time_in_turns(calls, rounds, warm_up)
    return [{"what": what, "seconds": Spread.of(times)} for what, times in seconds.items()]
