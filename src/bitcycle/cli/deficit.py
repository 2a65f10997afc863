"""``bitcycle deficit``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from bitcycle.cli.parameters import Bits, TaskName, option
from bitcycle.cli.run_options import with_run_options
from bitcycle.cli.study import StudyOptions, run_plan
from bitcycle.lab.runs.run_config import KEYWORDS
from bitcycle.lab.studies.deficits import FIXED, DeficitPart, Recovery
from bitcycle.lab.studies.plan import MAX_SEEDS


def _text(numbers: Iterable[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


@with_run_options(fields=KEYWORDS.keys() - FIXED)
def deficit(
    *,
    task: TaskName,
    bits: Bits = None,
    lengths: Annotated[str, option("Lengths of the initial deficit, in units of a normal run.")] = _text(
        DeficitPart.lengths
    ),
    window: Annotated[
        float, option("Length of the sliding window, in units of a normal run; 0 = no sliding window.")
    ] = DeficitPart.window,
    starts: Annotated[str, option("Where the window begins, in units of a normal run.")] = _text(DeficitPart.starts),
    recovery: Annotated[
        Recovery, option("After the window: the rest of the normal run, or a whole one.")
    ] = DeficitPart.recovery,
    seeds: Annotated[int, option("Number of seeds.", max=MAX_SEEDS)] = len(DeficitPart.seeds),
    arms: Annotated[
        str,
        option(
            "held (learning rate held during the deficit), restarted (learning rate restarted after it), "
            "longer (the control without a deficit)."
        ),
    ] = ",".join(DeficitPart.arms),
    fields: dict[str, Any],
    name: Annotated[str, option("Name of the study; default: 'TASK-deficit'.")] = "",
    options: StudyOptions,
) -> None:
    """Probe critical learning periods: low precision early or late in training, with the necessary controls."""
    from bitcycle.lab.studies.plan_file import plan_of

    given = {
        "lengths": _numbers(lengths, "--lengths"),
        "window": window,
        "starts": _numbers(starts, "--starts"),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        **({"bits": bits} if bits else {}),
    }
    plan = plan_of({"deficit": [{"task": task, **given, **fields}]}, name)
    run_plan(plan if name else replace(plan, name=f"{plan.name}-deficit"), options)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be a list of numbers such as 0,0.5,1, got {text!r}") from None
