"""Word-level language modelling: truncated back-propagation through time, SGD, gradient clipping, decay on plateau."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.official import find_official
from bitcycle.lab.data.splits import Split
from bitcycle.lab.data.text import WordData, python_reference, read_words
from bitcycle.lab.models.language_models import LSTMLanguageModel, TransformerLanguageModel
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.one_pass import OnePassTraining
from bitcycle.lab.tasks.task import ACTIVATIONS, AUTO, FinalFigures, Option, Task, Training, register_task

LENGTH = 35  # words between truncations of back-propagation


@register_task
class LanguageTask(Task):
    """Prediction of the next word of a text."""

    name = "language"
    about = "language modelling"
    metric = "perplexity"
    higher_is_better = False
    bits = (2, 8)
    steps = 400
    evaluate_every = 100
    models = BUILT_IN["language"].models
    options: ClassVar = {
        "activations": ACTIVATIONS,
        "hidden": Option(AUTO, "units of the LSTM; auto = 128 for the embedded text, else 800", kind=int),
    }
    embedded = "the English text of Python's own reference"
    official = "PTB (ptb.train.txt, ...) and WikiText (train.txt, ...) word-level files"

    def prepare(self, run: RunConfig) -> Training:
        data = read_words(find_official(run.data)) if run.data else python_reference()
        name, words = self.chosen_model(run), len(data.vocabulary)
        options = self.chosen_options(run)
        dropout = 0.5 if run.data else 0.2
        if name == "transformer":
            model: nn.Module = TransformerLanguageModel(words, 128 if not run.data else 256, dropout=dropout)
            optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        else:
            hidden = options["hidden"] or (800 if run.data else 128)
            model = LSTMLanguageModel(words, hidden, layers=2 if name == "lstm-2" else 1, dropout=dropout)
            optimizer = torch.optim.SGD(model.parameters(), 20.0)
        recipe = Recipe.paper(activations="tensor" if options["activations"] == "tensor" else "row")
        return LanguageTraining(run, data, model, optimizer, recipe)


class LanguageTraining(OnePassTraining):
    """The text is cut into columns, which are read from top to bottom; the hidden state is carried from step to step.

    The learning rate is divided by 4 whenever the validation metric does not improve. Validation always runs at q_max,
    so that the precision schedule does not influence the learning rate directly.
    """

    policy = "lstm"
    clip = 0.25

    def __init__(
        self, run: RunConfig, data: WordData, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe
    ) -> None:
        self.model, self.data, self.optimizer, self.recipe = model, data, optimizer, recipe
        self.batch = run.batch_size or 20
        self.columns = _columns(data.train, self.batch)
        self.held_out = {split: _columns(data[split], 10) for split in (Split.VALIDATION, Split.TEST)}
        self.steps_per_epoch = math.ceil((len(self.columns) - 1) / LENGTH)
        self.official = bool(run.data)
        self.carried: tuple[Tensor, ...] | None = None
        self.factor, self.best = 1.0, math.inf

    def learning_rate(self, step: int, total: int) -> float:
        return self.factor

    def evaluation_interval(self, usual: int, total: int) -> int:
        """Return one epoch for official data: the learning rate may fall after each epoch."""
        return self.steps_per_epoch if self.official else usual

    def validated(self, metric: float) -> None:
        if metric >= self.best:
            self.factor /= 4
        self.best = min(self.best, metric)

    def restarted(self) -> None:
        self.factor, self.best = 1.0, math.inf

    def step_size(self, step: int) -> float:
        """Return the share of a whole segment; the last one of an epoch is shorter."""
        position = step % self.steps_per_epoch * LENGTH
        return min(1.0, (len(self.columns) - 1 - position) / LENGTH)

    def loss(self, step: int) -> Tensor:
        position = step % self.steps_per_epoch * LENGTH
        if position == 0:
            self.carried = None
        words, following = self._segment(self.columns, position)
        logits, state = self.model(words, self.carried)
        self.carried = None if state is None else tuple(part.detach() for part in state)
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())

    @torch.no_grad()
    def figures(self, split: Split) -> FinalFigures:
        """Return the perplexity, and the mean cross entropy of each stretch of 35 words or, at the end, fewer."""
        columns = self.held_out[split]
        total, losses = 0.0, []
        for logits, following in self._outputs(columns):
            total += float(F.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="sum"))
            losses.append(F.cross_entropy(logits.movedim(2, 1), following, reduction="none").mean(0))
        perplexity = math.exp(min(total / (len(columns) - 1) / columns.shape[1], 100.0))
        return FinalFigures(perplexity, {}, torch.cat(losses))

    def example(self) -> Tensor:
        return torch.zeros(LENGTH, self.batch, dtype=torch.long, device=self.device)

    def state_dict(self) -> dict[str, Any]:
        return {"carried": self.carried, "factor": self.factor, "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.carried, self.factor, self.best = state["carried"], state["factor"], state["best"]

    def _outputs(self, columns: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the logits of each segment of a text, and the words to predict."""
        state = None
        for position in range(0, len(columns) - 1, LENGTH):
            words, following = self._segment(columns, position)
            logits, state = self.model(words, state)
            yield logits, following

    def _segment(self, columns: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Return the words from a position on, and the words that follow them."""
        length = min(LENGTH, len(columns) - 1 - position)
        words, following = columns[position : position + length], columns[position + 1 : position + 1 + length]
        return words.to(self.device), following.to(self.device)


def _columns(words: Tensor, batch: int) -> Tensor:
    """Cut a text into ``batch`` columns that are read from top to bottom: (length, batch)."""
    length = len(words) // batch
    if length < 2:
        raise DataError(f"a text of {len(words)} words cannot be cut into {batch} columns of two words or more")
    return words[: length * batch].view(batch, length).t().contiguous()
