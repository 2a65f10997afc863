"""Tokenizers that turn sentence pairs into the inputs of a BERT-style encoder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from bitcycle.lab.models.pretrained_encoder import pretrained_tokenizer

PAD, UNKNOWN, START, SEPARATOR = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


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
