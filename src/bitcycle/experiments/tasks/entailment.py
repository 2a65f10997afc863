"""Entailment: does one sentence follow from another? A BERT-style encoder, from a configuration or pretrained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._support.extras import need
from bitcycle.experiments.data.entailment import Pair, PairData, read_pairs
from bitcycle.experiments.data.natural_logic import natural_logic
from bitcycle.experiments.data.official import find_official
from bitcycle.experiments.models.pretrained_encoder import pretrained_encoder
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks.task import Batches, Task, Training, register_task
from bitcycle.experiments.tasks.words import WordPieces, Words

LONGEST = 128
SIZES = {"bert-tiny": (64, 2, 2e-3), "bert-mini": (128, 4, 1e-3)}
"""Width, layers and learning rate."""


@register_task
class EntailmentTask(Task):
    """Pairs of sentences: entailment, neutral or contradiction."""

    name = "entailment"
    about = "natural language inference"
    metric = "accuracy"
    bits = (3, 8)
    cycles = 2
    steps = 300
    evaluate_every = 75
    models = tuple(SIZES)
    embedded = "sentences with labels from a small natural-logic generator"
    official = "XNLI, SNLI, GLUE (RTE, MNLI) tsv and jsonl"

    def chosen_model(self, run: RunConfig) -> str:
        """One of the named sizes, or a folder with a pretrained model (config.json, safetensors, tokenizer)."""
        return run.model if Path(run.model).is_dir() and run.model else super().chosen_model(run)

    def prepare(self, run: RunConfig) -> Training:
        data = read_pairs(find_official(run.data)) if run.data else natural_logic()
        transformers = need("transformers", "text", "the entailment task")
        name = self.chosen_model(run)
        if Path(name).is_dir():
            pretrained = pretrained_encoder(name, len(data.labels))
            return EntailmentTraining(run, data, pretrained, WordPieces(name), rate=1e-5)
        words = Words(text for pair in data.train for text in (pair.premise, pair.hypothesis))
        width, layers, rate = SIZES[name]
        dropout = 0.1 if run.data else 0.0  # generated pairs have no noise to be fitted to
        config = transformers.BertConfig(
            vocab_size=len(words),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=8,
            intermediate_size=2 * width,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            # BERT's own 0.02 is made for a width of 768: with it attention in a narrow one is uniform for long.
            initializer_range=width**-0.5,
            max_position_embeddings=LONGEST,
            num_labels=len(data.labels),
            pad_token_id=words.pad,
        )
        return EntailmentTraining(run, data, transformers.BertForSequenceClassification(config), words, rate)


class EntailmentTraining(Training):
    """AdamW with a linear warm-up over a tenth of training and a linear fall after it."""

    policy = "bert"
    clip = 1.0

    def __init__(
        self, run: RunConfig, data: PairData, model: nn.Module, words: Words | WordPieces, rate: float
    ) -> None:
        self.model, self.data, self.words = model, data, words
        config: Any = model.config
        self.longest = min(LONGEST, config.max_position_embeddings)
        self.optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
        self.batch = run.batch_size or 64
        self.batches = Batches(len(data.train), self.batch, run.seed)
        self.steps_per_epoch = self.batches.per_epoch

    def learning_rate(self, step: int, total: int) -> float:
        warm = max(1, total // 10)
        return min((step + 1) / warm, (total - step) / max(1, total - warm))

    def loss(self, step: int) -> Tensor:
        pairs = [self.data.train[row] for row in self.batches(step).tolist()]
        labels = torch.tensor([pair.label for pair in pairs], device=self.device)
        return nn.functional.cross_entropy(self.model(**self._inputs(pairs)).logits, labels)

    @torch.no_grad()
    def evaluate(self, part: str) -> float:
        pairs: list[Pair] = getattr(self.data, part)
        right = 0
        for start in range(0, len(pairs), 256):
            some = pairs[start : start + 256]
            found = self.model(**self._inputs(some)).logits.argmax(1).tolist()
            right += sum(label == pair.label for label, pair in zip(found, some, strict=True))
        return right / len(pairs)

    def example(self) -> dict[str, Tensor]:
        return self._inputs(self.data.train[: self.batch])

    def _inputs(self, pairs: list[Pair]) -> dict[str, Any]:
        encoded = self.words([(pair.premise, pair.hypothesis) for pair in pairs], self.longest)
        return {name: tensor.to(self.device) for name, tensor in encoded.items()}
