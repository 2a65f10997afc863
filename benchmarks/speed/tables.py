"""The figures as tables, in plain text or in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.common import markdown as markdown_table
from benchmarks.speed.kernel_times import KernelTime, ProductTime
from benchmarks.speed.machine import Machine
from benchmarks.speed.memory import PeakMemory
from benchmarks.speed.peers import NOT_INSTALLED, PEERS
from benchmarks.speed.run import BenchResult
from benchmarks.speed.settings import MODELS
from benchmarks.speed.steps import StepTime
from benchmarks.speed.timing import Spread
from benchmarks.speed.variants import FULL_PRECISION, OWN
from bitcycle._support.text import table
from bitcycle.lab.format import count


class Table(NamedTuple):
    """A table with a title, and lines below it."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()

    def as_text(self, markdown: bool) -> str:
        """Return it as plain text or as Markdown."""
        if not markdown:
            return "\n".join([self.title, "", table(self.heads, self.rows), *self.notes])
        return "\n\n".join([f"**{self.title}**", markdown_table(self.heads, self.rows), *self.notes])


def as_text(result: BenchResult, markdown: bool) -> str:
    """Return all figures as plain text or as Markdown."""
    settings = result.settings
    conditions = (
        f"bitcycle {result.bitcycle}: {settings.forward} bits forward, {settings.backward} bits backward, "
        f"{count(settings.rounds, 'round')}; medians, with quartiles in parentheses."
    )
    quick = ["Small versions of everything (--quick): the figures mean nothing."] if settings.quick else []
    head = "\n".join([conditions, *quick, _machine(result.machine)])
    return "\n\n".join([head, *(each.as_text(markdown) for each in tables(result))])


def tables(result: BenchResult) -> list[Table]:
    """Return the tables of all parts that were measured."""
    made: list[Table] = []
    for threads in dict.fromkeys(row.threads for row in result.steps):
        title = f"Training step, time relative to FP32, {count(threads, 'thread')}"
        made += _compared(title, [row for row in result.steps if row.threads == threads])
    made += _compared("Training step, peak memory relative to FP32", result.memory)
    if result.kernels:
        made.append(_kernels(result.kernels))
    if result.products:
        made.append(_products(result.products))
    if result.overhead:
        rows = [[row.what, _spread(row.seconds.times(1000), " ms", 3)] for row in result.overhead]
        made.append(Table("Overhead", ["", "time"], rows))
    return made


def _machine(machine: Machine) -> str:
    instructions = f"{machine.instructions}, {'' if machine.vnni else 'no '}VNNI"
    libraries = {"Python": machine.python, "torch": machine.torch, **machine.peers}
    installed = [f"{name} {version}" for name, version in libraries.items() if version]
    cores = count(machine.cores, "core")
    parts = [f"{machine.cpu} ({instructions})", cores, *installed, f"{machine.kernels} kernels"]
    return f"{', '.join(parts)}; 'auto' means {machine.auto!r}."


def _compared(title: str, rows: Sequence[StepTime | PeakMemory]) -> Iterator[Table]:
    """Yield a table of bitcycle's variants, and one of the peers, with a row for each model."""
    found = {(row.model, row.variant): row for row in rows}
    for names, heading in ((tuple(OWN), title), (tuple(PEERS), f"{title}: other libraries")):
        columns = (FULL_PRECISION, *names)
        models = dict.fromkeys(row.model for row in rows if row.variant in names)
        notes = dict.fromkeys(
            f"{MODELS[model]}, {name}: {note}."
            for model in models
            for name in columns
            if (note := found[model, name].note) not in ("", NOT_INSTALLED)
        )
        if models:
            cells = [[MODELS[model], *(_cell(found[model, name]) for name in columns)] for model in models]
            yield Table(heading, ["model", *columns], cells, tuple(notes))


def _cell(row: StepTime | PeakMemory) -> str:
    """Return the figure of full precision itself, or that of a variant relative to it."""
    if row.note:
        return row.note if row.note == NOT_INSTALLED else "-"
    if row.variant != FULL_PRECISION:
        return _spread(row.ratio) if isinstance(row.ratio, Spread) else "-" if row.ratio is None else f"{row.ratio:.2f}"
    if isinstance(row, StepTime):
        assert row.seconds is not None
        return f"{1000 * row.seconds.median:.1f} ms"
    assert row.bytes is not None
    return f"{row.bytes / 2**20:.1f} MB"


def _kernels(rows: Sequence[KernelTime]) -> Table:
    by_operation: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_operation.setdefault((row.operation, row.kernels), []).append(_spread(row.nanoseconds))
    sizes = dict.fromkeys(f"{row.elements:,} elements" for row in rows)
    cells = [[*operation, *times] for operation, times in by_operation.items()]
    return Table("Kernels, nanoseconds per element, one thread", ["operation", "kernels", *sizes], cells)


def _products(rows: Sequence[ProductTime]) -> Table:
    cells = []
    for row in rows:
        times = [f"{1000 * each.median:.2f} ms" for each in (row.float_seconds, row.integer_seconds)]
        cells.append([f"{row.rows} x {row.inputs} x {row.outputs}", row.product, *times, _spread(row.ratio)])
    title = "Products of a linear layer, one thread: torch._int_mm relative to FP32"
    return Table(title, ["rows x inputs x outputs", "product", "FP32", "integer", "ratio"], cells)


def _spread(spread: Spread, unit: str = "", digits: int = 2) -> str:
    """Return a median with its quartiles.

    >>> _spread(Spread(0.5, 0.4, 0.6), " ms")
    '0.50 ms (0.40-0.60)'
    """
    return f"{spread.median:.{digits}f}{unit} ({spread.lower:.{digits}f}-{spread.upper:.{digits}f})"
