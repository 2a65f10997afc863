"""The diagnostics during training, explained."""

from __future__ import annotations

from dataclasses import dataclass

from bitcycle.lab.runs.result import Diagnostic


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
