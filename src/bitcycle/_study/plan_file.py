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

    [[deficit]]                              # experiments on critical learning periods, see bitcycle._study.deficits
    task = "image"
    lengths = [0, 0.5, 1.0]                  # initial deficits, in normal runs
    window = 0.5                             # the length of a sliding window
    starts = [0, 0.25, 0.5]                  # where the window begins
    recovery = "rest"                        # after the window: the "rest" of the normal run, or a "whole" one

A schedule may also be a control at equal cost, such as "match(CT, mixed)", see bitcycle._study.controls.

Further keys: model, data, batch_size, backward_bits (a width, "full", or a spec), weights, activations and strength
(one spec or several, in place of the schedule; "" is the schedule itself), grid (one or several of "integer",
"symmetric", "float", "mx" and "nvfp4"), autocast, test_weights ("best" on validation, or "last"), evaluate_at (the
"max" width of a schedule, or the "current" one). Keys above the parts apply to all parts. An unknown key is an error. A
task can be one of the user's own, as in ``task = "my_task.py:MyTask"``. The keys source and fingerprint state what the
task and the data have to be; a stored plan has them.

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

from bitcycle._study.controls import has_controls, with_solved_controls
from bitcycle._study.deficits import DeficitPart
from bitcycle._study.plan import MAX_SEEDS, MOVES, Plan, StudyPart
from bitcycle._support.names import nearest
from bitcycle._support.text import shown
from bitcycle.experiments.run_config import upgraded
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules import strength as as_strength
from bitcycle.schedules.base import MOST_BITS, MOST_CYCLES, MOST_STEPS

KEYS = tuple(field.name for field in fields(StudyPart))
DEFICIT_KEYS = tuple(field.name for field in fields(DeficitPart))

MOST_BYTES = 1_000_000
"""The largest plan: twenty thousand seeds take 120 kB."""
MOST_KEY_PARTS = 16
"""The most parts of a dotted key; a plan needs two."""
MOST_SEED = 2**63 - 1

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY}){{{MOST_KEY_PARTS}}}", re.MULTILINE)


