"""The scale of options from most precision to lowest cost, and the paper's rules for a place on it."""

from __future__ import annotations

from bitcycle._support.names import nearest
from bitcycle.advice.answer import Option, percent
from bitcycle.advice.setting import Setting
from bitcycle.schedules import Constant, Schedule
from bitcycle.schedules.comparison import EARLY

GOALS = ("cost", "balance", "quality")

SPECS = {
    "small": "ETH",
    "medium": "CT",
    "delayed": f"delay({EARLY}, RTH)",
    "large": "RTH",
}
"""The place on the scale, and what stands there. Of schedules that cost the same it is the one that starts high."""

REASONS = {
    "static": "The baseline. Many schedules beat it in the paper, so take it only if none does on your task.",
    "small": "The small group: the highest quality, for hard and large tasks.",
    "medium": "The medium group: the balance.",
    "delayed": f"The large group after q_max for the first {percent(EARLY)} of training, where low bits do damage.",
    "large": "The large group: the lowest cost, for graph networks and easy tasks; large, hard tasks suffer from it.",
}

TIES = {
    "small": "ETH and ER cost the same; ETH starts and ends at q_max, while ER starts at q_min",
    "medium": "CR, CT, LR, LT, ETV and RTV cost the same within 1.5 %; CT starts and ends at q_max, while CR "
    "(that of CPT 2021, with the most results behind it) and ETV start low, and RTV, with the highest start, ends low",
    "delayed": "RTH and RR cost the same; RTH starts and ends at q_max, while RR starts at q_min",
}
TIES["large"] = TIES["delayed"]


def scale(setting: Setting) -> dict[str, Option]:
    """Every place on the scale, from static q_max to the large group, at these bits and cycles."""
    schedules: dict[str, Schedule] = {
        "static": Constant(setting.q_max),
        **{at: setting.complete(spec) for at, spec in SPECS.items()},
    }
    return {at: Option(s, setting.saving(s), REASONS[at]) for at, s in schedules.items()}


def place(goal: str, domain: str | None) -> tuple[str, list[str]]:
    """Where on the scale the paper puts a goal, and its reasons.

    >>> place("cost", "graph")[0], place("cost", "language")[0], place("balance", None)[0]
    ('large', 'delayed', 'medium')
    """
    if goal not in GOALS:
        raise ValueError(f"unknown goal {goal!r}; {nearest(str(goal), GOALS)}")
    if goal == "quality":
        return "small", ["paper, recommendations: the small group for the highest quality (hard, large tasks)."]
    if goal == "balance":
        reasons = ["paper, recommendations: the medium group for a balance of cost and quality."]
        if domain == "graph":
            reasons.append("paper, findings: graph networks tolerate the large group, so look at the cheaper option.")
        return "medium", reasons
    reasons = ["paper, recommendations: the large group for the lowest cost (graph networks, easy tasks)."]
    if domain == "graph":
        return "large", [*reasons, "paper, findings: graph networks tolerate the large group."]
    if domain is None:
        return "large", [*reasons, "paper, findings: large, hard tasks suffer from it; for them see the better option."]
    return "delayed", [
        *reasons,
        f"paper, findings: large, hard tasks suffer from it, which is not known to spare the domain {domain}; "
        f"hence q_max for the first {percent(EARLY)} of training.",
    ]


def about_start(at: str, setting: Setting, option: Option) -> list[str]:
    """Why this schedule of its group, and what the start of training gets."""
    early = option.schedule.mean_bits(setting.steps, EARLY)
    return [
        f"bitcycle: {TIES[at]}.",
        "critical periods: no long low precision at the start, where it does lasting damage; the same later hurts "
        f"less. The first {percent(EARLY)} of training has {early:.1f} bits in the mean; delay({EARLY}, ...) would "
        "hold q_max there. (2025 counter-evidence: a restart of the learning rate repairs most of such damage.)",
    ]
