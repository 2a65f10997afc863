"""Claims about deficits in words."""

from __future__ import annotations

import math

from bitcycle.lab.format import aligned, count, number
from bitcycle.lab.report.wording.claim import Wording, wording
from bitcycle.lab.statistics.analysis import DeficitAnalysis, Interval
from bitcycle.lab.statistics.claims import GrowingDamage, LastingDamage, LaterHurtsLess, RestartHelps
from bitcycle.lab.studies.deficits import Arm


def _change(found: Interval) -> str:
    if not math.isfinite(found.mean):
        return "an amount that is not finite (a run diverged)"
    if math.isnan(found.low):
        return f"{number(found.mean)} (no interval)"
    return f"{number(found.mean)} (95 % interval {number(found.low)} to {number(found.high)})"


def _metric_change(found: Interval, analysis: DeficitAnalysis) -> str:
    """The change of the metric itself, so with the opposite sign where a lower metric is better."""
    if not math.isfinite(found.mean):
        return "a run diverged"
    mean, low, high = (found.mean, found.low, found.high)
    if not analysis.higher_is_better:
        mean, low, high = -mean, -high, -low
    if math.isnan(low):
        return f"{analysis.metric} {mean:+.2g} (no interval)"
    mean_text, low_text, high_text = aligned([mean, low, high], 2, signed=True)
    return f"{analysis.metric} {mean_text} ({low_text} to {high_text})"


def _by_sign(found: Interval, up: str, down: str, neither: str) -> str:
    """Choose a phrase by the side of zero that the interval lies on."""
    return up if found.low > 0 else down if found.high < 0 else neither


def _signed(analysis: DeficitAnalysis) -> str:
    return f"{analysis.metric} (positive: better)"


@wording.register
def _(claim: GrowingDamage, analysis: DeficitAnalysis) -> Wording:
    change = _by_sign(claim.slope, "rises", "falls", "does not change significantly")
    begin = f"Final quality {change} with the length of an initial deficit"
    return Wording(
        f"{begin}: {_metric_change(claim.slope, analysis)} for each normal-run length of deficit",
        f"{begin}: compared with as many steps without one, {_signed(analysis)} changes by {_change(claim.slope)} per "
        "normal run of deficit.",
    )


@wording.register
def _(claim: LastingDamage, analysis: DeficitAnalysis) -> Wording:
    difference, steps = claim.difference, count(claim.steps, "step")
    begin = _by_sign(difference, "The deficit improved quality", "The damage lasts", "No significant lasting damage")
    return Wording(
        f"{begin}: {_metric_change(difference, analysis)} after an initial deficit of {steps} and a whole normal "
        "training",
        f"{begin}: after the longest initial deficit ({steps}) and a whole normal run, {_signed(analysis)} "
        f"differs by {_change(difference)} from as many steps without a deficit.",
    )


@wording.register
def _(claim: RestartHelps, analysis: DeficitAnalysis) -> Wording:
    effect = _by_sign(claim.gain, "helps", "hurts", "has no significant effect")
    begin = f"Restarting the learning rate after the longest initial deficit {effect}"
    long = f"{begin}: compared with holding it, {_signed(analysis)} changes by {_change(claim.gain)}."
    if claim.gap.high < 0 and math.isfinite(claim.remaining.mean):
        gap, remaining = number(-claim.gap.mean), number(-claim.remaining.mean)
        long += f" Of the gap of {gap} to the control, {remaining} remains."
    return Wording(f"{begin}: {_metric_change(claim.gain, analysis)}", long)


@wording.register
def _(claim: LaterHurtsLess, analysis: DeficitAnalysis) -> Wording:
    rate = {Arm.HELD: "held during", Arm.RESTARTED: "restarted after"}[claim.arm]
    effect = _by_sign(claim.slope, "hurts less", "hurts more", "hurts neither significantly less nor more")
    return Wording(
        f"A later deficit {effect} (learning rate {claim.arm}): {_metric_change(claim.slope, analysis)} per normal "
        "training later",
        f"With the learning rate {rate} it, a later deficit of the same length {effect}: compared with the control "
        f"without one, {_signed(analysis)} changes by {_change(claim.slope)} per normal run that the deficit is "
        "moved.",
    )
