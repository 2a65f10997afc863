"""What the deficit experiments say: does low precision early do damage that lasts, and is it the learning rate's?

Every arm is compared with the control of the same length or position, paired by seed; the p-values of an experiment
are corrected together.
"""

from __future__ import annotations

from collections.abc import Iterable

from bitcycle._study.analysis import Comparison, DeficitAnalysis, DeficitPoint
from bitcycle._study.deficits import ARMS, Cell, DeficitPart
from bitcycle._study.statistics.comparisons import compare, corrected
from bitcycle._study.statistics.deficit_claims import length_claims, position_claims
from bitcycle._study.statistics.estimates import estimate
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig

Found = dict[Cell, list[RunResult]]


def analyse_deficits(part: DeficitPart, records: Iterable[RunResult]) -> DeficitAnalysis | None:
    """Everything that the finished runs of the experiments say; None if nothing is finished."""
    by_run = {record.run: record for record in records}
    found: Found = {}
    for cell, run in part.cells():
        if run in by_run:
            found.setdefault(cell, []).append(by_run[run])
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
        claims=[*length_claims(lengths, sign, some.metric), *position_claims(positions, sign, some.metric)],
        recovery=part.recovery,
    )


def _title(part: DeficitPart, run: RunConfig) -> str:
    named = [part.task, *([f"model {run.model}"] if run.model else []), *([f"data {run.data}"] if run.data else [])]
    whole = ", and a whole normal training after it" if part.recovery == "whole" else ""
    return f"{', '.join(named)}: {part.bits[0]} instead of {part.bits[1]} bits for a stretch of training{whole}"


def _points(found: Found, experiment: str, steps: int, sign: int) -> list[DeficitPoint]:
    cells = sorted(
        (cell for cell in found if cell.experiment == experiment), key=lambda c: (ARMS.index(c.arm), c.place)
    )
    qualities = {cell: {record.run.seed: record.test for record in found[cell]} for cell in cells}
    control = {cell.place: qualities[cell] for cell in cells if cell.arm == "longer"}
    losses: dict[Cell, Comparison] = {
        cell: compare(qualities[cell], control[cell.place], sign)
        for cell in cells
        if cell.arm != "longer" and cell.place in control
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
            runs=tuple(record.run for record in found[cell]),
        )
        for cell in cells
    ]
