"""Plans as TOML files.

    name = "two-domains"
    seeds = 5                                # as many, or a list

    [[part]]
    task = "image"
    schedules = ["ten", "static q_max"]      # names, specs; "ten", "baselines", "all" (the default) stand for several
    bits = [[2, 8], [3, 8]]                  # one pair or several; the task's own if left out
    cycles = [2, 8]                          # likewise
    steps = 400                              # likewise

    [[part]]
    task = "graph"
    options = { aggregation = ["full", "quantized"] }

    [[deficit]]                              # experiments on critical learning periods, see bitcycle._study.deficits
    task = "image"
    lengths = [0, 0.5, 1.0]                  # initial deficits, in normal trainings
    window = 0.5                             # a sliding window of this length,
    starts = [0, 0.25, 0.5]                  # beginning here
    recovery = "rest"                        # of the normal training after the window, or a "whole" one

Also: model, data, batch_size, backward_bits (a width, or "full"), autocast, test_weights ("best" on validation, or
"last"). What is said above the parts holds for all of them. A key that a plan does not know is an error, not ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bitcycle._study.deficits import DeficitPart
from bitcycle._study.plan import Part, Plan
from bitcycle._support.names import nearest
from bitcycle.experiments.data.official import located

KEYS = (
    *("task", "schedules", "bits", "cycles", "seeds", "steps", "backward_bits"),
    *("model", "data", "batch_size", "autocast", "test_weights", "options"),
)
DEFICIT_KEYS = (
    *("task", "bits", "steps", "lengths", "window", "starts", "recovery", "seeds", "arms", "diagnostics"),
    *("model", "data", "batch_size", "options"),
)


def read_plan(path: Path, given: Mapping[str, Any] | None = None) -> Plan:
    """The plan in a file; its name is that of the file if it does not say. What is given holds for all its tables."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    try:
        return plan_of(_changed(values, given or {}), path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _changed(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's values with others in the place of its own, in every part and, where they apply, in every deficit."""
    deficits = _tables(values, "deficit", [])
    parts = _tables(values, "part", [] if deficits else [{}])
    for_deficits = {key: value for key, value in given.items() if key in DEFICIT_KEYS}
    if not parts and for_deficits != given:
        raise ValueError(f"deficits take no {', '.join(given.keys() - for_deficits.keys())}, and there is no [[part]]")
    return {
        **values,
        "part": [{**part, **given} for part in parts],
        "deficit": [{**deficit, **for_deficits} for deficit in deficits],
    }


def plan_of(values: Mapping[str, Any], name: str) -> Plan:
    """The plan that these values describe."""
    common = {key: value for key, value in values.items() if key not in ("name", "part", "deficit")}
    deficits = _tables(values, "deficit", [])
    parts = _tables(values, "part", [] if deficits else [{}])
    made = [part_of({**common, **part}) for part in parts]
    made_deficits = [deficit_of({**common, **deficit}) for deficit in deficits]
    return Plan(_text(values.get("name", name), "name"), (*made, *made_deficits))


def _tables(values: Mapping[str, Any], name: str, default: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tables = values.get(name, default)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError(f"{name}s are written [[{name}]]")
    return tables


def part_of(values: Mapping[str, Any]) -> Part:
    """A part of a plan; what is left out is the task's own."""
    from bitcycle.experiments.tasks import task_named

    _check_keys(values, KEYS)
    task = task_named(_text(values["task"], "task"))
    options = _options(values)
    backward = values.get("backward_bits", "max")
    return Part(
        task=task.name,
        schedules=tuple(_text(each, "a schedule") for each in _list(values.get("schedules", "all"))),
        bits=_pairs(values.get("bits", list(task.bits))),
        cycles=tuple(_whole(each, "cycles", 1) for each in _list(values.get("cycles", task.cycles))),
        seeds=seeds_of(values.get("seeds", 3)),
        steps=_whole(values.get("steps", task.steps), "steps", 1),
        backward_bits=backward if backward == "max" else None if backward == "full" else _whole(backward, "bits", 1),
        model=_text(values.get("model", ""), "model"),
        data=located(_text(values.get("data", ""), "data")),
        batch_size=_whole(values.get("batch_size", 0), "batch_size", 0),
        autocast=_flag(values.get("autocast", False), "autocast"),
        test_weights=_text(values.get("test_weights", "best"), "test_weights"),
        options={name: tuple(map(str, _list(value))) for name, value in options.items()},
    )


def deficit_of(values: Mapping[str, Any]) -> DeficitPart:
    """Deficit experiments; what is left out is the task's own, or the default of :class:`DeficitPart`."""
    from bitcycle.experiments.tasks import task_named

    _check_keys(values, DEFICIT_KEYS)
    task = task_named(_text(values["task"], "task"))
    pairs = _pairs(values.get("bits", list(task.bits)))
    if len(pairs) > 1:
        raise ValueError(f"a deficit has one pair of bits, not {len(pairs)}: write a [[deficit]] for each")
    given: dict[str, Any] = {
        key: tuple(_share(each, key) for each in _list(values[key])) for key in ("lengths", "starts") if key in values
    }
    if "window" in values:
        given["window"] = _share(values["window"], "window")
    if "recovery" in values:
        given["recovery"] = _text(values["recovery"], "recovery")
    if "arms" in values:
        given["arms"] = tuple(_text(each, "an arm") for each in _list(values["arms"]))
    return DeficitPart(
        task=task.name,
        bits=pairs[0],
        steps=_whole(values.get("steps", task.steps), "steps", 1),
        seeds=seeds_of(values.get("seeds", 5)),
        diagnostics=_flag(values.get("diagnostics", True), "diagnostics"),
        model=_text(values.get("model", ""), "model"),
        data=located(_text(values.get("data", ""), "data")),
        batch_size=_whole(values.get("batch_size", 0), "batch_size", 0),
        options={name: str(value) for name, value in _options(values).items()},
        **given,
    )


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} is true or false, not {value!r}")
    return value


def _check_keys(values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            raise ValueError(f"a plan has no {key!r}; {nearest(key, known)}")
    if "task" not in values:
        raise ValueError("a part of a plan names its task")


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
    options = values.get("options", {})
    if not isinstance(options, dict):
        raise ValueError("options is a table, as in options = { aggregation = 'quantized' }")
    return options


def _share(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1000:
        raise ValueError(f"{what}: a number of normal trainings of 0 or more, not {value!r}")
    return float(value)


def seeds_of(value: Any) -> tuple[int, ...]:
    """As many seeds, from 0 on, or the very seeds.

    >>> seeds_of(3), seeds_of([7, 8])
    ((0, 1, 2), (7, 8))
    """
    if isinstance(value, list):
        return tuple(_whole(each, "a seed", 0) for each in value)
    return tuple(range(_whole(value, "seeds", 1)))


def _pairs(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = value if value and isinstance(value, (list, tuple)) and isinstance(value[0], (list, tuple)) else [value]
    found = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"bits are a pair such as [3, 8] or a list of pairs, not {value!r}")
        low, high = (_whole(each, "bits", 1) for each in pair)
        if low > high:
            raise ValueError(f"bits are q_min and q_max in this order, not {low} and {high}")
        found.append((low, high))
    return tuple(found)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _whole(value: Any, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is a whole number of {least} or more, not {value!r}")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is a text, not {value!r}")
    return value
