"""Training whose metric and losses come from one pass through the data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from bitcycle.lab.data.splits import Split
from bitcycle.lab.tasks.task import FinalFigures, Training


class OnePassTraining(Training):
    """A prepared task that computes everything about a split at once."""

    @abstractmethod
    def figures(self, split: Split) -> FinalFigures:
        """Return the metric and the loss of each example."""

    def evaluate(self, split: Split) -> float:
        return self.figures(split).metric

    def test(self) -> FinalFigures:
        return self.figures(Split.TEST)

    def example_losses(self, split: Split) -> Tensor | None:
        return self.figures(split).losses


def classification_figures(outputs: Iterable[tuple[Tensor, Tensor]]) -> FinalFigures:
    """Return accuracy and cross entropies from logits and labels in batches, in one pass.

    >>> figures = classification_figures([(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1]))])
    >>> figures.metric, [round(float(loss), 4) for loss in figures.losses]
    (0.5, [0.3133, 2.1269])
    """
    correct, losses = 0, []
    for logits, labels in outputs:
        correct += int((logits.argmax(1) == labels).sum())
        losses.append(nn.functional.cross_entropy(logits, labels, reduction="none"))
    all_losses = torch.cat(losses)
    return FinalFigures(correct / len(all_losses), {}, all_losses)
