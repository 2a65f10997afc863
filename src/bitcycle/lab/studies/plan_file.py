"""Plans as TOML files.

    name = "two-domains"
    seeds = 5                                # a number of seeds, or a list of seeds

    [[part]]
    task = "image"
    schedules = ["ten", "static q_max"]      # names or specs; "ten", "baselines", "all" (the default) are groups
    bits = [[2, 8], [3, 8]]                  # one pair or several; default: those of the task
    cycles = [2, 8]                          # default: those of the task
    steps = 400                              # default: those of the task

    [[part]]
    task = "graph"
    options = { aggregation = ["full", "quantized"] }

    [[deficit]]                              # critical learning periods, see bitcycle.lab.studies.deficits
    task = "image"
    lengths = [0, 0.5, 1.0]                  # initial deficits, in normal runs
    window = 0.5                             # the length of a sliding window
    starts = [0, 0.25, 0.5]                  # where the window begins
    recovery = "rest"                        # after the window: the "rest" of the normal run, or a "whole" one

A schedule may also be a control at equal cost, such as "match(CT, mixed)", see bitcycle.lab.studies.controls.

Further keys are the fields of a run, see bitcycle.lab.runs.run_config: model, data, grid, ... A part can have a list of
values of each field that is compared, such as grid, weights or backward_bits, and then has runs with each of them. Keys
above the parts apply to all parts. An unknown key is an error. A task can be one of the user's own, as in
``task = "my_task.py:MyTask"``. The keys source and fingerprint state what the task and the data have to be; a stored
plan has them.

A plan has at most a million bytes, and keys of at most 16 parts. Python's reader of TOML needs time and memory that
grow with the square of the length of a dotted key: a key of 100 kB takes 10 GB.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.lab.runs.fields import Parser, as_list, integer, string
from bitcycle.lab.runs.run_config import COMPARED, DEFAULTS, FIELDS, OPERAND_OVERRIDES
from bitcycle.lab.studies import deficits
from bitcycle.lab.studies.controls import has_controls, with_solved_controls
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import MAX_SEEDS, Plan, StudyPart
from bitcycle.schedules.base import MAX_BITS, MAX_CYCLES

_RUN_KEYS = tuple(name for name in FIELDS if name not in ("task", "schedule", "steps", "seed"))
"""The fields of a run that a table has under their own names, beside its task and its steps."""
KEYS = (*(field.name for field in fields(StudyPart) if field.name != "fields"), *_RUN_KEYS)
"""The keys of a part."""
DEFICIT_KEYS = (
    *(field.name for field in fields(DeficitPart) if field.name != "fields"),
    *(key for key in _RUN_KEYS if key not in deficits.FIXED),
)
"""The keys of a deficit."""

MAX_BYTES = 1_000_000
"""The largest plan: twenty thousand seeds take 120 kB."""
MAX_KEY_PARTS = 16
"""The most parts of a dotted key; a plan needs two."""

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY}){{{MAX_KEY_PARTS}}}", re.MULTILINE)


def read_plan(path: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read a plan from a file, and check it.

    Args:
        path: The TOML file. If it has no ``name``, the plan is named after it.
        overrides: Values that replace those of the file in every table they apply to.

    Raises:
        ValueError: The file is not TOML, or not a plan that can run.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path}: a plan may have {MAX_BYTES:,} bytes at most")
    try:
        text = content.decode()
        if _LONG_KEY.search(text):
            raise ValueError(f"a key may have {MAX_KEY_PARTS} parts at most")
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path}: is not TOML that can be read: values are nested too deep") from None
    except ValueError as error:  # also an integer of too many digits
        raise ValueError(f"{path}: is not TOML that can be read: {error}") from None
    try:
        return plan_of(_overridden(values, overrides or {}), path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    parts, tables = _tables(values)
    for_deficits = {key: value for key, value in overrides.items() if key in DEFICIT_KEYS}
    if not parts and for_deficits != overrides:
        others = ", ".join(overrides.keys() - for_deficits.keys())
        raise ValueError(f"deficits have no {others}, and the plan has no [[part]]")
    return {
        **values,
        "part": [{**part, **overrides} for part in parts],
        "deficit": [{**table, **for_deficits} for table in tables],
    }


def plan_of(values: Mapping[str, Any], name: str = "") -> Plan:
    """Return the plan that these values describe, with the defaults of the tasks, checked.

    Args:
        values: The content of a plan file. A task can also be a class, as user_tasks.load_class returns it.
        name: The name of the plan if the values have none; default: that of its first task.

    Raises:
        ValueError: A value is wrong; the message says what would be right.
    """
    common = {key: value for key, value in values.items() if key not in ("name", "part", "deficit")}
    parts, tables = _tables(values)
    made: tuple[StudyPart | DeficitPart, ...] = (
        *(_with_controls(_study_part(_resolved({**common, **part}, KEYS))) for part in parts),
        *(deficit_part(_resolved({**common, **table}, DEFICIT_KEYS)) for table in tables),
    )
    plan = Plan(string(values.get("name", name), "name") or (made[0].task if made else ""), made)
    plan.check()
    return plan


def _tables(values: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tables of parts and of deficits; a plan without any is one part."""
    for name in ("part", "deficit"):
        tables = values.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ValueError(f"{name}s must be written as [[{name}]] tables")
    of_deficits = values.get("deficit", [])
    return values.get("part", [] if of_deficits else [{}]), of_deficits


