"""One page with all verdicts: a matrix of claims and domains, and for every domain its scale, command and intervals.

The texts are in :mod:`evidence.templates`; here is what they are filled with.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bitcycle.lab import format as fmt
from bitcycle.lab.judging import Effect
from bitcycle.lab.report.rendering import Column, html_table, markdown_table, style
from bitcycle.lab.statistics.analysis import Estimate
from evidence.design import Claim, Design, Domain, Measure, Role
from evidence.figures import Figure, StudyFigures, complete_study, total_seconds
from evidence.judging import (
    GAP,
    HIGH,
    MAX_SEEDS,
    AllFigures,
    Cell,
    Mark,
    OpenReason,
    detectable,
    gap_of,
    is_shown,
    judge,
    seeds_to_settle,
)
from evidence.plot import cost_plot
from evidence.power import Power, powers
from evidence.repetition import repetitions
from evidence.templates import render, sections

SYMBOLS = {
    Mark.SUPPORTED: "\N{CHECK MARK}",
    Mark.CONTRADICTED: "\N{MULTIPLICATION SIGN}",
    Mark.OPEN: "?",
    Mark.NOT_APPLICABLE: fmt.NONE,
    Mark.NOT_RUN: "\N{HORIZONTAL ELLIPSIS}",
}
MAX_PLACES = 6
"""The most decimals of a bound."""
REACH = 1.0
"""The end of the scale of drawn intervals, in gaps."""


def html_page(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> str:
    """Return the page as HTML that loads nothing, with plots and the means of all settings."""
    values = _values(design, figures, pilots, repeated, html_table)
    for domain, part in values["parts"]:
        part["plot"] = cost_plot(design, domain, figures)
        part["settings"] = _settings_tables(design, domain, figures)
    texts = {each.__name__.strip("_"): each for each in (effect_text, _mean_text, _bounds_text, _mark_text)}
    return render("page.html", style=style(), symbols=SYMBOLS, **texts, **values)


def markdown_page(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> str:
    """Return the page as Markdown, for the documentation."""
    values = _values(design, figures, pilots, repeated, lambda columns, rows, *_, **__: markdown_table(columns, rows))
    cells = values["cells"]

    def symbols_of(domain: Domain) -> Column[Claim]:
        at = {claim.id: cells.get((claim.id, domain.id)) for claim in design.claims}
        return Column(domain.id, lambda claim: SYMBOLS[cell.mark] if (cell := at[claim.id]) else "", numeric=False)

    columns = [Column[Claim]("claim", lambda claim: claim.text, numeric=False), *map(symbols_of, design.domains)]
    return render("page.md", matrix=markdown_table(columns, design.claims), **values)


def _values(
    design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures, table: Callable[..., str]
) -> dict[str, Any]:
    """Return what both pages are filled with."""
    cells = judge(design, figures)
    runs = len({figure.run for study in figures.values() for figure in study.figures})
    pairs = list(repetitions(figures, repeated).values())
    makers = {f"bitcycle {pair.again.bitcycle} on {pair.again.cpu}" for pair in pairs}
    gaps = pilot_gaps(design, pilots)
    by_measure_of_domain = [each for each in powers(design, pilots) if each.measure is each.domain.measure]
    return {
        "claims": design.claims,
        "cells": {(cell.claim.id, cell.domain.id): cell for cell in cells},
        "about": sections(
            "summary.md",
            counts=dict.fromkeys(Mark, 0) | Counter(cell.mark for cell in cells),
            runs=runs,
            hours=total_seconds(figures.values()) / 3600,
            symbols=SYMBOLS,
        ),
        "explanations": sections(
            "explanations.md",
            smallest=" or ".join(sorted({f"{claim.smallest:g}" for claim in design.claims})),
            minus=fmt.MINUS,
            repeated=pairs,
            runs=runs,
            makers=sorted(makers) if all(pair.again.bitcycle for pair in pairs) else [],
        ),
        "about_pilots": sections("pilots.md"),
        "gaps": gaps,
        "gap_table": table(_GAP_COLUMNS, gaps, "What static q_min loses in the pilots"),
        "power_table": table(_POWER_COLUMNS, by_measure_of_domain, "The power of the judging seeds", "power"),
        "domains": design.domains,
        "parts": [(domain, _part(design, domain, cells, figures, table)) for domain in design.domains],
    }


def _part(
    design: Design, domain: Domain, cells: Sequence[Cell], figures: AllFigures, table: Callable[..., str]
) -> dict[str, Any]:
    """Return what the part of the page about a domain is filled with."""
    judged = [cell for cell in cells if cell.domain is domain and cell.mark is not Mark.NOT_RUN]
    done = len({each.run for (id, _), study in figures.items() if id == domain.id for each in study.figures})
    progress = f"Not judged yet: {fmt.count(done, 'run')} {'is' if done == 1 else 'are'} done."
    return {
        "facts": facts(design, domain, figures),
        "judged": judged,
        "table": table(_CELL_COLUMNS, judged, f"Claims about {domain.title}", "judged", reach=REACH),
        "unjudged": progress if done else "Not run yet.",
    }


@dataclass(frozen=True)
class DomainGap:
    """What static q_min loses by one measure."""

    name: str
    """The name of the measure."""
    higher_is_better: bool
    effect: Effect

    @property
    def is_finite(self) -> bool:
        """Whether no static run diverged."""
        return math.isfinite(self.effect.mean)

    @property
    def is_shown(self) -> bool:
        """Whether the gap is shown to be above zero."""
        return is_shown(self.effect)


def facts(design: Design, domain: Domain, figures: AllFigures) -> list[str]:
    """Return the scale of a domain, its gap, how the paper compares, and what would be a stronger test."""
    gap_domain = design.gap_domain(domain)
    found = {measure: gap_of(design, domain, figures, measure) for measure in Measure}
    gaps = []
    for measure, gap in found.items():
        if gap is not None and gap.seeds == gap_domain.seeds and _a_study(domain, figures):
            name, higher_is_better = _measure(gap_domain, figures, measure)
            gaps.append(DomainGap(name, higher_is_better, gap))
    known_seeds = max((gap.seeds for gap in found.values() if gap is not None), default=0)
    return list(
        sections(
            "facts.md",
            domain=domain,
            judged_by=_measure(domain, figures, domain.measure)[0],
            gap_domain=gap_domain,
            gaps=gaps,
            done=known_seeds if _a_study(domain, figures) and not gaps else None,
            seconds=total_seconds(study for (id, _), study in figures.items() if id == domain.id),
        ).values()
    )


def _measure(domain: Domain, figures: AllFigures, measure: Measure) -> tuple[str, bool]:
    """Return the name of a measure in a domain, and whether higher is better."""
    if measure is Measure.LOSS:
        return str(measure), False
    study = _a_study(domain, figures)
    return (study.metric, study.higher_is_better) if study else ("the metric", True)


def _a_study(domain: Domain, figures: AllFigures) -> StudyFigures | None:
    return next((study for (id, _), study in figures.items() if id == domain.id), None)


def effect_text(effect: Effect | None, smallest: float) -> str:
    """Return an effect with its bounds, for a claim with this smallest effect worth knowing.

    >>> effect_text(Effect(0.05, 0.004, 0.0996, 5), smallest=0.1), effect_text(None, 0.1) == fmt.NONE
    ('+0.05 (+0.004 to +0.0996)', True)
    """
    return fmt.NONE if effect is None else f"{_mean_text(effect)} ({_bounds_text(effect, smallest)})"


def _mean_text(effect: Effect) -> str:
    return fmt.fixed(effect.mean, 2, signed=True)


def _bounds_text(effect: Effect, smallest: float) -> str:
    """Return the bounds with two decimals, or more if rounding would move one onto a border of the rules."""
    borders = (-smallest, 0.0, smallest)

    def text(bound: float) -> str:
        places = 2
        while places < MAX_PLACES and round(bound, places) in borders and bound not in borders:
            places += 1
        return fmt.fixed(bound, places, signed=True)

    return f"{text(effect.lower)} to {text(effect.upper)}"


def _mark_text(cell: Cell) -> str:
    added = cell.reason or cell.remark
    return f"{cell.mark}: {added}" if added else str(cell.mark)


def _extra_cost(cell: Cell) -> str:
    return fmt.NONE if cell.extra_cost is None else f"{fmt.fixed(100 * cell.extra_cost, 1, signed=True)} %"


def _seeds_text(cell: Cell) -> str:
    """Return how many seeds would settle an open claim; empty where it is settled or where seeds would not help."""
    if cell.effect is None or cell.reason is not OpenReason.UNDECIDED or not math.isfinite(cell.effect.lower):
        return ""
    seeds = seeds_to_settle(cell.claim, cell.effect)
    return f"more than {MAX_SEEDS:,}" if seeds is None else f"about {seeds:,}"


def _estimate(cell: Cell) -> Estimate:
    effect = cell.effect or Effect(math.nan, math.nan, math.nan, 0)
    return Estimate(effect.mean, math.nan, effect.lower, effect.upper)


_CELL_COLUMNS: list[Column[Cell]] = [
    Column("claim", lambda cell: cell.claim.text, numeric=False),
    Column("verdict", _mark_text, numeric=False),
    Column(
        "effect in gaps",
        lambda cell: effect_text(cell.effect, cell.claim.smallest),
        order=lambda cell: _estimate(cell).mean,
        interval=_estimate,
    ),
    Column("by the other measure", lambda cell: effect_text(cell.other, cell.claim.smallest)),
    Column("extra cost", _extra_cost),
    Column("detectable", lambda cell: fmt.fixed(detectable(cell.effect), 2) if cell.effect else fmt.NONE),
    Column("seeds", lambda cell: str(cell.effect.seeds) if cell.effect else fmt.NONE),
    Column("seeds to settle it", _seeds_text),
]


def pilot_gaps(design: Design, pilots: AllFigures) -> list[tuple[Domain, Effect]]:
    """Return what static q_min lost in the pilots of all domains that have one of their own, with several seeds."""
    own = [domain for domain in design.domains if not domain.gap_of]
    gaps = [(domain, gap_of(design, domain, pilots, domain.measure, Role.TUNING)) for domain in own]
    return [(domain, gap) for domain, gap in gaps if gap is not None and gap.seeds > 1]


def _gap_text(gap: Effect) -> str:
    return f"{fmt.number(gap.mean)} ({fmt.number(gap.lower)} to {fmt.number(gap.upper)})"


_GAP_COLUMNS: list[Column[tuple[Domain, Effect]]] = [
    Column("domain", lambda row: row[0].id, numeric=False),
    Column("by", lambda row: str(row[0].measure), numeric=False),
    Column("pilot seeds", lambda row: str(row[1].seeds)),
    Column("static q_min loses", lambda row: _gap_text(row[1])),
]
_POWER_COLUMNS: list[Column[Power]] = [
    Column("domain", lambda row: row.domain.id, numeric=False),
    Column("claim", lambda row: row.claim.text, numeric=False),
    Column("pilot seeds", lambda row: str(row.pilot_seeds)),
    Column("scatter in gaps", lambda row: fmt.fixed(row.scatter, 2)),
    Column("judging seeds", lambda row: str(row.domain.seeds)),
    Column("decided if there is no effect", lambda row: fmt.percent(row.decided(row.domain.seeds), 0)),
    Column("detectable", lambda row: fmt.fixed(row.detectable(row.domain.seeds), 2)),
]


def _settings_tables(design: Design, domain: Domain, figures: AllFigures) -> dict[str, str]:
    """Return the means of all settings of each complete study, the cheapest first.

    Costs are relative to static q_max of the domain if it has it.
    """
    schedules = figures.get((domain.id, GAP))
    static = schedules.costs().get(HIGH) if schedules else None
    tables: dict[str, str] = {}
    for name in domain.studies:
        study = complete_study(design, domain, name, figures.get((domain.id, name)))
        if study is not None:
            costs = study.costs()
            unit, name_of_unit = (static, HIGH) if static else (max(costs.values()), "most expensive setting")
            columns = _setting_columns(study, costs, unit, name_of_unit)
            tables[name] = html_table(columns, sorted(costs, key=costs.__getitem__), f"Settings of the study {name}")
    return tables


def _setting_columns(study: StudyFigures, costs: dict[str, float], unit: float, name_of_unit: str) -> list[Column[str]]:
    by_setting: dict[str, list[Figure]] = {}
    for figure in study.figures:
        by_setting.setdefault(figure.setting, []).append(figure)
    cost = f"cost, {name_of_unit} = 100 %"
    return [
        Column("setting", str, numeric=False),
        Column("schedule", lambda name: by_setting[name][0].schedule, numeric=False),
        Column(cost, lambda name: fmt.percent(costs[name] / unit), order=lambda name: costs[name]),
        Column(study.metric, lambda name: fmt.number(fmean(f.metric for f in by_setting[name]))),
        Column("test loss", lambda name: fmt.number(fmean(f.loss for f in by_setting[name]))),
        Column("seeds", lambda name: str(len(by_setting[name]))),
    ]
