"""What was measured along training, in plain words.

The names are those of :mod:`bitcycle.experiments.diagnostics`; they are repeated here since that module needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """A measurement in a sentence."""

    sentence: str
    threshold: float | None = None
    """A value that divides two cases."""


MEANINGS = {
    "Fisher information": Meaning(
        "How strongly the predictions still depend on the weights: high while the network takes shape, when deficits "
        "are thought to do lasting damage."
    ),
    "gradient over noise": Meaning(
        "The size of the gradient over that of the error which rounding adds to it: below 1, rounding drowns what the "
        "gradient says.",
        1.0,
    ),
    "gradient diversity": Meaning(
        "How far the gradients of two batches disagree: 0.5 if they say the same, 1 if they have nothing in common, "
        "more if they pull against each other."
    ),
    "gradient after a change of bits": Meaning(
        "The size of the gradient at the first step on other bits over that at the step before: far from 1 where a "
        "change of precision shakes training.",
        1.0,
    ),
    "update after a change of bits": Meaning(
        "The same of the step that the optimiser takes: far from 1 where a change of precision shakes the weights.",
        1.0,
    ),
}

UNKNOWN = Meaning("")
