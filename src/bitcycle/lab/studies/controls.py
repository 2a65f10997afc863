"""Controls at equal cost in plans: ``match(CT, mixed)``, solved for the cost of the task's own model.

| in a plan           | schedules                                                                                     |
|---------------------|-----------------------------------------------------------------------------------------------|
| ``match(CT, mixed)``| the static width between two integers whose training costs as much as that of CT              |
| ``match(CT)``       | all controls of CT, see :mod:`bitcycle.lab.studies.matching`                                  |

They are solved when a plan is made, so that a stored plan has plain specs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from bitcycle._support.text import short_repr
from bitcycle.lab.runs.run_config import OPERAND_OVERRIDES
from bitcycle.lab.schedule_summary import complete
from bitcycle.lab.studies.matching import Control, match
from bitcycle.lab.studies.plan import StudyPart
from bitcycle.schedules import Bits, Schedule

_START, _END = "match(", ")"
_CONTROL = re.compile(r"[a-z-]+")


def has_controls(names: Sequence[str]) -> bool:
    """Return whether some of the schedules of a plan are controls.

    >>> has_controls(["ten", "match(CT)"]), has_controls(["ten", "delay(0.1, CT)"])
    (True, False)
    """
    return any(name.startswith(_START) for name in names)


def solve_controls(part: StudyPart) -> StudyPart:
    """Return a part with its controls solved for the task's model.

    Raises:
        ValueError: If the part has several settings to solve them for, or there is no control of the same cost.
    """
    several = [part.fields.get(name, ("",)) for name in ("backward_bits", *OPERAND_OVERRIDES)]
    if any(len(values) != 1 for values in (part.bits, part.cycles, *several, *part.fields.get("options", {}).values())):
        raise ValueError(
            "controls such as match(CT) are solved for one pair of bits, one number of cycles and one value of each "
            "option, of backward_bits, weights, activations and strength: write a part for each combination"
        )
    from bitcycle.lab.studies.estimate import training_cost  # loads torch

    run = next(iter(replace(part, schedules=("full",)).runs()))
    q_max, (backward,) = part.bits[0][1], part.fields.get("backward_bits", ("max",))
    at_max, at_q_max = (
        replace(run, schedule=f"static:{q_max}", backward_bits=bits).schedules.histogram(run.steps)
        for bits in ("max", q_max)
    )
    if backward == "max" and at_max != at_q_max:  # static settings have q_max, and schedules "max"
        raise ValueError(
            f"controls such as match(CT) need the gradients of their schedule, which are not at q_max = {q_max} bits "
            "with these weights, activations or strength: set backward_bits"
        )
    solved = with_solved_controls(
        part.schedules, part.bits[0], part.cycles[0], part.steps, backward, training_cost(run)
    )
    return replace(part, schedules=tuple(solved))


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
        reference = complete(named, bits, cycles)
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
