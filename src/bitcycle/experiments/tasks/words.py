"""Pairs of sentences as the inputs of a BERT-style encoder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from bitcycle.experiments.models.pretrained_encoder import pretrained_tokenizer

PAD, UNKNOWN, BEGIN, BETWEEN = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


class Words:
    """Whole words: a vocabulary of those that occur at least twice.

    Positions are counted anew in the second text: so a small encoder soon finds what stands in the same place of both.

    >>> words = Words(["all cats sleep", "all dogs sleep"])
    >>> inputs = words([("all cats", "sleep")], 16)
    >>> len(words), inputs["input_ids"].tolist(), inputs["position_ids"].tolist()
    (6, [[2, 4, 1, 3, 5, 3]], [[0, 1, 2, 3, 1, 2]])
    """

    pad = 0

    def __init__(self, texts: Iterable[str], most: int = 30_000) -> None:
        counts = Counter(word for text in texts for word in _split(text))
        kept = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
        self._numbers = {word: n for n, word in enumerate([PAD, UNKNOWN, BEGIN, BETWEEN, *kept[:most]])}

    def __len__(self) -> int:
        return len(self._numbers)

    def __call__(self, pairs: list[tuple[str, str]], longest: int) -> dict[str, Tensor]:
        """Numbers, segments, positions and mask of pairs, padded to the longest of them."""
        rows, segments, positions = [], [], []
        for first, second in pairs:
            a = [BEGIN, *_split(first), BETWEEN]
            b = [*_split(second), BETWEEN]
            rows.append([self._numbers.get(word, 1) for word in (*a, *b)][:longest])
            segments.append([0] * len(a) + [1] * len(b))
            positions.append([*range(len(a)), *range(1, len(b) + 1)])
        length = max(map(len, rows))

        def padded(lists: list[list[int]], filling: int) -> Tensor:
            return torch.tensor([(numbers + [filling] * length)[:length] for numbers in lists])

        return {
            "input_ids": padded(rows, self.pad),
            "token_type_ids": padded(segments, 0),
            "position_ids": padded(positions, 0),
            "attention_mask": padded([[1] * len(row) for row in rows], 0),
        }


class WordPieces:
    """The tokenizer of a pretrained model, from its folder."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = pretrained_tokenizer(folder)

    def __call__(self, pairs: list[tuple[str, str]], longest: int) -> dict[str, Tensor]:
        """The same for pieces of words."""
        first, second = zip(*pairs, strict=True)
        return dict(
            self._tokenizer(
                list(first), list(second), padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
        )


def _split(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())
