"""What the deficit experiments say: does low precision early do damage that lasts, and is it the learning rate's?

Slopes are fitted seed by seed, ``quality = a + slope * place``, and averaged; the interval of their mean is that of
Student's t over seeds. So seeds that start higher or lower do not blur the effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bitcycle.runs import Run
from bitcycle.study.analysis import Claim, Comparison, DeficitAnalysis, DeficitPoint
from bitcycle.study.deficits import ARMS, Cell, DeficitPart
from bitcycle.study.records import Record
from bitcycle.study.statistics.comparisons import compare, corrected
from bitcycle.study.statistics.estimates import estimate
from bitcycle.study.statistics.resampling import LEVEL
from bitcycle.study.statistics.scipy_stats import stats
from bitcycle.study.statistics.wording import number

Qualities = dict[Cell, dict[int, float]]


class Mean(NamedTuple):
    """A mean over seeds with the 95 % interval of Student's t."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.mean)} (95 % interval {number(self.low)} to {number(self.high)})"


def analyse_deficits(part: DeficitPart, records: Iterable[Record]) -> DeficitAnalysis | None:
    """Everything that the finished runs of the experiments say; None if nothing is finished."""
    by_run = {record.run: record for record in records}
    found: Qualities = {}
    for cell, run in part.cells():
        if run in by_run:
            found.setdefault(cell, {})[run.seed] = by_run[run].test
    if not found:
        return None
    some = by_run[next(run for _, run in part.cells() if run in by_run)]
    sign = 1 if some.higher_is_better else -1
    lengths, positions = (_points(found, kind, part.steps, sign) for kind in ("length", "position"))
    return DeficitAnalysis(
        task=part.task,
        title=_title(part, some.run),
        metric=some.metric,
        higher_is_better=some.higher_is_better,
        bits=part.bits,
        steps=part.steps,
        window=round(part.window * part.steps),
        seeds=len(part.seeds),
        lengths=lengths,
        positions=positions,
        claims=[*_length_claims(lengths, sign, some.metric), *_position_claims(positions, sign, some.metric)],
    )


def _title(part: DeficitPart, run: Run) -> str:
    named = [part.task, *([f"model {run.model}"] if run.model else []), *([f"data {run.data}"] if run.data else [])]
    return f"{', '.join(named)}: {part.bits[0]} instead of {part.bits[1]} bits for a stretch of training"


def _points(found: Qualities, experiment: str, steps: int, sign: int) -> list[DeficitPoint]:
    cells = sorted(
        (cell for cell in found if cell.experiment == experiment), key=lambda c: (ARMS.index(c.arm), c.place)
    )
    control = {cell.place: found[cell] for cell in cells if cell.arm == "longer"}
    losses: dict[Cell, Comparison] = {
        cell: compare(found[cell], control[cell.place], sign)
        for cell in cells
        if cell.arm != "longer" and cell.place in control
    }
    losses = dict(zip(losses, corrected(list(losses.values())), strict=True))
    return [
        DeficitPoint(
            cell.place, cell.place / steps, cell.arm, estimate(found[cell].values()), found[cell], losses.get(cell)
        )
        for cell in cells
    ]


def _length_claims(points: list[DeficitPoint], sign: int, metric: str) -> list[Claim]:
    held, restarted, longer = (_arm(points, arm) for arm in ARMS)
    none = [point for point in longer if point.place == 0]
    claims = []
    slope = _slope([*none, *held], sign)
    if slope is not None:
        change = _worded(slope, "rises", "falls", "is not shown to change")
        text = f"Final quality {change} with the length of an initial deficit: {_turned(metric)} changes by {slope}"
        claims.append(Claim(f"{text} per normal training of deficit.", _verdict(slope, wanted=-1)))
    if held and held[-1].loss is not None:
        claims.append(_lasting(held[-1], metric))
    if restarted and held and restarted[-1].place == held[-1].place:
        claims.append(_restart(held[-1], restarted[-1], sign, metric))
    return claims


