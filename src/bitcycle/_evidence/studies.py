"""The studies of a domain: the plan of each, and what every run of it is for."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bitcycle._evidence.design import Design, Domain, Role
from bitcycle._study.deficits import DeficitPart
from bitcycle._study.plan import GROUPS, Plan, StudyPart
from bitcycle._study.plan_file import plan_of
from bitcycle._support.names import nearest
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Control, schedule

DATA = "BITCYCLE_DATA"
"""The variable with the folder of official data sets."""
PACKAGE = "package:"
"""Begins the name of a model that is a folder of an installed package, as in ``package:name/folder``."""
BELOW_FOUND = "below_found"
"""The key of a table whose schedules start so many bits below the width that the range test finds."""
CHEAPER = "static below "
"""Begins the name of the widest static schedule that costs no more than another one."""


class PlannedRun(NamedTuple):
    """A run and the setting it belongs to, as claims name it."""

    setting: str
    run: RunConfig


@dataclass(frozen=True)
class PlannedStudy:
    """A study of a domain. A run can belong to several settings."""

    domain: Domain
    kind: str
    runs: tuple[PlannedRun, ...]
    plan: Plan


def planned_study(design: Design, domain: Domain, kind: str, role: Role) -> PlannedStudy:
    """Return the plan of a study. Controls at equal cost are solved for the model, which takes some seconds.

    Raises:
        ValueError: The domain has no such study, or its data is not there.
    """
    if kind not in domain.studies:
        raise ValueError(f"the domain {domain.id} has no study {kind!r}; it has {', '.join(domain.studies)}")
    common = {**_located(domain.task), "seeds": design.seeds(domain, role)}
    parts: list[StudyPart | DeficitPart] = []
    runs: list[PlannedRun] = []
    for table in _tables(design, domain, kind):
        deficits = "lengths" in table
        of_table = list(_deficit_runs(common, table)) if deficits else list(_schedule_runs(common, table))
        for part, settings in of_table:
            parts.append(part)
            runs += settings
    return PlannedStudy(domain, kind, tuple(runs), Plan(f"{domain.id}-{kind}", tuple(parts)))


def restricted(study: PlannedStudy, settings: Sequence[str] | None) -> PlannedStudy:
    """Return the study with some of its settings only, as for a pilot.

    Raises:
        ValueError: The study has no such setting.
    """
    if not settings:
        return study
    known = list(dict.fromkeys(planned.setting for planned in study.runs))
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{study.plan.name} has no setting {setting!r}; {nearest(setting, known)}")
    runs = tuple(planned for planned in study.runs if planned.setting in settings)
    wanted = {planned.run for planned in runs}
    parts = tuple(part for part in study.plan.parts if any(run in wanted for run in part.runs()))
    return replace(study, runs=runs, plan=replace(study.plan, parts=parts))


def unfinished(study: PlannedStudy, done: Collection[str]) -> Plan | None:
    """Return the plan of what is left to run, if the runs of some names are done elsewhere; None if nothing is left.

    A seed of a deficit experiment is left as a whole.
    """
    parts = []
    for part in study.plan.parts:
        left = {run.seed: None for run in part.runs() if run.name not in done}
        if left:
            parts.append(replace(part, seeds=tuple(left)))
    return replace(study.plan, parts=tuple(parts)) if parts else None


def _tables(design: Design, domain: Domain, kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of a study; the key ``below_found`` becomes bits, and a table below 1 bit is left out."""
    for table in design.studies[kind]:
        if BELOW_FOUND not in table:
            yield table
        elif (lowest := domain.found - table[BELOW_FOUND]) >= 1:
            rest = {key: value for key, value in table.items() if key != BELOW_FOUND}
            yield {**rest, "bits": [lowest, domain.task["bits"][1]]}


def _schedule_runs(common: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[tuple[StudyPart, list[PlannedRun]]]:
    """Yield each schedule of a table as a part of its own, with its runs."""
    suffix = table.get("suffix", "")
    values = {key: value for key, value in table.items() if key != "suffix"}
    names = [each for name in table["schedules"] for each in _expanded(name)]
    solved = [name for name in names if not name.startswith(CHEAPER)]
    plan = plan_of({**common, **values, "schedules": solved}, "")
    part = plan.parts[0]
    assert isinstance(part, StudyPart)
    specs = dict(zip(solved, part.schedules, strict=True))
    for name in names:
        spec = specs[name] if name in specs else _cheaper(name, specs)
        alone = replace(part, schedules=(spec,))
        yield alone, [PlannedRun(f"{name}{suffix}", run) for run in alone.runs()]


def _expanded(name: str) -> list[str]:
    if name.startswith("match(") and "," not in name:
        return [f"{name.removesuffix(')')}, {control})" for control in Control]
    return list(GROUPS.get(name, (name,)))


def _cheaper(name: str, specs: Mapping[str, str]) -> str:
    """Return the static schedule below the mixture that costs as much as a schedule."""
    mixed = specs[f"match({name.removeprefix(CHEAPER)}, {Control.MIXED})"]
    return f"static:{math.floor(schedule(mixed).mean_bits(10**6))}"


def _deficit_runs(
    common: Mapping[str, Any], table: Mapping[str, Any]
) -> Iterator[tuple[DeficitPart, list[PlannedRun]]]:
    """Yield the experiments of a table. A setting is named ``length 2 held``, ``position 0.5 longer``, ..."""
    suffix = table.get("suffix", "")
    values = {key: value for key, value in table.items() if key != "suffix"}
    part = plan_of({**common, "deficit": [values]}, "").parts[0]
    assert isinstance(part, DeficitPart)
    yield (
        part,
        [
            PlannedRun(f"{cell.experiment} {cell.place / part.steps:g} {cell.arm}{suffix}", run)
            for cell, run in part.cells()
        ],
    )


def _located(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a domain with the folders of its data and its model."""
    values = dict(task)
    if "data" in values:
        folder = os.environ.get(DATA)
        if not folder:
            raise ValueError(f"official data is needed: set {DATA} to the folder that has {values['data']}")
        values["data"] = str(Path(folder) / values["data"])
    if str(values.get("model", "")).startswith(PACKAGE):
        package, _, inside = values["model"].removeprefix(PACKAGE).partition("/")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ValueError(f"the pretrained model is in the package {package}: install it with pip")
        values["model"] = str(Path(spec.origin).parent / inside)
    return values
