"""The figures as tables, in plain text or in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from benchmarks.speed.kernel_times import KernelTime
from benchmarks.speed.machine import Machine
from benchmarks.speed.memory import PeakMemory
from benchmarks.speed.peers import PEERS
from benchmarks.speed.run import BenchResult
from benchmarks.speed.settings import MODELS
from benchmarks.speed.steps import StepTime
from benchmarks.speed.timing import Spread
from benchmarks.speed.variants import FULL_PRECISION, OWN
from bitcycle._support.text import table


@dataclass(frozen=True)
class Table:
    """A table with a title, and lines below it."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Return it as plain text."""
        return "\n".join([self.title, "", table(self.heads, self.rows), *self.notes])

    def as_markdown(self) -> str:
        """Return it as Markdown.

        >>> print(Table("Times", ["model", "time"], [["a", "1 ms"]]).as_markdown())
        **Times**
        <BLANKLINE>
        | model | time |
        |---|---|
        | a | 1 ms |
        """
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        drawn = [f"|{'|'.join(cells)}|" if cells[0] == "---" else f"| {' | '.join(cells)} |" for cells in lines]
        notes = [line for note in self.notes for line in ("", note)]
        return "\n".join([f"**{self.title}**", "", *drawn, *notes])


def as_text(result: BenchResult) -> str:
    """Return all figures as plain text."""
    return "\n\n".join([_settings(result), *(each.as_text() for each in tables(result))])


def as_markdown(result: BenchResult) -> str:
    """Return all figures as Markdown."""
    return "\n\n".join([_settings(result), *(each.as_markdown() for each in tables(result))])


def tables(result: BenchResult) -> list[Table]:
    """Return the tables of all parts that were measured."""
    made: list[Table] = []
    for threads in dict.fromkeys(row.threads for row in result.steps):
        rows = [row for row in result.steps if row.threads == threads]
        title = f"Training step, time relative to FP32, {threads} thread{'s' if threads > 1 else ''}"
        made += _compared(title, rows, _milliseconds, lambda row: _spread(row.ratio))
    made += _compared(
        "Training step, peak memory relative to FP32",
        result.memory,
        _megabytes,
        lambda row: "-" if row.ratio is None else f"{row.ratio:.2f}",
    )
    if result.kernels:
        made.append(_kernels(result.kernels))
    if result.products:
        made.append(_products(result))
    if result.overhead:
        rows_of_overhead = [[row.what, _spread(row.seconds.times(1000), " ms", 3)] for row in result.overhead]
        made.append(Table("Overhead", ["", "time"], rows_of_overhead))
    return made


def _settings(result: BenchResult) -> str:
    settings = result.settings
    told = (
        f"bitcycle {result.bitcycle}: {settings.forward} bits forward, {settings.backward} bits backward, "
        f"{settings.rounds} round{'s' if settings.rounds > 1 else ''}; medians, with quartiles in parentheses."
    )
    quick = ["Small versions of everything (--quick): the figures mean nothing."] if settings.quick else []
    return "\n".join([told, *quick, _machine(result.machine)])


def _machine(machine: Machine) -> str:
    instructions = [*machine.flags, *([] if machine.vnni else ["no VNNI"])] or ["VNNI"]
    cores = f"{machine.cores} core{'s' if machine.cores > 1 else ''}"
    libraries = {"Python": machine.python, "torch": machine.torch, **machine.peers}
    installed = [f"{name} {version}" for name, version in libraries.items() if version]
    parts = [f"{machine.cpu} ({', '.join(instructions)})", cores, *installed, f"{machine.kernels} kernels"]
    return f"{', '.join(parts)}; 'auto' means {machine.auto!r}."


class _Measured(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def note(self) -> str: ...


Row = TypeVar("Row", bound=_Measured)


def _compared(
    title: str, rows: Sequence[Row], full: Callable[[Row], str], relative: Callable[[Row], str]
) -> Iterable[Table]:
    """Return a table of bitcycle's variants, and one of the peers, with a row for each model."""
    found = {(row.model, row.variant): row for row in rows}
    models = list(dict.fromkeys(row.model for row in rows))
    for names, heading in ((tuple(OWN), title), (tuple(PEERS), f"{title}: other libraries")):
        shown = [model for model in models if any((model, name) in found for name in names)]
        if not shown:
            continue
        cells = []
        notes: dict[str, None] = {}
        for model in shown:
            line = [MODELS[model]]
            for name in (FULL_PRECISION, *names):
                row = found[model, name]
                if row.note:
                    line.append("not installed" if row.note == "not installed" else "-")
                    if row.note != "not installed":
                        notes[f"{MODELS[model]}, {name}: {row.note}."] = None
                else:
                    line.append(full(row) if name == FULL_PRECISION else relative(row))
            cells.append(line)
        yield Table(heading, ["model", FULL_PRECISION, *names], cells, tuple(notes))


def _milliseconds(row: StepTime) -> str:
    assert row.seconds is not None
    return f"{1000 * row.seconds.median:.1f} ms"


def _megabytes(row: PeakMemory) -> str:
    assert row.bytes is not None
    return f"{row.bytes / 2**20:.1f} MB"


def _kernels(rows: list[KernelTime]) -> Table:
    sizes = list(dict.fromkeys(row.elements for row in rows))
    lines = list(dict.fromkeys((row.operation, row.kernels) for row in rows))
    found = {(row.operation, row.kernels, row.elements): row for row in rows}
    return Table(
        "Kernels, nanoseconds per element, one thread",
        ["operation", "kernels", *(f"{size:,} elements" for size in sizes)],
        [[*line, *(_spread(found[*line, size].nanoseconds) for size in sizes)] for line in lines],
    )


def _products(result: BenchResult) -> Table:
    return Table(
        "Products of a linear layer, one thread: torch._int_mm relative to FP32",
        ["rows x inputs x outputs", "product", "FP32", "integer", "ratio"],
        [
            [
                f"{row.rows} x {row.inputs} x {row.outputs}",
                row.product,
                f"{1000 * row.float_seconds.median:.2f} ms",
                f"{1000 * row.integer_seconds.median:.2f} ms",
                _spread(row.ratio),
            ]
            for row in result.products
        ],
    )


def _spread(spread: Spread | None, unit: str = "", digits: int = 2) -> str:
    """Return a median with its quartiles.

    >>> _spread(Spread(0.5, 0.4, 0.6), " ms")
    '0.50 ms (0.40-0.60)'
    """
    if spread is None:
        return "-"
    return f"{spread.median:.{digits}f}{unit} ({spread.lower:.{digits}f}-{spread.upper:.{digits}f})"
