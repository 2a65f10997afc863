"""Which setting to choose, in words."""

from __future__ import annotations

import math

from bitcycle.lab.format import cost_phrase, count, listed, number
from bitcycle.lab.judging import MIN_SEEDS
from bitcycle.lab.report.wording.phrases import capital
from bitcycle.lab.statistics.analysis import Analysis, Outcome, Role
from bitcycle.lab.statistics.claims import ENOUGH_SEEDS


def recommendations(analysis: Analysis) -> list[str]:
    """Return two to four sentences on which setting to choose."""
    if not analysis.advice:
        return ["Every setting has runs that diverged: there is nothing to choose from.", "Raise q_min and run again."]
    if Role.ONLY_CHOICE in analysis.advice:
        only = analysis.advice[Role.ONLY_CHOICE]
        return [
            f"{only} is the only setting to choose: {_summary(only, analysis)}.",
            "Run others, including static q_max, to see what precision costs and saves.",
        ]
    if min(len(setting.qualities) for setting in analysis.settings) < MIN_SEEDS:
        return [f"Fewer than {MIN_SEEDS} seeds cannot support a recommendation.", *_caution(analysis)]
    roles: dict[str, list[str]] = {}
    for role, label in analysis.advice.items():
        roles.setdefault(label, []).append(role)
    sentences = [
        f"{capital(listed(roles[setting.label]))}: {setting.label}, {_summary(setting.label, analysis)}."
        for setting in analysis.settings
        if setting.label in roles
    ]
    if analysis.advice[Role.LOWEST_COST] == analysis.advice[Role.BEST_QUALITY]:
        sentences.append("The cheapest setting also has the best mean quality: there is no trade-off here.")
    return sentences + _caution(analysis)


def _summary(label: str, analysis: Analysis) -> str:
    """Cost and quality of a setting, and how it compares with the baseline."""
    setting, base = analysis.setting(label), analysis.setting(analysis.baseline)
    assert setting is not None
    quality = f"mean {analysis.metric} {number(setting.quality.mean)}"
    if base is None:
        return quality
    if setting is base:
        return f"the baseline, with {quality}"
    phrase = {
        Outcome.BETTER: "significantly better than",
        Outcome.WORSE: "significantly worse than",
        Outcome.NO_DIFFERENCE: "not significantly different from",
    }
    outcome = setting.against.outcome if setting.against is not None else Outcome.TOO_FEW_SEEDS
    base_quality = f"{base.label} ({number(base.quality.mean)})" if math.isfinite(base.quality.mean) else base.label
    compared = f"{phrase.get(outcome, 'not tested against')} {base_quality}"
    if setting.acceptable is not None and setting.acceptable.accepted:
        compared = f"as good as {base_quality} within a margin of {number(setting.acceptable.margin)}"
    return f"{cost_phrase(setting.relative_cost)}, {quality}, {compared}"


def _caution(analysis: Analysis) -> list[str]:
    if analysis.baseline is None:
        return ["No static or full-precision baseline was run, so it is unknown what these settings lose."]
    fewest = min(len(setting.qualities) for setting in analysis.settings)
    if fewest < ENOUGH_SEEDS:
        return [f"Some settings have only {count(fewest, 'seed')}: run at least {ENOUGH_SEEDS} to rely on this."]
    return []
