"""Measure everything that was asked for, one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from benchmarks.speed.kernel_times import KernelTime, ProductTime, shapes, sizes, time_kernels, time_products
from benchmarks.speed.machine import Machine, this_machine
from benchmarks.speed.memory import PeakMemory, peak_memory
from benchmarks.speed.overhead import Overhead, time_bits, time_start_up
from benchmarks.speed.settings import MODELS, BenchSettings, Part
from benchmarks.speed.steps import StepTime, time_steps
from bitcycle import __version__
from bitcycle.lab.format import count


@dataclass
class BenchResult:
    """All figures. A part that was not asked for is empty."""

    bitcycle: str
    machine: Machine
    settings: BenchSettings
    steps: list[StepTime] = field(default_factory=list)
    memory: list[PeakMemory] = field(default_factory=list)
    kernels: list[KernelTime] = field(default_factory=list)
    products: list[ProductTime] = field(default_factory=list)
    overhead: list[Overhead] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as values for JSON. Times are seconds unless a name says otherwise."""
        return asdict(self)


class Stage(NamedTuple):
    """Something to measure: its name, the list of the result that it adds to, and what returns the rows."""

    name: str
    rows: list[Any]
    measure: Callable[[], list[Any]]


def run(settings: BenchSettings, report: Callable[[str], None] = lambda name: None) -> BenchResult:
    """Measure what the settings say, and call ``report`` with the name of each stage before it begins."""
    result = BenchResult(__version__, this_machine(), settings)
    for part in settings.parts:
        for stage in _stages(part, settings, result):
            report(stage.name)
            stage.rows.extend(stage.measure())
    return result


def _stages(part: Part, settings: BenchSettings, result: BenchResult) -> Iterator[Stage]:
    rounds, quick = settings.rounds, settings.quick
    match part:
        case Part.STEPS:
            for threads in settings.threads:
                for model in settings.models:
                    name = f"training step, {MODELS[model]}, {count(threads, 'thread')}"
                    yield Stage(name, result.steps, partial(time_steps, model, threads, settings))
        case Part.MEMORY:
            for model in settings.models:
                yield Stage(f"memory, {MODELS[model]}", result.memory, partial(peak_memory, model, settings))
        case Part.KERNELS:
            for size in sizes(quick):
                yield Stage(f"kernels, {size:,} elements", result.kernels, partial(time_kernels, size, rounds))
            for shape in shapes(quick):
                name = f"products, {' x '.join(map(str, shape))}"
                yield Stage(name, result.products, partial(time_products, shape, rounds))
        case Part.OVERHEAD:
            yield Stage("setting bits", result.overhead, partial(time_bits, rounds, quick))
            yield Stage("start-up", result.overhead, partial(time_start_up, rounds))
