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
from dataclasses import fields
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.lab.runs.fields import Parser, each_of, integer, number, string
from bitcycle.lab.runs.run_config import COMPARED, DEFAULTS, FIELDS
from bitcycle.lab.studies import deficits
from bitcycle.lab.studies.controls import has_controls, solve_controls
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import MAX_SEEDS, Plan, StudyPart
from bitcycle.schedules.base import MAX_BITS, MAX_CYCLES

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
    except (ValueError, RecursionError) as error:  # a ValueError also for an integer of too many digits
        reason = "values are nested too deep" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path}: is not TOML that can be read: {reason}") from None
    try:
        return plan_of(values, path.stem, overrides or {})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def plan_of(values: Mapping[str, Any], name: str = "", overrides: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan that these values describe, with the defaults of the tasks, checked.

    Args:
        values: The content of a plan file. A task can also be a class, as user_tasks.load_class returns it.
        name: The name of the plan if the values have none; default: that of its first task.
        overrides: Values that replace those of every table they apply to.

    Raises:
        ValueError: A value is wrong; the message says what would be right.
    """
    common = {key: value for key, value in values.items() if key not in ("name", "part", "deficit")}
    tables, forced = {"part": values.get("part", []), "deficit": values.get("deficit", [])}, overrides or {}
    for kind, some in tables.items():
        if not isinstance(some, list) or not all(isinstance(table, dict) for table in some):
            raise ValueError(f"{kind}s must be written as [[{kind}]] tables")
    if not tables["part"] and not tables["deficit"]:  # a plan without tables is one part
        tables["part"] = [{}]
    of_deficits = {key: value for key, value in forced.items() if key in DEFICIT_KEYS}
    if not tables["part"] and of_deficits != forced:
        raise ValueError(
            f"deficits have no {', '.join(forced.keys() - of_deficits.keys())}, and the plan has no [[part]]"
        )
    made: tuple[StudyPart | DeficitPart, ...] = (
        *(_study_part(_resolved({**common, **table, **forced}, KEYS)) for table in tables["part"]),
        *(deficit_part(_resolved({**common, **table, **of_deficits}, DEFICIT_KEYS)) for table in tables["deficit"]),
    )
    plan = Plan(string(values.get("name", name), "name") or (made[0].task if made else ""), made)
    plan.check()
    return plan


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
    given = _own_values({"schedules": "all", "seeds": 3, **values})
    part = StudyPart(task=values["task"], **given, fields=_fields(values, DEFAULTS))
    return solve_controls(part) if has_controls(part.schedules) else part


def deficit_part(values: Mapping[str, Any]) -> DeficitPart:
    """Return the experiments of a table that has bits and steps."""
    given = {name: value for name, value in _own_values(values).items() if name in DEFICIT_KEYS}
    of_runs = _fields(values, {**DEFAULTS, **deficits.DEFAULTS})
    given["bits"] = _single(given["bits"], "bits")
    return DeficitPart(
        task=values["task"], **given, fields={name: _single(value, name) for name, value in of_runs.items()}
    )


def _own_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table that are not fields of its runs."""
    return {name: parse(values[name], name) for name, parse in _PARSERS.items() if name in values}


def _fields(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the runs that are not the default; tuples of those that can have several values."""
    found: dict[str, Any] = {}
    for name in _RUN_KEYS:
        if name in values:
            parse = each_of(FIELDS[name].parse) if name in COMPARED else FIELDS[name].parse
            value = parse(values[name], name)
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


def seeds_of(value: Any, name: str = "seeds") -> tuple[int, ...]:
    """Return the seeds that a number of seeds or a list of seeds stands for.

    >>> seeds_of(3), seeds_of([7, 8])
    ((0, 1, 2), (7, 8))
    """
    several: tuple[int, ...] = each_of(FIELDS["seed"].parse, "a seed")(value, name) if isinstance(value, list) else ()
    return several or tuple(range(integer(1, MAX_SEEDS)(value, name)))


def _bit_pairs(value: Any, name: str) -> tuple[tuple[int, int], ...]:
    pairs = value if value and isinstance(value, (list, tuple)) and isinstance(value[0], (list, tuple)) else [value]
    checked = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"bits must be a pair such as [3, 8] or a list of pairs, got {short_repr(value)}")
        low, high = (integer(1, MAX_BITS)(each, name) for each in pair)
        if low > high:
            raise ValueError(f"bits must be q_min and q_max in this order, got {low} and {high}")
        checked.append((low, high))
    return tuple(checked)


_PARSERS: dict[str, Parser] = {
    "schedules": each_of(string, "a schedule"),
    "bits": _bit_pairs,
    "cycles": each_of(integer(1, MAX_CYCLES)),
    "seeds": seeds_of,
    "steps": FIELDS["steps"].parse,
    "lengths": each_of(number),
    "window": number,
    "starts": each_of(number),
    "recovery": string,
    "arms": each_of(string, "an arm"),
}
"""How the keys are read that are not fields of the runs."""
_RUN_KEYS = tuple(name for name in FIELDS if name not in ("task", "schedule", "steps", "seed"))
"""The fields of a run that a table has under their own names, beside its task and its steps."""
KEYS = (*(field.name for field in fields(StudyPart) if field.name != "fields"), *_RUN_KEYS)
"""The keys of a part."""
DEFICIT_KEYS = (
    *(field.name for field in fields(DeficitPart) if field.name != "fields"),
    *(key for key in _RUN_KEYS if key not in deficits.FIXED),
)
"""The keys of a deficit."""
