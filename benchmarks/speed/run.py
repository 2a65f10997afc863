"""Running everything that was asked for, one stage after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from benchmarks.speed import kernel_times, overhead
from benchmarks.speed.kernel_times import KernelTime, ProductTime, time_kernels, time_products
from benchmarks.speed.machine import Machine, this_machine
from benchmarks.speed.memory import PeakMemory, peak_memory
from benchmarks.speed.overhead import Overhead, time_bits, time_start_up
from benchmarks.speed.settings import MODELS, BenchSettings, Part
from benchmarks.speed.steps import StepTime, time_steps
from benchmarks.speed.variants import FULL_PRECISION, variants_of
from bitcycle import __version__

Report = Callable[[int, int, str], None]


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


class _Stage(NamedTuple):
    name: str
    run: Callable[[], None]


def bench(settings: BenchSettings, report: Report = lambda done, total, name: None) -> BenchResult:
    """Measure what the settings say.

    Args:
        settings: What to measure.
        report: Called before each stage with the number of stages done, their total, and the name of the stage.

    Returns:
        The figures, and the machine they were taken on.
    """
    result = BenchResult(__version__, this_machine(), settings)
    stages = _stages(settings, result)
    for done, stage in enumerate(stages):
        report(done, len(stages), stage.name)
        stage.run()
    return result


def _stages(settings: BenchSettings, result: BenchResult) -> list[_Stage]:
    stages = []
    for part in settings.parts:
        stages += _STAGES[part](settings, result)
    return stages


def _steps(settings: BenchSettings, result: BenchResult) -> list[_Stage]:
    def run(model: str, threads: int) -> None:
        result.steps += time_steps(model, threads, settings)

    return [
        _Stage(
            f"training step, {MODELS[model]}, {threads} thread{'s' if threads > 1 else ''}",
            partial(run, model, threads),
        )
        for threads in settings.threads
        for model in settings.models
    ]


def _memory(settings: BenchSettings, result: BenchResult) -> list[_Stage]:
    full_precision: dict[str, int | None] = {}

    def run(model: str, variant: str) -> None:
        peak = peak_memory(model, variant, settings, full_precision.get(model))
        if variant == FULL_PRECISION:
            full_precision[model] = peak.bytes
        result.memory.append(peak)

    return [
        _Stage(f"memory, {MODELS[model]}, {variant}", partial(run, model, variant))
        for model in settings.models
        for variant in variants_of(model)
    ]


def _kernels(settings: BenchSettings, result: BenchResult) -> list[_Stage]:
    def run_kernels(elements: int) -> None:
        result.kernels += time_kernels(elements, settings.rounds)

    def run_products(shape: tuple[int, int, int]) -> None:
        result.products += time_products(*shape, settings.rounds)

    sizes = kernel_times.QUICK_SIZES if settings.quick else kernel_times.SIZES
    shapes = kernel_times.QUICK_SHAPES if settings.quick else kernel_times.SHAPES
    return [
        *(_Stage(f"kernels, {elements:,} elements", partial(run_kernels, elements)) for elements in sizes),
        *(_Stage(f"products, {' x '.join(map(str, shape))}", partial(run_products, shape)) for shape in shapes),
    ]


def _overhead(settings: BenchSettings, result: BenchResult) -> list[_Stage]:
    def run_bits() -> None:
        result.overhead += time_bits(overhead.QUICK_SITES if settings.quick else overhead.SITES, settings.rounds)

    def run_start_up() -> None:
        result.overhead += time_start_up(settings.rounds)

    return [_Stage("setting bits", run_bits), _Stage("start-up", run_start_up)]


_STAGES: dict[Part, Callable[[BenchSettings, BenchResult], list[_Stage]]] = {
    Part.STEPS: _steps,
    Part.MEMORY: _memory,
    Part.KERNELS: _kernels,
    Part.OVERHEAD: _overhead,
}