def _lasting(longest: DeficitPoint, metric: str) -> Claim:
    loss = _mean_of(longest.loss)
    begin = _worded(loss, "The deficit even helped", "The damage lasts", "Lasting damage is not shown")
    return Claim(
        f"{begin}: after the longest initial deficit ({longest.place:,} steps) and a whole normal training, "
        f"{_turned(metric)} differs by {loss} from as many steps at full width.",
        _verdict(loss, wanted=-1),
    )


def _restart(held: DeficitPoint, restarted: DeficitPoint, sign: int, metric: str) -> Claim:
    gained = _mean_of(compare(restarted.qualities, held.qualities, sign))
    effect = _worded(gained, "helps", "hurts", "is not shown to change anything")
    gap, left = (point.loss.difference.mean if point.loss else math.nan for point in (held, restarted))
    share = f" Of the gap of {number(-gap)} to the control it leaves {number(-left)}." if gap < 0 else ""
    return Claim(
        f"Restarting the learning rate after the longest initial deficit {effect}: {_turned(metric)} changes by "
        f"{gained} against holding it.{share}",
        _verdict(gained, wanted=1),
    )


def _position_claims(points: list[DeficitPoint], sign: int, metric: str) -> list[Claim]:
    longer = _arm(points, "longer")
    claims = []
    for arm, words in (("held", "held through it"), ("restarted", "restarted after it")):
        slope = _slope(_arm(points, arm), sign, longer)
        if slope is not None:
            effect = _worded(slope, "hurts less", "hurts more", "is not shown to hurt less or more")
            text = f"With the learning rate {words}, a deficit of the same length placed later {effect}: "
            text += f"against the control without one, {_turned(metric)} changes by {slope}"
            claims.append(Claim(f"{text} per normal training that it is moved.", _verdict(slope, wanted=1)))
    return claims


def _turned(metric: str) -> str:
    return f"{metric} (positive: better)"


def _arm(points: Sequence[DeficitPoint], arm: str) -> list[DeficitPoint]:
    return [point for point in points if point.arm == arm]


def _slope(points: Sequence[DeficitPoint], sign: int, control: Sequence[DeficitPoint] = ()) -> Mean | None:
    """The mean over seeds of the slope of quality, or of its difference to a control, along the places."""
    if len({point.place for point in points}) < 2:
        return None
    beside = {point.place: point.qualities for point in control}
    seeds = set.intersection(*(set(point.qualities) for point in points), *map(set, beside.values()))
    places = np.array([point.share for point in points])
    slopes = []
    for seed in sorted(seeds):
        line = np.array([point.qualities[seed] for point in points])
        if control:
            line -= [beside[point.place][seed] for point in points]
        slopes.append(sign * float(np.polyfit(places, line, 1)[0]) if np.isfinite(line).all() else math.nan)
    return _student(slopes) if slopes else None


def _mean_of(comparison: Comparison | None) -> Mean:
    if comparison is None:
        return Mean(math.nan, math.nan, math.nan)
    found = comparison.difference
    if comparison.pairs < 2:
        return Mean(found.mean, math.nan, math.nan)
    reach = float(stats().t.isf(LEVEL / 2, comparison.pairs - 1)) * found.error
    return Mean(found.mean, found.mean - reach, found.mean + reach)


def _student(values: Sequence[float]) -> Mean:
    found = estimate(values)
    if len(values) < 2:
        return Mean(found.mean, math.nan, math.nan)
    reach = float(stats().t.isf(LEVEL / 2, len(values) - 1)) * found.error
    return Mean(found.mean, found.mean - reach, found.mean + reach)


def _worded(found: Mean, up: str, down: str, neither: str) -> str:
    """By what the interval allows."""
    return up if found.low > 0 else down if found.high < 0 else neither


def _verdict(found: Mean, wanted: int) -> str:
    if math.isnan(found.low):
        return "open"
    low, high = (found.low, found.high) if wanted > 0 else (-found.high, -found.low)
    return "supported" if low > 0 else "contradicted" if high < 0 else "open"
