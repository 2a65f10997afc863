"""What the figures mean for the reader's choice: lowest cost, balance, best quality."""

from __future__ import annotations

import math

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.statistics.baseline_claims import baseline_setting, holding
from bitcycle._study.statistics.caveats import ENOUGH_SEEDS
from bitcycle._study.statistics.reading import schedule_of
from bitcycle._study.statistics.wording import counted_noun, listed, number, percent
from bitcycle.schedules import Constant


def advice(analysis: Analysis) -> list[str]:
    """Two to four sentences. Full precision is not among the choices, unless it is all there is."""
    finite = [setting for setting in analysis.settings if math.isfinite(setting.quality.mean)]
    choices = [setting for setting in finite if schedule_of(setting.run) != Constant(None)] or finite
    if not choices:
        return ["Every setting has runs that diverged: there is nothing to choose from.", "Raise q_min, and run again."]
    if len(choices) == 1:
        return [
            f"{choices[0].label} is the only setting to choose: {_figures(choices[0], analysis)}.",
            "Run others beside it, static q_max among them, to see what precision costs and saves.",
        ]
    sign = 1 if analysis.higher_is_better else -1
    cheapest = min(choices, key=lambda setting: (setting.bitops, -sign * setting.quality.mean))
    best = min(choices, key=lambda setting: (-sign * setting.quality.mean, setting.bitops))
    base = baseline_setting(analysis)
    balance = next(iter(holding(choices, base) if base else ()), None) or _knee(choices, cheapest, best)
    roles: dict[str, list[str]] = {}
    for role, setting in (("lowest cost", cheapest), ("balance", balance), ("best quality", best)):
        roles.setdefault(setting.label, []).append(role)
    sentences = []
    for setting in (s for s in choices if s.label in roles):
        names = listed(roles[setting.label])
        sentences.append(f"{names[0].upper()}{names[1:]}: {setting.label}, {_figures(setting, analysis)}.")
    if cheapest is best:
        sentences.append("The cheapest setting also has the best mean: there is no trade-off to make here.")
    return sentences + _caution(analysis)


def _knee(choices: list[Setting], cheapest: Setting, best: Setting) -> Setting:
    """The setting of the front that stands highest above the straight line from the cheapest to the best.

    With cost and quality both scaled to 0 at the cheapest and 1 at the best, it has the largest quality minus cost.
    """
    front = [setting for setting in choices if setting.on_front]
    costs, gains = best.bitops - cheapest.bitops, best.quality.mean - cheapest.quality.mean
    if costs == 0 or gains == 0:
        return best

    def height(setting: Setting) -> float:
        gained = (setting.quality.mean - cheapest.quality.mean) / gains
        return gained - (setting.bitops - cheapest.bitops) / costs

    return max([best, *front], key=height)


def _figures(setting: Setting, analysis: Analysis) -> str:
    """Cost, quality, and how sure the difference from the baseline is."""
    quality = f"a mean {analysis.metric} of {number(setting.quality.mean)}"
    base = baseline_setting(analysis)
    if base is None:
        return quality
    if setting is base:
        return f"the baseline, with {quality}"
    cost = f"the same cost as {base.label}"
    if setting.relative_cost != 1:
        more = "less" if setting.relative_cost < 1 else "more"
        cost = f"{percent(abs(1 - setting.relative_cost))} {more} cost than {base.label}"
    verdict = setting.against.verdict if setting.against is not None else ""
    sure = {
        "better": "shown to be better than",
        "worse": "shown to be worse than",
        "no difference shown": "not shown to differ from",
    }.get(verdict, "not tested against")
    return f"{cost}, {quality}, {sure} {number(base.quality.mean)}"


def _caution(analysis: Analysis) -> list[str]:
    if analysis.baseline is None:
        return ["No static or full-precision baseline was run, so nothing says what these settings lose."]
    seeds = min(len(setting.qualities) for setting in analysis.settings)
    if seeds < ENOUGH_SEEDS:
        fewest = counted_noun(seeds, "seed")
        return [f"This rests on {fewest} where there are fewest: run {ENOUGH_SEEDS} before you rely on it."]
    return []
