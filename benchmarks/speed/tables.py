"""The result of a benchmark, and its tables in plain text or in Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from benchmarks.common import cpu_model, markdown_table
from benchmarks.speed.measure import Row, Settings, Spread
from benchmarks.speed.models import MODELS
from benchmarks.speed.variants import FULL_PRECISION, HALF_PRECISION, NOT_INSTALLED, OWN, PEERS, version_of
from bitcycle._support.text import table
from bitcycle.arithmetic.execution import resolve
from bitcycle.kernels import native
from bitcycle.lab.format import count


@dataclass
class Result:
    """All figures. A part that was not asked for is empty. Times are seconds unless a name says otherwise."""

    bitcycle: str
    machine: Row
    """See :func:`this_machine`."""
    settings: Settings
    steps: list[Row] = field(default_factory=list)
    memory: list[Row] = field(default_factory=list)
    kernels: list[Row] = field(default_factory=list)
    overhead: list[Row] = field(default_factory=list)


def this_machine() -> Row:
    """Describe what decides how fast a step is on this machine."""
    return {
        "cpu": cpu_model(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "vnni": torch.cpu._is_vnni_supported(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernels": native.current_kernels(),
        "auto": resolve("auto").value,
        "peers": {peer.package: version_of(peer) for peer in PEERS.values() if peer.package != "torch"},
    }


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


def as_text(result: Result, markdown: bool) -> str:
    """Return all figures as plain text or as Markdown."""
    settings = result.settings
    conditions = (
        f"bitcycle {result.bitcycle}: {settings.forward} bits forward, {settings.backward} bits backward, "
        f"{count(settings.rounds, 'round')}; medians, with quartiles in parentheses."
    )
    quick = ["Small versions of everything (--quick): the figures mean nothing."] if settings.quick else []
    head = "\n".join([conditions, *quick, _machine(result.machine)])
    return "\n\n".join([head, *(each.as_text(markdown) for each in tables(result))])


def tables(result: Result) -> list[Table]:
    """Return the tables of all parts that were measured."""
    made: list[Table] = []
    for threads in dict.fromkeys(row["threads"] for row in result.steps):
        title = f"Training step, time relative to FP32, {count(threads, 'thread')}"
        made += _compared(title, [row for row in result.steps if row["threads"] == threads])
    made += _compared("Training step, peak memory relative to FP32", result.memory)
    if result.kernels:
        made.append(_kernels(result.kernels))
    if result.overhead:
        rows = [[row["what"], _spread(row["seconds"], 1e-3, " ms", 3)] for row in result.overhead]
        made.append(Table("Overhead", ["", "time"], rows))
    return made


def _machine(machine: Row) -> str:
    libraries = {"Python": machine["python"], "torch": machine["torch"], **machine["peers"]}
    installed = [f"{name} {version}" for name, version in libraries.items() if version]
    cpu = f"{machine['cpu']} ({machine['instructions']}, {'' if machine['vnni'] else 'no '}VNNI)"
    parts = [cpu, count(machine["cores"], "core"), *installed, f"{machine['kernels']} kernels"]
    return f"{', '.join(parts)}; 'auto' means {machine['auto']!r}."


def _compared(title: str, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a table of bitcycle's variants, and one of the other libraries, with a row for each model."""
    found = {(row["model"], row["variant"]): row for row in rows}
    for names, heading in (((HALF_PRECISION, *OWN), title), (tuple(PEERS), f"{title}: other libraries")):
        columns = (FULL_PRECISION, *names)
        cells: list[list[str]] = []
        notes: dict[str, None] = {}
        for model in dict.fromkeys(model for model, variant in found if variant in names):
            of_model = [found[model, name] for name in columns]
            cells.append([MODELS[model].title, *map(_cell, of_model)])
            for row in of_model:
                if row["note"] not in ("", NOT_INSTALLED):
                    notes[f"{MODELS[model].title}, {row['variant']}: {row['note']}."] = None
        if cells:
            yield Table(heading, ["model", *columns], cells, tuple(notes))


def _cell(row: Row) -> str:
    """Return the figure of full precision itself, or that of a variant relative to it."""
    if row["note"]:
        return NOT_INSTALLED if row["note"] == NOT_INSTALLED else "-"
    if row["variant"] != FULL_PRECISION:
        ratio = row["ratio"]
        return _spread(ratio) if isinstance(ratio, Spread) else "-" if ratio is None else f"{ratio:.2f}"
    return f"{1000 * row['seconds'].median:.1f} ms" if "seconds" in row else f"{row['bytes'] / 2**20:.1f} MB"


def _kernels(rows: Sequence[Row]) -> Table:
    by_operation: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_operation.setdefault((row["operation"], row["kernels"]), []).append(_spread(row["nanoseconds"]))
    sizes = dict.fromkeys(f"{row['elements']:,} elements" for row in rows)
    cells = [[*operation, *times] for operation, times in by_operation.items()]
    return Table("Kernels, nanoseconds per element, one thread", ["operation", "kernels", *sizes], cells)


def _spread(spread: Spread, unit: float = 1, name: str = "", digits: int = 2) -> str:
    """Return a median with its quartiles, in a unit.

    >>> _spread(Spread(0.0005, 0.0004, 0.0006), 1e-3, " ms")
    '0.50 ms (0.40-0.60)'
    """
    median, lower, upper = (f"{value / unit:.{digits}f}" for value in (spread.median, spread.lower, spread.upper))
    return f"{median}{name} ({lower}-{upper})"
