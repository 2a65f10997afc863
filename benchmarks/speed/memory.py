"""The peak memory of a training step.

Each variant runs in a process of its own, on one thread. A small version of the step runs first, so that all code is
loaded. What counts is the most memory that the process holds while it builds the model and trains two steps, above what
it held before: parameters, gradients, data, what the backward pass saves and what the kernels need for a moment. The
allocator is told to return every large block at once, so that what counts is memory in use. Linux only.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.settings import BenchSettings

MEASURED_STEPS = 2
RESET_PEAK = "5"
"""What Linux takes as the order to forget the peak of a process so far."""
RETURN_MEMORY_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True)
class PeakMemory:
    """The peak memory of a training step."""

    model: str
    variant: str
    bytes: int | None
    ratio: float | None
    """To full precision."""
    note: str = ""
    """Why it was not measured."""


def peak_memory(model: str, variant: str, settings: BenchSettings, full_precision: int | None) -> PeakMemory:
    """Measure one variant in a new process. ``full_precision`` is the peak to compare with, if it is known."""
    if not sys.platform.startswith("linux"):
        return PeakMemory(model, variant, None, None, "only measured on Linux")
    arguments = {
        "model": model,
        "variant": variant,
        "forward": settings.forward,
        "backward": settings.backward,
        "quick": settings.quick,
    }
    command = [sys.executable, "-m", __name__, json.dumps(arguments)]
    done = subprocess.run(command, env={**os.environ, **RETURN_MEMORY_AT_ONCE}, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the process ended"]
        return PeakMemory(model, variant, None, None, lines[-1])
    found = json.loads(done.stdout)
    if "note" in found:
        return PeakMemory(model, variant, None, None, found["note"])
    peak = int(found["bytes"])
    base = peak if full_precision is None else full_precision
    return PeakMemory(model, variant, peak, peak / base if base else None)


def _measure(model: str, variant: str, forward: int, backward: int, quick: bool) -> dict[str, object]:
    import torch

    from benchmarks.speed.peers import NotAvailableError
    from benchmarks.speed.variants import training_step

    torch.set_num_threads(1)
    try:
        warm = training_step(model, variant, forward, backward, quick=True)
    except NotAvailableError as reason:
        return {"note": str(reason)}
    warm()
    del warm
    gc.collect()
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before = _status("VmRSS")
    step = training_step(model, variant, forward, backward, quick)
    for _ in range(MEASURED_STEPS):
        step()
    return {"bytes": _status("VmHWM") - before}


def _status(field: str) -> int:
    """Return a field of the status of this process in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, field
    return 1024 * int(found[1])


if __name__ == "__main__":
    answer = _measure(**json.loads(sys.argv[1]))
    print(json.dumps(answer))