def _resolved(values: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of a part with the defaults of its task, and what its task and its data are."""
    from bitcycle.lab.tasks import task_named  # loads torch
    from bitcycle.lab.tasks.user_tasks import run_identity

    for key in values:
        if key not in known:
            raise ValueError(f"a plan has no key {short_repr(key)}; {nearest(key, known)}")
    if "task" not in values:
        raise ValueError("each part of a plan must have a task, as in task = 'image'")
    given = values["task"]
    task = given() if isinstance(given, type) else task_named(string(given, "task"))
    identity = run_identity(task, string(values.get("data", ""), "data"))
    for key, what in (("source", f"the source of the task {task.name}"), ("fingerprint", "the data")):
        if key in values and values[key] != identity[key]:
            raise ValueError(
                f"{what} is not what the plan was made for: {key} is {identity[key]!r} "
                f"instead of {short_repr(values[key])}"
            )
    return {"bits": list(task.bits), "cycles": task.cycles, "steps": task.steps, **values, **identity}


def _study_part(values: Mapping[str, Any]) -> StudyPart:
    """Return the part of a table that has bits, cycles and steps."""
    return StudyPart(
        task=values["task"],
        schedules=tuple(string(each, "a schedule") for each in as_list(values.get("schedules", "all"))),
        bits=_bit_pairs(values["bits"]),
        cycles=tuple(integer(1, MAX_CYCLES)(each, "cycles") for each in as_list(values["cycles"])),
        seeds=seeds_of(values.get("seeds", 3)),
        steps=FIELDS["steps"].parse(values["steps"], "steps"),
        fields=_fields(values, KEYS, DEFAULTS),
    )


def deficit_part(values: Mapping[str, Any]) -> DeficitPart:
    """Return the experiments of a table that has bits and steps."""
    pairs = _bit_pairs(values["bits"])
    if len(pairs) > 1:
        raise ValueError(f"a deficit must have one pair of bits, got {len(pairs)}: write one [[deficit]] for each")
    given = {key: parse(values[key], key) for key, parse in _EXPERIMENT.items() if key in values}
    several = _fields(values, DEFICIT_KEYS, {**DEFAULTS, **deficits.DEFAULTS})
    return DeficitPart(
        task=values["task"],
        bits=pairs[0],
        steps=FIELDS["steps"].parse(values["steps"], "steps"),
        seeds=seeds_of(values.get("seeds", 5)),
        fields={name: _single(value, name) for name, value in several.items()},
        **given,
    )


def _fields(values: Mapping[str, Any], keys: tuple[str, ...], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the runs that are not the default; tuples of those that can have several values."""
    found: dict[str, Any] = {}
    for name in _RUN_KEYS:
        if name in keys and name in values:
            parse, given = FIELDS[name].parse, values[name]
            value = tuple(parse(each, name) for each in as_list(given)) if name in COMPARED else parse(given, name)
            if value not in (defaults[name], (defaults[name],), {}):
                found[name] = value
    return found


def _single(value: Any, name: str) -> Any:
    """Return the only value of a field of the runs of a deficit."""
    if isinstance(value, dict):
        return {key: _single(each, f"the option {short_repr(key)}") for key, each in value.items()}
    if not isinstance(value, tuple):
        return value
    if len(value) != 1:
        raise ValueError(f"{name} must have one value in a deficit, got {len(value)}: write one [[deficit]] for each")
    return value[0]


def _with_controls(part: StudyPart) -> StudyPart:
    """Return the part with its controls at equal cost solved for the task's model."""
    if not has_controls(part.schedules):
        return part
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
    schedules = with_solved_controls(
        part.schedules, part.bits[0], part.cycles[0], part.steps, backward, training_cost(run)
    )
    return replace(part, schedules=tuple(schedules))


def seeds_of(value: Any) -> tuple[int, ...]:
    """Return the seeds that a number of seeds or a list of seeds stands for.

    >>> seeds_of(3), seeds_of([7, 8])
    ((0, 1, 2), (7, 8))
    """
    if isinstance(value, list):
        return tuple(FIELDS["seed"].parse(each, "a seed") for each in value)
    return tuple(range(integer(1, MAX_SEEDS)(value, "seeds")))


def _bit_pairs(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = value if value and isinstance(value, (list, tuple)) and isinstance(value[0], (list, tuple)) else [value]
    checked = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"bits must be a pair such as [3, 8] or a list of pairs, got {short_repr(value)}")
        low, high = (integer(1, MAX_BITS)(each, "bits") for each in pair)
        if low > high:
            raise ValueError(f"bits must be q_min and q_max in this order, got {low} and {high}")
        checked.append((low, high))
    return tuple(checked)


def _multiple(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1000:
        raise ValueError(f"{what} must be 0 or more normal runs, got {short_repr(value)}")
    return float(value)


def _multiples(value: Any, what: str) -> tuple[float, ...]:
    return tuple(_multiple(each, what) for each in as_list(value))


def _arms(value: Any, what: str) -> tuple[str, ...]:
    return tuple(string(each, "an arm") for each in as_list(value))


_EXPERIMENT: dict[str, Parser] = {
    "lengths": _multiples,
    "window": _multiple,
    "starts": _multiples,
    "recovery": string,
    "arms": _arms,
}
"""How the keys of a deficit are read that are not fields of its runs."""
