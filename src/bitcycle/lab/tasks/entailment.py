"""Natural language inference with a BERT-style encoder, trained from scratch or pretrained."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bitcycle._support.extras import need
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.natural_logic import natural_logic
from bitcycle.lab.data.official import find_official
from bitcycle.lab.data.sentence_pairs import Pair, PairData, read_pairs
from bitcycle.lab.data.splits import Split
from bitcycle.lab.models.pretrained_encoder import pretrained_encoder, pretrained_tokenizer
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.batches import Batches
from bitcycle.lab.tasks.one_pass import OnePassTraining, classification_figures
from bitcycle.lab.tasks.task import ACTIVATIONS, AUTO, FinalFigures, Option, Task, Training, register_task

MAX_LENGTH = 128  # tokens
SIZES = {"bert-tiny": (64, 2, 2e-3), "bert-mini": (128, 4, 1e-3)}
"""Width, number of layers, and learning rate."""
PAD, UNKNOWN, START, SEPARATOR = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


@register_task
class EntailmentTask(Task):
    """Classification of sentence pairs: entailment, neutral or contradiction."""

    name = "entailment"
    about = "natural language inference"
    metric = "accuracy"
    bits = (3, 8)
    cycles = 2
    steps = 300
    evaluate_every = 75
    models = BUILT_IN["entailment"].models
    options: ClassVar = {
        "activations": ACTIVATIONS,
        "rate": Option(AUTO, "learning rate; auto = 1e-5 for a pretrained model, else set by its size", kind=float),
        "validation": Option(AUTO, "number of validation pairs that are used; auto = all", kind=int),
        "test": Option(AUTO, "number of test pairs that are used; auto = all", kind=int),
    }
    embedded = "sentences with labels from a small natural-logic generator"
    official = "XNLI, SNLI, GLUE (RTE, MNLI) tsv and jsonl"

    def chosen_model(self, run: RunConfig) -> str:
        """Return the name of a size, or a folder with a pretrained model (config.json, safetensors, tokenizer)."""
        return run.model if Path(run.model).is_dir() and run.model else super().chosen_model(run)

    def prepare(self, run: RunConfig) -> Training:
        data = read_pairs(find_official(run.data)) if run.data else natural_logic()
        transformers = need("transformers", "text", "the entailment task")
        name, options = self.chosen_model(run), self.chosen_options(run)
        recipe = Recipe.paper(activations="tensor" if options["activations"] == "tensor" else "row")
        data = replace(data, validation=data.validation[: options["validation"]], test=data.test[: options["test"]])
        if Path(name).is_dir():
            pretrained = pretrained_encoder(name, len(data.labels))
            tokenizer = PretrainedTokenizer(name)
            return EntailmentTraining(run, data, pretrained, tokenizer, options["rate"] or 1e-5, recipe)
        words = WordTokenizer(text for pair in data.train for text in (pair.premise, pair.hypothesis))
        width, layers, rate = SIZES[name]
        dropout = 0.1 if run.data else 0.0  # generated pairs have no label noise to overfit
        config = transformers.BertConfig(
            vocab_size=len(words),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=8,
            intermediate_size=2 * width,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            # BERT's own 0.02 suits a width of 768; in a narrow encoder it keeps attention uniform for many steps.
            initializer_range=width**-0.5,
            max_position_embeddings=MAX_LENGTH,
            num_labels=len(data.labels),
            pad_token_id=words.pad,
        )
        model = transformers.BertForSequenceClassification(config)
        return EntailmentTraining(run, data, model, words, options["rate"] or rate, recipe)


class EntailmentTraining(OnePassTraining):
    """AdamW; the learning rate rises linearly over the first tenth of training and then falls linearly."""

    policy = "bert"
    clip = 1.0

    def __init__(
        self,
        run: RunConfig,
        data: PairData,
        model: nn.Module,
        tokenizer: WordTokenizer | PretrainedTokenizer,
        rate: float,
        recipe: Recipe,
    ) -> None:
        self.model, self.data, self.tokenizer, self.recipe = model, data, tokenizer, recipe
        config: Any = model.config
        self.max_length = min(MAX_LENGTH, config.max_position_embeddings)
        self.optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
        self.batch = run.batch_size or 64
        self.batches = Batches(len(data.train), self.batch, run.seed)
        self.steps_per_epoch = self.batches.per_epoch

    def learning_rate(self, step: int, total: int) -> float:
        warm_up = max(1, total // 10)
        return min((step + 1) / warm_up, (total - step) / max(1, total - warm_up))

    def loss(self, step: int) -> Tensor:
        return nn.functional.cross_entropy(*self._output([self.data.train[row] for row in self.batches(step).tolist()]))

    @torch.no_grad()
    def figures(self, split: Split) -> FinalFigures:
        """Return the accuracy and the cross entropy of each pair."""
        return classification_figures(self._outputs(split))

    def example(self) -> dict[str, Tensor]:
        return self._inputs(self.data.train[: self.batch])

    def _outputs(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits and labels in batches."""
        pairs = self.data[split]
        for start in range(0, len(pairs), 256):
            yield self._output(pairs[start : start + 256])

    def _output(self, pairs: list[Pair]) -> tuple[Tensor, Tensor]:
        labels = torch.tensor([pair.label for pair in pairs], device=self.device)
        return self.model(**self._inputs(pairs)).logits, labels

    def _inputs(self, pairs: list[Pair]) -> dict[str, Any]:
        encoded = self.tokenizer([(pair.premise, pair.hypothesis) for pair in pairs], self.max_length)
        return {name: tensor.to(self.device) for name, tensor in encoded.items()}


