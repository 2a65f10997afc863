"""Short labels of settings, unique within a question.

| setting                                | label                                                                     |
|----------------------------------------|---------------------------------------------------------------------------|
| ``static:8``, ``full``                 | ``static 8``, ``full``                                                    |
| ``CR:3-8:cycles=8``                    | ``CR``; ``CR 3-8`` and ``CR n=8`` where bits and cycles need to be told   |
| ``RR:3-8:cycles=8:constant=0.5``       | ``RR constant=0.5``                                                       |
| any other schedule                     | its spec                                                                  |
| gradients on other bits, another rate  | ``CR gradients 6``, ``CR restart@100``, where settings differ in it       |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bitcycle._study.statistics.reading import gradient_bits, schedule_of
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Constant, Cyclic, Schedule


def labels(settings: Sequence[RunConfig]) -> list[str]:
    """One label for each setting of a question.

    >>> specs = ["static:8", "CR:3-8:cycles=8", "CR:3-8:cycles=2", "LR:3-8:cycles=8", "delay(0.5, LR:3-8:cycles=4)"]
    >>> labels([RunConfig("graph", spec, 150) for spec in specs])
    ['static 8', 'CR n=8', 'CR n=2', 'LR', 'delay(0.5, LR:3-8:cycles=4)']
    """
    schedules = [schedule_of(run) for run in settings]
    cyclic = [s for s in schedules if isinstance(s, Cyclic)]
    tell_bits, tell_cycles = _needs_telling(cyclic, _bits), _needs_telling(cyclic, _cycles)
    short = []
    for run, found in zip(settings, schedules, strict=True):
        parts = [_name(run, found)]
        if isinstance(found, Cyclic):
            parts += [_bits(found)] if tell_bits(found) else []
            parts += [_cycles(found)] if tell_cycles(found) else []
            parts += [f"{key}={value:g}" for key, value in found.profile.changed().items()]
        parts += [run.learning_rate] if len({other.learning_rate for other in settings}) > 1 else []
        short.append(" ".join(part for part in parts if part))
    return _made_unique(_with_gradients(short, settings), settings)


def _name(run: RunConfig, found: Schedule | None) -> str:
    if isinstance(found, Constant):
        return "full" if found.bits is None else f"static {found.bits}"
    if isinstance(found, Cyclic):
        return str(found).partition(":")[0]
    return run.schedule if found is None else str(found)


def _bits(found: Cyclic) -> str:
    return f"{found.q_min}-{found.q_max}"


def _cycles(found: Cyclic) -> str:
    return "" if found.shape.startswith("fall") else f"n={found.cycles}"


def _needs_telling(schedules: Sequence[Cyclic], detail: Callable[[Cyclic], str]) -> Callable[[Cyclic], bool]:
    """Whether to tell a detail: where schedules of one name differ in it, or where it is not what most have."""
    by_name: dict[str, set[str]] = {}
    for found in schedules:
        by_name.setdefault(str(found).partition(":")[0], set()).add(detail(found))
    counts = Counter(text for found in schedules if (text := detail(found)))
    most = [text for text, count in counts.items() if count == max(counts.values())]

    def tell(found: Cyclic) -> bool:
        return len(by_name[str(found).partition(":")[0]]) > 1 or most != [detail(found)]

    return tell


def _with_gradients(short: list[str], settings: Sequence[RunConfig]) -> list[str]:
    """The bits of gradients are told where nothing else tells settings apart, and where a run sets unusual ones."""
    widths = [gradient_bits(run) for run in settings]
    usual = Counter(widths).most_common(1)[0][0]
    told = []
    for label, run, width in zip(short, settings, widths, strict=True):
        others = {other for same, other in zip(short, widths, strict=True) if same == label}
        if len(others) > 1 or (run.backward_bits != "max" and width != usual):
            label += f" gradients {'full' if width is None else width}"
        told.append(label)
    return told


def _made_unique(short: list[str], settings: Sequence[RunConfig]) -> list[str]:
    """Labels that still coincide, such as those of one schedule spelt in two ways, get the run's name added."""
    counts = Counter(short)
    return [
        label if counts[label] == 1 else f"{label} ({run.name})" for label, run in zip(short, settings, strict=True)
    ]
