"""Controls at equal cost in plans: ``match(CT, mixed)``, solved for the cost of the task's own model.

| in a plan           | schedules                                                                                     |
|---------------------|-----------------------------------------------------------------------------------------------|
| ``match(CT, mixed)``| the static width between two integers whose training costs as much as that of CT              |
| ``match(CT)``       | all controls of CT: mixed, low-high, high-low and dip, see :mod:`bitcycle.schedules.matching` |

They are solved when a plan is made, so that a stored plan has plain specs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bitcycle._support.text import short_repr
from bitcycle.schedules import Bits, Control, Schedule, match
from bitcycle.schedules import schedule as parse_schedule

_START, _END = "match(", ")"
_CONTROL = re.compile(r"[a-z-]+")


def has_controls(names: Sequence[str]) -> bool:
    """Return whether some of the schedules of a plan are controls.

    >>> has_controls(["ten", "match(CT)"]), has_controls(["ten", "delay(0.1, CT)"])
    (True, False)
    """
    return any(name.startswith(_START) for name in names)


def with_solved_controls(
    names: Sequence[str],
    bits: tuple[int, int],
    cycles: int,
    steps: int,
    backward_bits: Bits | str,
    cost: Callable[[Schedule, Bits | str], float],
) -> list[str]:
    """Return the schedules of a plan with the specs of all controls in place of their names.

    Args:
        names: The schedules as the plan names them.
        bits: q_min and q_max of the plan.
        cycles: The number of cycles of the plan.
        steps: Steps of a run.
        backward_bits: Bits of the gradients; ``"max"`` is q_max of the plan.
        cost: Of a whole training, by its schedule and the bits of its gradients.

    Raises:
        ValueError: If the name of a control cannot be read, or there is no control of the same cost.

    Example:
        >>> from bitcycle._cost import Cost, Row
        >>> counted = Cost((Row("fc", "Linear", "Linear", 10, 0, 10, quantized=True),))
        >>> def cost(schedule, backward_bits):
        ...     return counted.training(schedule, 800, backward_bits)
        >>> with_solved_controls(["CT", "match(CT, mixed)"], (3, 8), 8, 800, "max", cost)
        ['CT', 'static:5.668125']
    """
    backward = bits[1] if backward_bits == "max" else backward_bits
    solved: list[str] = []
    for name in names:
        if not name.startswith(_START):
            solved.append(name)
            continue
        named, wanted = _read(name)
        reference = parse_schedule(named, bits, cycles)
        for control in [wanted] if wanted else Control:
            found = match(reference, control, steps, backward, lambda s: cost(s, backward))
            solved.append(str(found))
    return solved


def _read(name: str) -> tuple[str, str]:
    """Return the reference of a control, and which control it is, or an empty text for all of them.

    The time is linear in the length of the name, whatever it is.
    """
    inner = name.removeprefix(_START).removesuffix(_END).strip()
    before, _, last = (part.strip() for part in inner.rpartition(","))
    reference, control = (before, last) if _CONTROL.fullmatch(last) and "," in inner else (inner, "")
    if not (name.endswith(_END) and reference):
        raise ValueError(f"{short_repr(name)}: a control is written match(CT) or match(CT, mixed)")
    return reference, control