class WordTokenizer:
    """Tokens are whole words. The vocabulary has the words that occur at least twice.

    Positions start again in the second text, which helps a small encoder to compare the two.

    Args:
        texts: The training texts.
        max_words: The largest number of words in the vocabulary.

    >>> tokenizer = WordTokenizer(["all cats sleep", "all dogs sleep"])
    >>> inputs = tokenizer([("all cats", "sleep")], 16)
    >>> len(tokenizer), inputs["input_ids"].tolist(), inputs["position_ids"].tolist()
    (6, [[2, 4, 1, 3, 5, 3]], [[0, 1, 2, 3, 1, 2]])
    """

    pad = 0

    def __init__(self, texts: Iterable[str], max_words: int = 30_000) -> None:
        counts = Counter(word for text in texts for word in _split(text))
        kept = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
        self._ids = {word: index for index, word in enumerate([PAD, UNKNOWN, START, SEPARATOR, *kept[:max_words]])}

    def __len__(self) -> int:
        return len(self._ids)

    def __call__(self, pairs: list[tuple[str, str]], max_length: int) -> dict[str, Tensor]:
        """Return token ids, segments, positions and attention mask, padded to the longest pair."""
        rows, segments, positions = [], [], []
        for first, second in pairs:
            a = [START, *_split(first), SEPARATOR]
            b = [*_split(second), SEPARATOR]
            rows.append([self._ids.get(word, 1) for word in (*a, *b)][:max_length])
            segments.append([0] * len(a) + [1] * len(b))
            positions.append([*range(len(a)), *range(1, len(b) + 1)])
        length = max(map(len, rows))

        def padded(lists: list[list[int]], value: int) -> Tensor:
            return torch.tensor([(numbers + [value] * length)[:length] for numbers in lists])

        return {
            "input_ids": padded(rows, self.pad),
            "token_type_ids": padded(segments, 0),
            "position_ids": padded(positions, 0),
            "attention_mask": padded([[1] * len(row) for row in rows], 0),
        }


class PretrainedTokenizer:
    """The tokenizer of a pretrained model, read from the model's folder."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = pretrained_tokenizer(folder)

    def __call__(self, pairs: list[tuple[str, str]], max_length: int) -> dict[str, Tensor]:
        """Return the inputs of the model, padded to the longest pair."""
        first, second = zip(*pairs, strict=True)
        return dict(
            self._tokenizer(
                list(first), list(second), padding=True, truncation=True, max_length=max_length, return_tensors="pt"
            )
        )


def _split(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())
