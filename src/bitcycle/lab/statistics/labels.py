"""What the text of a run means, and short labels of settings that are unique within a comparison group.

| setting                                | label                                                               |
|----------------------------------------|---------------------------------------------------------------------|
| ``static:8``, ``static:5.62``, ``full``| ``static 8``, ``static 5.62``, ``full``                             |
| ``CR:3-8:cycles=8``                    | ``CR``; ``CR 3-8`` and ``CR n=8`` where bits and cycles differ      |
| ``RR:3-8:cycles=8:constant=0.5``       | ``RR constant=0.5``                                                 |
| any other schedule                     | its spec                                                            |
| weights, activations or strength apart | ``static 4 A static:8 strength linear-rise``                        |
| other gradient bits or learning rates  | ``CR gradients 6``, ``CR restart@100``, where settings differ in it |
| another grid                           | ``CR mx``, where settings differ in it                              |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bitcycle.lab.runs.run_config import Condition
from bitcycle.schedules import Constant, Cyclic, Mixed, Schedule, schedule
from bitcycle.schedules.base import Bits
from bitcycle.schedules.operands import OperandSchedules


def schedule_of(condition: Condition) -> Schedule | None:
    """Return the schedule of a condition, or None for a user's function that is not known in this process."""
    try:
        return schedule(condition.schedule)
    except ValueError:
        if "call:" in condition.schedule:
            return None
        raise


def schedules_of(condition: Condition) -> OperandSchedules | None:
    """Return the schedules of all operands, or None if a user's function in them is not known in this process."""
    try:
        return condition.schedules
    except ValueError:
        if any("call:" in str(spec) for spec in (*condition.operands.values(), condition.backward_bits)):
            return None
        raise


def gradient_bits(condition: Condition) -> Bits | str:
    """Return the bits of a run's gradients: given, or the largest of its schedule; ``max`` if that is not known.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150).condition)
    8
    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150, backward_bits=6).condition)
    6
    """
    schedules = schedules_of(condition)
    return (
        condition.backward_bits
        if condition.backward_bits != "max" or schedules is None
        else schedules.largest(condition.steps)
    )


def labels(settings: Sequence[Condition]) -> list[str]:
    """Return one label for each setting of a comparison group.

    >>> specs = ["static:8", "CR:3-8:cycles=8", "CR:3-8:cycles=2", "LR:3-8:cycles=8", "delay(0.5, LR:3-8:cycles=4)"]
    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> labels([RunConfig("graph", spec, 150).condition for spec in specs])
    ['static 8', 'CR n=8', 'CR n=2', 'LR', 'delay(0.5, LR:3-8:cycles=4)']
    """
    schedules = [schedule_of(condition) for condition in settings]
    cyclic = [s for s in schedules if isinstance(s, Cyclic)]
    shows_bits, shows_cycles = _distinguishes(cyclic, _bits), _distinguishes(cyclic, _cycles)
    several_rates = len({condition.learning_rate for condition in settings}) > 1
    several_grids = len({condition.grid for condition in settings}) > 1
    short = []
    for condition, s in zip(settings, schedules, strict=True):
        parts = [_name(condition, s)]
        if isinstance(s, Cyclic):
            parts += [_bits(s)] if shows_bits(s) else []
            parts += [_cycles(s)] if shows_cycles(s) else []
            parts += [f"{key}={value:g}" for key, value in s.profile.changed().items()]
        parts += [f"{name} {spec}" for name, spec in _overrides(condition) if spec]
        parts += [condition.learning_rate] if several_rates else []
        parts += [condition.grid] if several_grids and s != Constant(None) else []  # full precision has no grid
        short.append(" ".join(part for part in parts if part))
    return _made_unique(_with_gradients(short, settings), settings)


def _overrides(condition: Condition) -> list[tuple[str, str]]:
    return [("W", condition.weights), ("A", condition.activations), ("strength", condition.strength)]


def _name(condition: Condition, s: Schedule | None) -> str:
    if isinstance(s, (Constant, Mixed)):
        return "full" if s.bits is None else f"static {s.bits}"
    if isinstance(s, Cyclic):
        return _family(s)
    return condition.schedule if s is None else str(s)


def _family(s: Cyclic) -> str:
    return str(s).partition(":")[0]


def _bits(s: Cyclic) -> str:
    return f"{s.q_min}-{s.q_max}"


def _cycles(s: Cyclic) -> str:
    return "" if s.shape.startswith("fall") else f"n={s.cycles}"


def _distinguishes(schedules: Sequence[Cyclic], detail: Callable[[Cyclic], str]) -> Callable[[Cyclic], bool]:
    """Return whether to show a detail: where schedules of one name differ in it, or where it is unusual."""
    by_name: dict[str, set[str]] = {}
    for s in schedules:
        by_name.setdefault(_family(s), set()).add(detail(s))
    counts = Counter(text for s in schedules if (text := detail(s)))
    most = max(counts.values(), default=0)
    usual = [text for text, count in counts.items() if count == most]

    def shown(s: Cyclic) -> bool:
        return len(by_name[_family(s)]) > 1 or usual != [detail(s)]

    return shown


def _with_gradients(short: list[str], settings: Sequence[Condition]) -> list[str]:
    """Add the bits of gradients where settings differ in nothing else, and where a run sets unusual ones."""
    widths = [gradient_bits(condition) for condition in settings]
    usual = Counter(widths).most_common(1)[0][0]
    widths_of: dict[str, set[Bits | str]] = {}
    for label, width in zip(short, widths, strict=True):
        widths_of.setdefault(label, set()).add(width)
    return [
        f"{label} gradients {'full' if width is None else width}"
        if len(widths_of[label]) > 1 or (condition.backward_bits != "max" and width != usual)
        else label
        for label, condition, width in zip(short, settings, widths, strict=True)
    ]


def _made_unique(short: list[str], settings: Sequence[Condition]) -> list[str]:
    """Add the run's name to labels that still coincide, such as those of one schedule spelt in two ways."""
    counts = Counter(short)
    return [
        label if counts[label] == 1 else f"{label} ({condition.name})"
        for label, condition in zip(short, settings, strict=True)
    ]
