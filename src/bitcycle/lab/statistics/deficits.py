"""Deficit experiments: does low precision early do lasting damage, and does the learning rate play a part in it?

Every arm is compared with the control of the same length or position, paired by seed; the p-values of an experiment
are corrected together. Slopes are fitted seed by seed, ``quality - quality of the control = a + slope * share``, and
averaged; the interval of their mean is that of Student's t over seeds. Neither differences between seeds nor the effect
of longer training blur the effect of the deficit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics.analysis import (
    Claim,
    ClaimKind,
    Comparison,
    DeficitAnalysis,
    DeficitPoint,
    Estimate,
    OpenReason,
)
from bitcycle.lab.statistics.estimates import compare, corrected, estimate, t_interval
from bitcycle.lab.statistics.findings import CONTRADICTED, SUPPORTED, open_because
from bitcycle.lab.statistics.settings import quality_of
from bitcycle.lab.studies.deficits import Arm, Cell, DeficitPart, Experiment

CellRecords = dict[Cell, list[RunResult]]


def analyse_deficits(part: DeficitPart, records: Iterable[RunResult]) -> DeficitAnalysis | None:
    """Analyse the finished runs of the experiments; None if no run is finished."""
    by_run = {record.run: record for record in records}
    finished: CellRecords = {}
    for cell, run in part.cells():
        if run in by_run:
            finished.setdefault(cell, []).append(by_run[run])
    if not finished:
        return None
    example = next(iter(finished.values()))[0]
    sign = 1 if example.higher_is_better else -1
    lengths, positions = (_points(finished, experiment, part.steps, sign) for experiment in Experiment)
    return DeficitAnalysis(
        task=part.task,
        title=_title(part, example.run),
        metric=example.metric,
        higher_is_better=example.higher_is_better,
        bits=part.bits,
        steps=part.steps,
        window=round(part.window * part.steps),
        seeds=len(part.seeds),
        lengths=lengths,
        positions=positions,
        claims=[*length_claims(lengths, sign), *position_claims(positions, sign)],
        recovery=part.recovery,
    )


def _title(part: DeficitPart, run: RunConfig) -> str:
    names = [part.task, *([f"model {run.model}"] if run.model else []), *([f"data {run.data}"] if run.data else [])]
    whole = ", followed by a whole normal run" if part.recovery == "whole" else ""
    return f"{', '.join(names)}: {part.bits[0]} instead of {part.bits[1]} bits for part of training{whole}"


def _points(finished: CellRecords, experiment: Experiment, steps: int, sign: int) -> list[DeficitPoint]:
    arms = list(Arm)
    cells = sorted(
        (cell for cell in finished if cell.experiment == experiment),
        key=lambda cell: (arms.index(cell.arm), cell.place),
    )
    qualities = {cell: {record.run.seed: quality_of(record) for record in finished[cell]} for cell in cells}
    control = {cell.place: qualities[cell] for cell in cells if cell.arm == Arm.LONGER}
    losses: dict[Cell, Comparison] = {
        cell: compare(qualities[cell], control[cell.place], sign)
        for cell in cells
        if cell.arm != Arm.LONGER and cell.place in control
    }
    losses = dict(zip(losses, corrected(list(losses.values())), strict=True))
    return [
        DeficitPoint(
            place=cell.place,
            share=cell.place / steps,
            arm=cell.arm,
            quality=estimate(qualities[cell].values()),
            qualities=qualities[cell],
            loss=losses.get(cell),
            runs=tuple(record.run for record in finished[cell]),
        )
        for cell in cells
    ]


def length_claims(points: Sequence[DeficitPoint], sign: int) -> list[Claim]:
    """Does an initial deficit do damage that grows and lasts, and does a restart of the learning rate repair it?"""
    held, restarted, longer = (_of_arm(points, arm) for arm in Arm)
    without_deficit = [point for point in longer if point.place == 0]  # a deficit of no length is the control itself
    claims: list[Claim] = []
    slope = _slope([*without_deficit, *held], longer, sign)
    if slope is not None:
        claims.append(_claim(ClaimKind.GROWING_DAMAGE, slope, expected=-1))
    compared = [point for point in held if point.loss is not None and point.loss.pairs]
    if compared:
        difference, place = t_interval(compared[-1].loss), compared[-1].place
        claims.append(_claim(ClaimKind.LASTING_DAMAGE, difference, expected=-1, place=place))
    restarted_at = {point.place: point for point in restarted}
    both = [
        (point, other)
        for point in held
        if (other := restarted_at.get(point.place)) is not None and point.qualities.keys() & other.qualities.keys()
    ]
    if both:
        longest, after_restart = both[-1]
        gain = t_interval(compare(after_restart.qualities, longest.qualities, sign))
        claims.append(_claim(ClaimKind.RESTART_HELPS, gain, expected=1, place=longest.place))
    return claims


def position_claims(points: Sequence[DeficitPoint], sign: int) -> list[Claim]:
    """Does a deficit hurt less if it comes later?"""
    control = _of_arm(points, Arm.LONGER)
    slopes = {arm: _slope(_of_arm(points, arm), control, sign) for arm in (Arm.HELD, Arm.RESTARTED)}
    return [
        _claim(ClaimKind.LATER_HURTS_LESS, slope, expected=1, about=arm)
        for arm, slope in slopes.items()
        if slope is not None
    ]


def _of_arm(points: Sequence[DeficitPoint], arm: Arm) -> list[DeficitPoint]:
    return [point for point in points if point.arm == arm]


def _slope(points: Sequence[DeficitPoint], control: Sequence[DeficitPoint], sign: int) -> Estimate | None:
    """Return the mean over seeds of the slope of the difference to the control, along lengths or positions.

    A slope is a difference of two weighted sums of qualities, so it is compared as two settings are, which separates
    rounding from an effect. Seeds that lack a run are left out, and so are points without a control.
    """
    control_at = {point.place: point.qualities for point in control}
    points = [point for point in points if point.place in control_at]
    if len({point.place for point in points}) < 2:
        return None
    middle = math.fsum(point.share for point in points) / len(points)
    scale = math.fsum((point.share - middle) ** 2 for point in points)
    seeds = set.intersection(*(point.qualities.keys() & control_at[point.place].keys() for point in points))
    rising, falling = dict.fromkeys(seeds, 0.0), dict.fromkeys(seeds, 0.0)
    for point in points:
        weight = (point.share - middle) / scale
        for seed in seeds:
            ours, theirs = (abs(weight) * qualities[seed] for qualities in (point.qualities, control_at[point.place]))
            rising[seed] += ours if weight > 0 else theirs
            falling[seed] += theirs if weight > 0 else ours
    return t_interval(compare(rising, falling, sign)) if seeds else None


def _claim(
    kind: ClaimKind, effect: Estimate, expected: int, about: str | None = None, place: int | None = None
) -> Claim:
    """Decide by the interval of an effect; ``expected`` is the sign that the claim expects."""
    if not math.isfinite(effect.mean):
        decision = open_because(OpenReason.DIVERGED)
    elif math.isnan(effect.low):
        decision = open_because(OpenReason.TOO_FEW_SEEDS)
    elif effect.low <= 0 <= effect.high:
        decision = open_because(OpenReason.INCLUDES_ZERO)
    else:
        decision = SUPPORTED if (effect.low > 0) == (expected > 0) else CONTRADICTED
    return Claim(kind, *decision, about, place, effect)
