"""What can be said of settings against the baseline, static q_max."""

from __future__ import annotations

import math

from bitcycle._study.analysis import Analysis, Claim, Setting
from bitcycle._study.statistics.comparisons import largest_loss
from bitcycle._study.statistics.resampling import LEVEL
from bitcycle._study.statistics.wording import counted_noun, listed, number, percent

MANY = 12
"""A sentence names no more settings than this; the table has them all."""


def baseline_setting(analysis: Analysis) -> Setting | None:
    """The baseline itself."""
    return next((setting for setting in analysis.settings if setting.label == analysis.baseline), None)


def with_verdict(settings: list[Setting], *verdicts: str) -> list[Setting]:
    """The settings whose comparison with the baseline ended so."""
    return [setting for setting in settings if setting.against is not None and setting.against.verdict in verdicts]


def holding(settings: list[Setting], base: Setting) -> list[Setting]:
    """Those cheaper than the baseline, not worse by their own test, nor in the mean by more than seeds scatter.

    P-values are not corrected here. The correction guards against finding a difference where there is none; who looks
    for a cheap setting errs the other way, and with it would find the more of them the more were tried. The test alone
    would not do: the fewer the seeds, and the noisier the setting, the more it lets pass.
    """
    tested = with_verdict(settings, "better", "worse", "no difference shown")
    return [setting for setting in tested if setting.relative_cost < 1 and _holds(setting, base)]


def _holds(setting: Setting, base: Setting) -> bool:
    against = setting.against
    assert against is not None
    lost = -against.difference.mean
    return lost <= 0 or (against.p >= LEVEL and lost <= scatter(base))


def schedules_against_baseline(analysis: Analysis) -> Claim | None:
    """Which schedules beat the baseline: supported if any does, contradicted if all fall short."""
    schedules = [setting for setting in analysis.settings if not setting.baseline]
    base = analysis.baseline
    if base is None or not schedules:
        return None
    names = {
        verdict: [setting.label for setting in with_verdict(schedules, verdict)]
        for verdict in ("better", "worse", "no difference shown", "diverged", "too few seeds")
    }
    better, worse = names["better"], names["worse"]
    if not better and not worse and not names["no difference shown"]:
        return Claim(f"Whether any schedule beats {base} cannot be told: none could be tested against it.", "open")
    parts = []
    if better:
        parts.append(f"{listed(better)} beat{'s' if len(better) == 1 else ''} it")
    if worse:
        parts.append(f"{listed(worse)} fall{'s' if len(worse) == 1 else ''} short of it")
    if names["no difference shown"]:
        alike = names["no difference shown"]
        which = listed(alike) if len(alike) <= MANY else f"the other {len(alike)}"
        parts.append(f"for {which} no difference was shown, which is not to say equal")
    if names["diverged"]:
        parts.append(f"{listed(names['diverged'])} could not be tested, for runs that diverged")
    if names["too few seeds"]:
        parts.append(f"{listed(names['too few seeds'])} could not be tested, for too few seeds")
    tested = f"(paired t test over seeds, Holm's correction): {'; '.join(parts)}."
    if better:
        return Claim(f"Some schedules beat {base} {tested}", "supported")
    if len(worse) == len(schedules):
        return Claim(f"No schedule beats {base} {tested}", "contradicted")
    return Claim(f"No schedule was shown to beat {base} {tested}", "open")


def cheapest_that_holds(analysis: Analysis) -> Claim | None:
    """What can be saved without a loss that its own test shows: supported only if it leaves no room for a loss."""
    base = baseline_setting(analysis)
    cheaper = [setting for setting in analysis.settings if setting.relative_cost < 1]
    if base is None or not cheaper:
        return None
    found = next(iter(holding(cheaper, base)), None)
    if found is None or found.against is None:
        return _nothing_holds(cheaper, base)
    saving = percent(1 - found.relative_cost)
    text = (
        f"The cheapest setting that its own test, without correction, does not show to be worse than {base.label}, and "
        f"that loses no more than seeds scatter, is {found.label}, which saves {saving}. "
    )
    loss = largest_loss(found.against)
    return Claim(text + _what_it_may_lose(found, base, analysis.metric), "open" if loss > 0 else "supported")


def _nothing_holds(cheaper: list[Setting], base: Setting) -> Claim:
    """Either everything cheaper is worse, or some of it could not be tested."""
    untested = with_verdict(cheaper, "too few seeds")
    if untested or not math.isfinite(base.quality.mean):
        reason = f"{listed([s.label for s in untested])} with too few seeds" if untested else "runs of it diverged"
        return Claim(f"Whether a cheaper setting does as well as {base.label} cannot be told: {reason}.", "open")
    diverged = " or diverged" if with_verdict(cheaper, "diverged") else ""
    if with_verdict(cheaper, "no difference shown"):
        text = (
            f"No setting that is cheaper than {base.label} holds: by its own test, without correction, each is worse"
            f"{diverged}, or it loses more than the seeds of {base.label} scatter ({number(scatter(base))})."
        )
        return Claim(text, "open")
    return Claim(f"Every setting that is cheaper than {base.label} is worse{diverged}.", "contradicted")


def _what_it_may_lose(found: Setting, base: Setting, metric: str) -> str:
    """Not shown to be worse is not as good: how much worse it may be still."""
    assert found.against is not None
    against = found.against
    mean = against.difference.mean
    seen = f"In the mean of {counted_noun(against.pairs, 'shared seed')} its {metric} is "
    seen += "the same" if mean == 0 else f"{number(abs(mean))} {'better' if mean > 0 else 'worse'}"
    if against.difference.error == 0:
        return f"{seen}, by exactly as much for each seed, which leaves no interval to tell what others would give."
    loss = largest_loss(against)
    if loss == 0:
        return f"{seen}, and the 95 % interval of the paired t test leaves no room for a loss."
    return (
        f"{seen}, and the 95 % interval of the paired t test still allows a loss of {number(loss)}"
        f"{_yardstick(base)}: not shown to be worse is not the same as being as good."
    )


def scatter(setting: Setting) -> float:
    """The standard deviation over seeds, to judge a loss by: ``error * sqrt(n)``; NaN for a single seed."""
    return setting.quality.error * math.sqrt(len(setting.qualities))


def _yardstick(base: Setting) -> str:
    known = not math.isnan(scatter(base))
    return f" (the seeds of {base.label} alone scatter by {number(scatter(base))})" if known else ""
