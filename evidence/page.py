"""One page with all verdicts: a matrix of claims and domains, and for every domain its scale, command and intervals.

The texts are Jinja2 templates in the folder ``templates``; here is what they are filled with.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from bitcycle.lab import format as fmt
from bitcycle.lab.judging import Effect
from bitcycle.lab.report.rendering import interval_ends, plain, style
from bitcycle.lab.statistics.analysis import Estimate
from evidence.design import Design, Domain, Measure
from evidence.figures import AllFigures, complete_study, total_seconds
from evidence.judging import (
    GAP,
    HIGH,
    MAX_SEEDS,
    Cell,
    Mark,
    OpenReason,
    detectable,
    gap_of,
    judge,
    seeds_to_settle,
)
from evidence.plot import cost_plot
from evidence.power import powers
from evidence.repetition import repetitions

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
    values = _values(design, figures, pilots, repeated)
    for domain, part in values["parts"]:
        part["plot"] = cost_plot(design, domain, figures)
        part["settings"] = list(_settings(design, domain, figures))
    return _rendered("page.html", style=style(), **values)


def markdown_page(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> str:
    """Return the page as Markdown, for the documentation."""
    return _rendered("page.md", **_values(design, figures, pilots, repeated))


def _values(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> dict[str, Any]:
    """Return what both pages are filled with."""
    cells = judge(design, figures)
    runs = len({figure.run for study in figures.values() for figure in study.figures})
    pairs = list(repetitions(figures, repeated).values())
    makers = {f"bitcycle {pair.again.bitcycle} on {pair.again.cpu}" for pair in pairs}
    own_gaps = [(each, gap_of(design, each, pilots, each.measure)) for each in design.domains if not each.gap_of]
    return {
        "claims": design.claims,
        "cells": {(cell.claim.id, cell.domain.id): cell for cell in cells},
        "about": _sections(
            "summary.md",
            counts=dict.fromkeys(Mark, 0) | Counter(cell.mark for cell in cells),
            runs=runs,
            hours=total_seconds(figures.values()) / 3600,
        ),
        "explanations": _sections(
            "explanations.md",
            smallest=" or ".join(sorted({f"{claim.smallest:g}" for claim in design.claims})),
            minus=fmt.MINUS,
            repeated=pairs,
            runs=runs,
            makers=sorted(makers) if all(pair.again.bitcycle for pair in pairs) else [],
        ),
        "about_pilots": _sections("pilots.md"),
        "gaps": [(domain, gap) for domain, gap in own_gaps if gap is not None and gap.seeds > 1],
        "powers": [each for each in powers(design, pilots) if each.measure is each.domain.measure],
        "domains": design.domains,
        "parts": [(domain, _part(design, domain, cells, figures)) for domain in design.domains],
    }


def _part(design: Design, domain: Domain, cells: list[Cell], figures: AllFigures) -> dict[str, Any]:
    """Return what the part of the page about a domain is filled with."""
    judged = [cell for cell in cells if cell.domain is domain and cell.mark is not Mark.NOT_RUN]
    studies = [study for (id, _), study in figures.items() if id == domain.id]
    gap_domain = design.gap_domain(domain)
    found = {measure: gap_of(design, domain, figures, measure) for measure in Measure} if studies else {}
    gaps = []
    for measure, gap in found.items():
        if gap is not None and gap.seeds == gap_domain.seeds:
            name, higher_is_better = _measure(gap_domain, figures, measure)
            gaps.append({"name": name, "higher_is_better": higher_is_better, "effect": gap})
    facts = _sections(
        "facts.md",
        domain=domain,
        judged_by=_measure(domain, figures, domain.measure)[0],
        gap_domain=gap_domain,
        gaps=gaps,
        known_seeds=max((gap.seeds for gap in found.values() if gap is not None), default=0),
        runs=len({figure.run for study in studies for figure in study.figures}),
        seconds=total_seconds(studies),
    )
    return {"unjudged": facts.pop("Progress"), "facts": list(facts.values()), "judged": judged}


def _measure(domain: Domain, figures: AllFigures, measure: Measure) -> tuple[str, bool]:
    """Return the name of a measure in a domain, and whether higher is better."""
    if measure is Measure.LOSS:
        return str(measure), False
    study = next((study for (id, _), study in figures.items() if id == domain.id), None)
    return (study.metric, study.higher_is_better) if study else ("the metric", True)


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


def _ends(effect: Effect | None) -> list[str | None] | None:
    """Return the ends and the mean of an effect on the scale of drawn intervals."""
    return interval_ends(Estimate(effect.mean, math.nan, effect.lower, effect.upper), REACH) if effect else None


def _settings(design: Design, domain: Domain, figures: AllFigures) -> Iterator[dict[str, Any]]:
    """Yield each complete study with its settings, the cheapest first: name, relative cost, figures.

    Costs are relative to static q_max of the domain if it has it.
    """
    schedules = figures.get((domain.id, GAP))
    static = schedules.costs().get(HIGH) if schedules else None
    for name in domain.studies:
        study = complete_study(design, domain, name, figures)
        if study is not None:
            costs = study.costs()
            unit, name_of_unit = (static, HIGH) if static else (max(costs.values()), "most expensive setting")
            rows = [
                (setting, cost / unit, [figure for figure in study.figures if figure.setting == setting])
                for setting, cost in sorted(costs.items(), key=lambda item: item[1])
            ]
            yield {"name": name, "metric": study.metric, "unit": name_of_unit, "rows": rows}


# Markdown is not HTML: templates in Markdown escape values by the filter "plain" where they are not escaped already.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {"plain": plain, "amount": fmt.count, "number": fmt.number, "listed": fmt.listed}
_ENVIRONMENT.filters |= {"fixed": fmt.fixed, "percent": fmt.percent, "mean_of": fmean, "ends": _ends}
_ENVIRONMENT.filters |= {"mark": _mark_text, "effect": effect_text, "mean": _mean_text, "bounds": _bounds_text}
_ENVIRONMENT.filters |= {"extra_cost": _extra_cost, "seeds_to_settle": _seeds_text}
_ENVIRONMENT.filters["detectable"] = lambda effect: fmt.fixed(detectable(effect), 2)
_ENVIRONMENT.tests["finite"] = math.isfinite
_ENVIRONMENT.globals |= {"symbols": SYMBOLS, "dash": fmt.NONE}


def _rendered(template: str, **values: Any) -> str:
    return _ENVIRONMENT.get_template(template).render(values)


def _sections(template: str, **values: Any) -> dict[str, str]:
    """Return the sections of a template by their headings, each on one line; without those that have no text.

    >>> list(_sections("pilots.md"))
    ['Gaps', 'Power']
    """
    _, *parts = re.split(r"^## (.+)$", _rendered(template, **values), flags=re.MULTILINE)
    found = {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return {name: text for name, text in found.items() if text}
