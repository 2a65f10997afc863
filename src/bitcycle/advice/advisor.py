"""``bc.advise``: which schedule to use."""

from __future__ import annotations

from collections.abc import Iterable

from bitcycle.advice.answer import Advice, Alternative
from bitcycle.advice.budget import checked_saving, meet
from bitcycle.advice.evidence import Evidence, advise_by_evidence
from bitcycle.advice.rules import FoundLevel, check_domain, lowest_allowed, position, scale, search_space, start_reasons
from bitcycle.schedules.base import positive

APART = 0.001
"""Schedules whose savings are closer than this are no alternatives to each other."""


def advise(
    goal: str = "balance",
    domain: str | None = None,
    steps: int = 64_000,
    fine_tuning: bool = False,
    q_max: int = 8,
    q_min: int | None = None,
    save: float | None = None,
    range_test: FoundLevel | None = None,
    records: Iterable[Evidence] | None = None,
    margin: float | None = None,
) -> Advice:
    """Recommend a schedule, and say what it saves and why.

    The saving is that of the schedule, with all products at its bits; ``bc.cost(model, inputs).saving(...)`` gives the
    saving for a model.

    Args:
        goal: ``cost``, ``balance`` or ``quality``.
        domain: ``image``, ``detection``, ``graph``, ``language`` or ``entailment``; None if none of them fits.
        steps: Number of training steps.
        fine_tuning: Whether this is a short fine-tuning run rather than training from scratch.
        q_max: The static bit-width that you would train at.
        q_min: The lowest bit-width that may be used; by default the one that the paper used in this domain.
        save: Share of the cost of static q_max to save, such as 0.4; replaces the goal.
        range_test: Result of ``bc.range_test``; sets ``q_min``.
        records: Your own runs of one task, as :class:`Evidence` or any objects with its four attributes. They replace
            the paper's rules: the answer is the cheapest setting that is as good as static q_max, by the test of
            :func:`~bitcycle.advice.non_inferiority.non_inferiority`. A ``q_min`` that is given or found still applies.
        margin: With records, the loss of quality that is still acceptable, as an absolute difference in the metric's
            units; by default 1 % of the baseline's mean metric.

    Returns:
        The schedule with its saving, its reasons, and the alternatives on both sides of it.

    Raises:
        ValueError: If the question is not valid, or if no schedule meets the budget.

    Example:
        >>> advice = advise(goal="cost", domain="graph")
        >>> advice.spec, round(advice.saving, 3), advice.better.spec
        ('RTH:3-8:cycles=8', 0.601, 'delay(0.1, RTH:3-8:cycles=8)')
        >>> print(advise(save=0.4, q_min=3).spec)
        delay(0.334, RTH:3-8:cycles=8)
    """
    check_domain(domain)
    at, reasons = position(goal, domain)
    if records is not None:
        return advise_by_evidence(
            records,
            positive(steps, "the number of steps"),
            positive(q_max, "q_max"),
            save=None if save is None else checked_saving(save),
            lowest=lowest_allowed(q_min, range_test),
            margin=margin,
        )
    if margin is not None:
        raise ValueError(f"margin applies to records of your own runs only, got margin={margin!r} without records")
    space = search_space(domain, steps, fine_tuning, q_max, q_min, range_test)
    alternatives = scale(space)
    if save is None:
        chosen = alternatives[at]
        reasons += start_reasons(at, space, chosen)
    else:
        solution = meet(save, space)
        chosen = Alternative(solution.schedule, solution.saving, "")
        reasons = list(solution.reasons)
    cheaper = [each for each in alternatives.values() if each.saving > chosen.saving + APART]
    better = [each for each in alternatives.values() if each.saving < chosen.saving - APART]
    return Advice(
        chosen.schedule,
        chosen.saving,
        [*reasons, *space.reasons],
        min(cheaper, key=lambda each: each.saving, default=None),
        max(better, key=lambda each: each.saving, default=None),
        space.steps,
        space.q_max,
    )
