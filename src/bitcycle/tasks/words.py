"""Pairs of sentences as the inputs of a BERT-style encoder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from bitcycle.extras import need

PAD, UNKNOWN, BEGIN, BETWEEN = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


class Words:
    """Whole words: a vocabulary of those that occur at least twice.

    >>> words = Words(["all cats sleep", "all dogs sleep"])
    >>> len(words), words([("all cats", "sleep")], 16)["input_ids"].tolist()
    (6, [[2, 4, 1, 3, 5, 3]])
    """

    pad = 0

    def __init__(self, texts: Iterable[str], most: int = 30_000) -> None:
        counts = Counter(word for text in texts for word in _split(text))
        kept = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
        self._numbers = {word: n for n, word in enumerate([PAD, UNKNOWN, BEGIN, BETWEEN, *kept[:most]])}

    def __len__(self) -> int:
        return len(self._numbers)

    def __call__(self, pairs: list[tuple[str, str]], longest: int) -> dict[str, Tensor]:
        """Numbers, segments and mask of pairs, padded to the longest of them."""
        rows, segments = [], []
        for first, second in pairs:
            a = [BEGIN, *_split(first), BETWEEN]
            b = [*_split(second), BETWEEN]
            rows.append([self._numbers.get(word, 1) for word in (*a, *b)][:longest])
            segments.append([0] * len(a) + [1] * len(b))
        length = max(map(len, rows))
        return {
            "input_ids": torch.tensor([row + [self.pad] * (length - len(row)) for row in rows]),
            "token_type_ids": torch.tensor([(s + [0] * length)[:length] for s in segments]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows]),
        }


class WordPieces:
    """The tokenizer of a pretrained model, from its folder."""

    def __init__(self, folder: str) -> None:
        transformers = need("transformers", "text", "a pretrained model")
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

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
