"""The terms of a report and the diagnostics during training, explained."""

from __future__ import annotations

from dataclasses import dataclass

from bitcycle.lab.runs.result import Diagnostic

GENERAL = (
    ("bits", "the width of the integer grid on which the products of a model are computed"),
    ("schedule", "the number of bits at each step of training"),
    ("95 % interval", "the range of plausible values of the mean, from resampling the seeds; it needs several seeds"),
)
OF_SCHEDULES = (
    ("cost", "effective BitOps: multiply-accumulates times the bits of both operands, forward and backward"),
    ("saving", "the share of the baseline's cost that a schedule avoids"),
    ("saving group", "large, medium or small: which third of the possible saving between the two widths is reached"),
    ("static", "the same bits at every step; the baseline is static at the largest width"),
    ("Pareto front", "the settings that no other setting beats in both cost and quality"),
)
OF_DEFICITS = (
    ("deficit", "a stretch of training held at low precision, to probe critical learning periods"),
    ("normal run", "the training at the larger width that follows or surrounds a deficit; also a unit of length"),
    ("control", "the 'longer' arm: the same steps and learning rates as held, without a deficit"),
)


@dataclass(frozen=True)
class Explanation:
    """A quantity measured during training, explained in a sentence."""

    sentence: str = ""
    threshold: float | None = None
    """A value that separates two cases."""


DIAGNOSTICS: dict[str, Explanation] = {
    Diagnostic.FISHER_INFORMATION: Explanation(
        "How strongly the predictions depend on the weights: high while the network takes shape, when deficits are "
        "thought to do lasting damage."
    ),
    Diagnostic.GRADIENT_OVER_NOISE: Explanation(
        "The norm of the gradient divided by the norm of its rounding error: below 1, rounding error dominates.", 1.0
    ),
    Diagnostic.GRADIENT_DIVERSITY: Explanation(
        "How far the gradients of two batches disagree: 0.5 if they are equal, 1 if they are orthogonal, more if they "
        "point in opposite directions."
    ),
    Diagnostic.GRADIENT_AFTER_CHANGE: Explanation(
        "The norm of the gradient at the first step after a change of bits divided by that at the step before: far "
        "from 1 where a change of precision disturbs training.",
        1.0,
    ),
    Diagnostic.UPDATE_AFTER_CHANGE: Explanation(
        "The same ratio for the optimiser's update: far from 1 where a change of precision disturbs the weights.", 1.0
    ),
}
