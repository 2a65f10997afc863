"""The granularity of activations in tasks over tokens: an option of theirs."""

from __future__ import annotations

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.lab.tasks.options import Option

AUTO, TENSOR = "auto", "tensor"

ACTIVATIONS = Option(
    AUTO,
    "one grid per token (auto), so that neither later words nor other samples change a prediction, or one grid for the "
    "activations of a tensor, as in the paper",
    (AUTO, TENSOR),
)


def recipe_of(options: dict[str, str]) -> Recipe:
    """Return the recipe that the task's option ``activations`` asks for.

    >>> recipe_of({"activations": "auto"}).activations
    'row'
    """
    return Recipe(activations="tensor" if options["activations"] == TENSOR else "row")
