"""``bc.advise``: which schedule to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bitcycle._support.names import nearest
from bitcycle.lab.advice.answer import Advice, ModelSaving, Reason, TrainingSettings
from bitcycle.lab.advice.records import RunRecord, advise_by_records
from bitcycle.lab.advice.rules import CYCLIC, DOMAINS, GOALS, SearchSpace, choose, meet, scale, search_space
from bitcycle.schedules.base import validate_integer, validate_steps

if TYPE_CHECKING:
    from torch import nn

    from bitcycle import Cost, RangeTestResult

DEFAULT_STEPS = 64_000
"""Training steps of the paper on CIFAR."""
MIN_DIFFERENCE = 0.001
"""Schedules whose savings are closer than this are no alternatives to each other."""


def advise(
    goal: str = "balance",
    domain: str | None = None,
    steps: int | None = None,
    fine_tuning: bool = False,
    q_max: int = 8,
    q_min: int | None = None,
    save: float | None = None,
    range_test: RangeTestResult | None = None,
    records: Iterable[RunRecord] | None = None,
    margin: float | None = None,
    model: nn.Module | None = None,
    inputs: Any = None,
) -> Advice:
    """Recommend a schedule, and say what it saves and on which rules that rests.

    The saving is that of the schedule, with all products at its bits. If a model is given, the answer also says what
    the schedule saves in the training of that model, in which some products stay in full precision.

    Args:
        goal: ``cost``, ``balance`` or ``quality``; with records, ``margin`` takes its place.
        domain: ``image``, ``detection``, ``graph``, ``language`` or ``entailment``; None if none of them fits.
        steps: Number of training steps. By default savings are those of 64,000 steps, and the code of the answer has
            ``total_steps`` as a variable.
        fine_tuning: Whether this is a short fine-tuning run rather than training from scratch.
        q_max: The static bit-width that you would train at.
        q_min: The lowest bit-width that may be used; by default the one that the paper used in this domain.
        save: Share of the cost of static q_max to save, such as 0.4; replaces the goal.
        range_test: Result of ``bc.range_test``; sets ``q_min``.
        records: Your own runs of one task, as :class:`RunRecord` or any objects with its first four attributes. They
            replace the paper's rules: the answer is the cheapest setting that is as good as static q_max, by the test
            of :func:`~bitcycle.lab.judging.non_inferiority`. A ``q_min`` that is given or found still applies.
        margin: With records, the loss of quality that is still acceptable, as an absolute difference in the metric's
            units; by default 1 % of the baseline's mean metric.
        model: A float or converted model. It runs once, see ``bc.cost``. A float model counts as after
            ``bc.quantize(model)``.
        inputs: Inputs of one training step of the model: a tensor, a tuple of arguments, or a dict of keywords.

    Returns:
        The schedule with its saving, the rules it rests on, and the alternatives on both sides of it.

    Raises:
        ValueError: If the question is not valid, if another goal than ``balance`` is given with records, if no schedule
            meets the budget, or if only one of ``model`` and ``inputs`` is given.

    Example:
        >>> advice = advise(goal="quality", domain="graph")
        >>> advice.spec, round(advice.saving, 3), advice.better.spec
        ('ETH:3-8:cycles=8', 0.178, 'static:8')
        >>> advise(save=0.4, q_min=3).saving >= 0.4
        True
    """
    if (model is None) != (inputs is None):
        raise ValueError("advice for a model needs both model and inputs")
    for kind, name, known in (("domain", domain, DOMAINS), ("goal", goal, GOALS)):
        if name not in known and (kind, name) != ("domain", None):
            raise ValueError(f"unknown {kind} {name!r}; {nearest(str(name), known)}")
    total = validate_steps(DEFAULT_STEPS if steps is None else steps, "the number of steps")
    q_max = validate_integer(q_max, "q_max")
    if save is not None and not (isinstance(save, (int, float)) and 0 < save < 1):
        raise ValueError(f"save must be a share of the cost above 0 and below 1, such as 0.4 for 40 %, got {save!r}")
    lowest = _given_q_min(q_min, range_test)
    if records is not None:
        if goal != "balance":
            raise ValueError(
                f"the goal {goal!r} is for advice without records: with your own runs the answer is the cheapest "
                "setting that is as good as the baseline; margin and save set how good and how cheap"
            )
        advice = advise_by_records(records, total, q_max, save, lowest and lowest[0], margin)
    elif margin is not None:
        raise ValueError(f"margin applies to records of your own runs only, got margin={margin!r} without records")
    else:
        advice = _advise_by_rules(goal, domain, search_space(domain, total, fine_tuning, q_max, lowest), save)
    advice = replace(advice, steps_given=steps is not None)
    if model is None:
        return advice
    from bitcycle import cost  # loads torch, which advice without a model does not need

    return replace(advice, model=saving_of_model(advice, cost(model, inputs)))


def saving_of_model(advice: Advice, cost: Cost) -> ModelSaving:
    """Return what the schedule of an advice saves in the training of a model with this cost."""
    settings = advice.settings
    operands: dict[str, Any] = dict(settings.operands)
    priced = replace(cost, grid=settings.recipe["grid"]) if "grid" in settings.recipe else cost
    against = f"static:{advice.q_max}"
    total = cost.macs or 1
    in_full: Counter[str] = Counter()
    for row in cost.rows:
        if not row.quantized:
            in_full[f"{row.name or 'the model itself'} ({row.layer})"] += row.macs
    largest, macs = max(in_full.items(), key=lambda part: part[1], default=(None, 0))
    return ModelSaving(
        priced.saving(advice.schedule, advice.steps, settings.backward_bits, against=against, **operands),
        sum(row.macs for row in cost.rows if row.quantized) / total,
        largest,
        macs / total,
        list(cost.uncounted),
    )


def _given_q_min(q_min: int | None, range_test: RangeTestResult | None) -> tuple[int, Reason] | None:
    """Return a q_min that is given or found by a range test, with where it comes from."""
    if q_min is not None and range_test is not None:
        raise ValueError("q_min is given twice: by q_min and by range_test; give only one of them")
    if range_test is not None:
        if range_test.q_min is None:
            raise ValueError(f"the range test found no q_min, so there is nothing to advise: {range_test.reason}")
        return range_test.q_min, Reason("range test", f"q_min is {range_test.q_min} bits. {range_test.reason}")
    if q_min is not None:
        return validate_integer(q_min, "q_min"), Reason("given", f"q_min is {q_min} bits")
    return None


def _advise_by_rules(goal: str, domain: str | None, space: SearchSpace, save: float | None) -> Advice:
    options = scale(space, domain)
    if save is None:
        name, reasons = choose(goal, domain, options)
        chosen, saving = options[name].schedule, options[name].saving
        reasons += [space.about_cycles] if name in CYCLIC else []
    else:
        chosen, reasons = meet(save, space, domain)
        saving = space.saving(chosen)
    cheaper = [each for each in options.values() if each.saving > saving + MIN_DIFFERENCE]
    better = [each for each in options.values() if each.saving < saving - MIN_DIFFERENCE]
    return Advice(
        chosen,
        saving,
        [*reasons, *space.about_bits],
        min(cheaper, key=lambda each: each.saving, default=None),
        max(better, key=lambda each: each.saving, default=None),
        space.steps,
        space.q_max,
        TrainingSettings(space.q_max),
    )