def read_plan(path: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read a plan from a file.

    Args:
        path: The TOML file. If it has no ``name``, the plan is named after it.
        overrides: Values that replace those of the file in every table they apply to.

    Raises:
        ValueError: The file is not TOML, or not a plan.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        values = _toml_values(content)
        return plan_of(_overridden(values, overrides or {}), path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _toml_values(content: bytes) -> dict[str, Any]:
    """Return the values of a TOML text, or raise a ValueError if it is none or exceeds the limits of a plan."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"a plan may have {MOST_BYTES:,} bytes at most")
    try:
        text = content.decode()
        if _LONG_KEY.search(text):
            raise ValueError(f"a key may have {MOST_KEY_PARTS} parts at most")
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("is not TOML that can be read: values are nested too deep") from None
    except ValueError as error:  # also an integer of too many digits
        raise ValueError(f"is not TOML that can be read: {error}") from None


def _overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    parts, deficits = _tables(values)
    for_deficits = {key: value for key, value in overrides.items() if key in DEFICIT_KEYS}
    if not parts and for_deficits != overrides:
        others = ", ".join(overrides.keys() - for_deficits.keys())
        raise ValueError(f"deficits have no {others}, and the plan has no [[part]]")
    return {
        **values,
        "part": [{**part, **overrides} for part in parts],
        "deficit": [{**deficit, **for_deficits} for deficit in deficits],
    }


def plan_of(values: Mapping[str, Any], name: str) -> Plan:
    """Return the plan that these values describe, with the defaults of the tasks.

    Args:
        values: The content of a plan file. A task can also be a class, as own_tasks.load_class returns it.
        name: The name of the plan if the values have none.
    """
    common = {key: value for key, value in values.items() if key not in ("name", "part", "deficit")}
    parts, deficits = _tables(values)
    return Plan(
        _string(values.get("name", name), "name"),
        (
            *(_with_controls(_study_part(_resolved({**common, **part}, KEYS))) for part in parts),
            *(deficit_part(_resolved({**common, **deficit}, DEFICIT_KEYS)) for deficit in deficits),
        ),
    )


def stored_parts(plan_text: str) -> list[StudyPart | DeficitPart]:
    """Return the parts of a plan that :meth:`Plan.as_toml` wrote.

    Such a plan has every default resolved, so neither the code of the tasks nor torch is needed.

    >>> [part] = stored_parts(
    ...     '[[part]]\\ntask = "gone"\\nschedules = ["CR"]\\nbits = [[3, 8]]\\ncycles = [8]\\nseeds = [0]\\nsteps = 9'
    ... )
    >>> [(run.task, run.schedule) for run in part.runs()]
    [('gone', 'CR:3-8:cycles=8')]

    Raises:
        ValueError: The text is not such a plan.
    """
    values = _toml_values(plan_text.encode())
    parts, deficits = values.get("part", []), values.get("deficit", [])
    try:
        return [*map(_study_part, parts), *map(deficit_part, deficits)]
    except KeyError as error:
        raise ValueError(f"the stored plan has no {error.args[0]}") from None


def _tables(values: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tables of parts and of deficits; a plan without any is one part."""
    for name in ("part", "deficit"):
        tables = values.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ValueError(f"{name}s must be written as [[{name}]] tables")
    deficits = values.get("deficit", [])
    return values.get("part", [] if deficits else [{}]), deficits


def _resolved(values: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of a part with the defaults of its task, and what its task and its data are."""
    from bitcycle.experiments.tasks import task_named  # loads torch, which reading a stored plan does not need
    from bitcycle.experiments.tasks.own_tasks import run_identity

    _check_keys(values, known)
    given = values["task"]
    task = given() if isinstance(given, type) else task_named(_string(given, "task"))
    identity = run_identity(task, _string(values.get("data", ""), "data"))
    for key, what in (("source", f"the source of the task {task.name}"), ("fingerprint", "the data")):
        if key in values and values[key] != identity[key]:
            raise ValueError(
                f"{what} is not what the plan was made for: {key} is {identity[key]!r} instead of {shown(values[key])}"
            )
    return {"bits": list(task.bits), "cycles": task.cycles, "steps": task.steps, **values, **identity}


def _with_controls(part: StudyPart) -> StudyPart:
    """Return the part with its controls at equal cost solved for the task's model, see :mod:`_study.controls`."""
    if not has_controls(part.schedules):
        return part
    moves = [getattr(part, name) for name in MOVES]
    if any(len(values) != 1 for values in (part.bits, part.cycles, *moves, *part.options.values())):
        raise ValueError(
            "controls such as match(CT) are solved for one pair of bits, one number of cycles and one value of each "
            "option, of weights, activations and strength: write a part for each combination"
        )
    from bitcycle._study.estimate import training_cost  # loads torch, which reading a stored plan does not need

    run = next(iter(replace(part, schedules=("full",)).runs()))
    q_max = part.bits[0][1]
    at_max, at_q_max = (
        replace(run, schedule=f"static:{q_max}", backward_bits=bits).schedules.histogram(run.steps)
        for bits in ("max", q_max)
    )
    if part.backward_bits == "max" and at_max != at_q_max:  # static settings have q_max, and schedules "max"
        raise ValueError(
            f"controls such as match(CT) need the gradients of their schedule, which are not at q_max = {q_max} bits "
            "with these weights, activations or strength: set backward_bits"
        )
    schedules = with_solved_controls(
        part.schedules, part.bits[0], part.cycles[0], part.steps, part.backward_bits, training_cost(run)
    )
    return replace(part, schedules=tuple(schedules))


def _study_part(values: Mapping[str, Any]) -> StudyPart:
    return StudyPart(
        task=values["task"],
        schedules=tuple(_string(each, "a schedule") for each in _list(values.get("schedules", "all"))),
        bits=_bit_pairs(values["bits"]),
        cycles=tuple(_integer(each, "cycles", 1, MOST_CYCLES) for each in _list(values["cycles"])),
        seeds=seeds_of(values.get("seeds", 3)),
        steps=_integer(values["steps"], "steps", 1),
        backward_bits=_backward_bits(values.get("backward_bits", "max")),
        model=_string(values.get("model", ""), "model"),
        data=values.get("data", ""),
        batch_size=_integer(values.get("batch_size", 0), "batch_size", 0),
        autocast=_flag(values.get("autocast", False), "autocast"),
        test_weights=_string(values.get("test_weights", "best"), "test_weights"),
        options={name: tuple(_option(name, each) for each in _list(value)) for name, value in _options(values).items()},
        source=_string(values.get("source", ""), "source"),
        fingerprint=_string(values.get("fingerprint", ""), "fingerprint"),
        **{name: tuple(_spec(each, name) for each in _list(values[name])) for name in MOVES if name in values},
        grid=tuple(_string(each, "a grid") for each in _list(values.get("grid", "integer"))),
        evaluate_at=_string(values.get("evaluate_at", "max"), "evaluate_at"),
    )


def _spec(value: Any, what: str) -> str:
    """Return the canonical spec of a schedule or a strength; a width is a static schedule."""
    if value == "":
        return ""
    if what == "strength":
        return str(as_strength(value))
    return str(as_schedule(f"static:{value}" if isinstance(value, int) else _string(value, what)))


def deficit_part(values: Mapping[str, Any]) -> DeficitPart:
    """Return the experiments of a table that has bits and steps. Neither the code of the task nor torch is needed."""
    pairs = _bit_pairs(values["bits"])
    if len(pairs) > 1:
        raise ValueError(f"a deficit must have one pair of bits, got {len(pairs)}: write one [[deficit]] for each")
    given: dict[str, Any] = {
        key: tuple(_multiple(each, key) for each in _list(values[key]))
        for key in ("lengths", "starts")
        if key in values
    }
    if "window" in values:
        given["window"] = _multiple(values["window"], "window")
    if "recovery" in values:
        given["recovery"] = _string(values["recovery"], "recovery")
    if "arms" in values:
        given["arms"] = tuple(_string(each, "an arm") for each in _list(values["arms"]))
    return DeficitPart(
        task=values["task"],
        bits=pairs[0],
        steps=_integer(values["steps"], "steps", 1),
        seeds=seeds_of(values.get("seeds", 5)),
        diagnostics=_flag(values.get("diagnostics", True), "diagnostics"),
        model=_string(values.get("model", ""), "model"),
        data=values.get("data", ""),
        batch_size=_integer(values.get("batch_size", 0), "batch_size", 0),
        options={name: _option(name, value) for name, value in _options(values).items()},
        source=_string(values.get("source", ""), "source"),
        fingerprint=_string(values.get("fingerprint", ""), "fingerprint"),
        **given,
    )


def _backward_bits(value: Any) -> int | str | None:
    if value == "max":
        return "max"
    if isinstance(value, str) and value != "full":
        return str(as_schedule(value))
    return None if value == "full" else _integer(value, "backward_bits", 1, MOST_BITS)


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be true or false, got {shown(value)}")
    return value


def _check_keys(values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            [renamed] = upgraded({key: None})
            hint = nearest(key, known) if renamed == key else f"since version 0.2 it is {renamed!r}"
            raise ValueError(f"a plan has no key {shown(key)}; {hint}")
    if "task" not in values:
        raise ValueError("each part of a plan must have a task, as in task = 'image'")


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
    options = values.get("options", {})
    if not isinstance(options, dict):
        raise ValueError(
            f"options must be a table, as in options = {{ aggregation = 'quantized' }}, got {shown(options)}"
        )
    return options


def _option(name: str, value: Any) -> str:
    if not isinstance(value, (str, int, float)) or (isinstance(value, int) and abs(value) > MOST_SEED):
        raise ValueError(f"the option {shown(name)} must be a text or a number, got {shown(value)}")
    return str(value)


def _multiple(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1000:
        raise ValueError(f"{what} must be 0 or more normal runs, got {shown(value)}")
    return float(value)


def seeds_of(value: Any) -> tuple[int, ...]:
    """Return the seeds that a number of seeds or a list of seeds stands for.

    >>> seeds_of(3), seeds_of([7, 8])
    ((0, 1, 2), (7, 8))
    """
    if isinstance(value, list):
        return tuple(_integer(each, "a seed", 0, MOST_SEED) for each in value)
    return tuple(range(_integer(value, "seeds", 1, MAX_SEEDS)))


def _bit_pairs(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = value if value and isinstance(value, (list, tuple)) and isinstance(value[0], (list, tuple)) else [value]
    checked = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"bits must be a pair such as [3, 8] or a list of pairs, got {shown(value)}")
        low, high = (_integer(each, "bits", 1, MOST_BITS) for each in pair)
        if low > high:
            raise ValueError(f"bits must be q_min and q_max in this order, got {low} and {high}")
        checked.append((low, high))
    return tuple(checked)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _integer(value: Any, what: str, least: int, most: int = MOST_STEPS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} must be an integer of {least} or more, got {shown(value)}")
    if value > most:
        raise ValueError(f"{what} must be from {least} to {most}, got {shown(value)}")
    return value


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string, got {shown(value)}")
    return value
