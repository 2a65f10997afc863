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

Also: model, data, batch_size, backward_bits (a width, or "full"), autocast. What is said above the parts holds for all
of them. A key that a plan does not know is an error, not ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bitcycle.schedules.names import nearest
from bitcycle.study.plan import Part, Plan

KEYS = (
    *("task", "schedules", "bits", "cycles", "seeds", "steps", "backward_bits"),
    *("model", "data", "batch_size", "autocast", "options"),
)


def read_plan(path: Path) -> Plan:
    """The plan in a file; its name is that of the file if it does not say."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    try:
        return plan_of(values, path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def plan_of(values: Mapping[str, Any], name: str) -> Plan:
    """The plan that these values describe."""
    common = {key: value for key, value in values.items() if key not in ("name", "part")}
    parts = values.get("part", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError("parts are written [[part]]")
    return Plan(_text(values.get("name", name), "name"), tuple(part_of({**common, **part}) for part in parts))


def part_of(values: Mapping[str, Any]) -> Part:
    """A part of a plan; what is left out is the task's own."""
    from bitcycle.tasks import task_named

    for key in values:
        if key not in KEYS:
            raise ValueError(f"a plan has no {key!r}; {nearest(key, KEYS)}")
    if "task" not in values:
        raise ValueError("a part of a plan names its task")
    task = task_named(_text(values["task"], "task"))
    options = values.get("options", {})
    if not isinstance(options, dict):
        raise ValueError("options is a table, as in options = { aggregation = 'quantized' }")
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
        data=_text(values.get("data", ""), "data"),
        batch_size=_whole(values.get("batch_size", 0), "batch_size", 0),
        autocast=values.get("autocast", False) is True,
        options={name: tuple(map(str, _list(value))) for name, value in options.items()},
    )


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
