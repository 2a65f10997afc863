"""Word-level text: the prose of Python's language reference (embedded), and the files of PTB and WikiText."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bitcycle.lab.data.files import DataError, existing_folder, lines_of, required_file
from bitcycle.lab.data.splits import Splits

UNKNOWN, END = "<unk>", "<eos>"
_MAX_VOCABULARY = 2200
_SHARES = (0.8, 0.1, 0.1)  # of training, validation and test
_WORD = re.compile(r"[a-z_][a-z_0-9]*(?:'[a-z]+)?|\d+|[^\w\s\"*]")  # quotes and asterisks are markup

Paragraph = tuple[str, ...]
_FILE_NAMES = (  # training, validation and test
    tuple(f"ptb.{part}.txt" for part in ("train", "valid", "test")),
    tuple(f"wiki.{part}.tokens" for part in ("train", "valid", "test")),
    ("train.txt", "valid.txt", "test.txt"),
)
_EXPECTED = "ptb.train.txt, wiki.train.tokens or train.txt, and the valid and test files of the same kind"


@dataclass(frozen=True)
class WordData(Splits[Tensor]):
    """A text in three splits, as word ids (int64)."""

    name: str
    vocabulary: tuple[str, ...]
    """The word of each id."""
    train: Tensor
    validation: Tensor
    test: Tensor


def python_reference() -> WordData:
    """Return the English prose of Python's language reference, as ``help()`` shows it; paragraphs end with `<eos>`.

    A topic belongs to one split as a whole, and a paragraph that several topics share is kept only in the first of
    them, so that no paragraph of the test set is in the training set. The text differs slightly between Python
    versions.

    >>> data = python_reference()
    >>> data.vocabulary[:2], data.train.dtype, len(data.train) > 7 * len(data.test)
    (('<unk>', '<eos>'), torch.int64, True)
    """
    splits = _paragraphs_by_split()
    vocabulary = build_vocabulary(splits[0])
    number = {word: index for index, word in enumerate(vocabulary)}
    unknown = number[UNKNOWN]
    ids = (torch.tensor([number.get(word, unknown) for line in lines for word in (*line, END)]) for lines in splits)
    return WordData("python-reference", vocabulary, *ids)


def read_words(folder: str | Path) -> WordData:
    """Read the word-level files of PTB or WikiText.

    Words are separated by spaces, and every line ends with `<eos>`. The vocabulary has the words of the training file
    in the order of first appearance; other words are `<unk>`. ``len(read_words("ptb").vocabulary)`` is 10,000 and
    ``len(read_words("wikitext-2").vocabulary)`` is 33,278.

    Raises:
        DataError: If a file is missing, empty or not text.
    """
    path = existing_folder(folder, _EXPECTED)
    file_names = next((names for names in _FILE_NAMES if (path / names[0]).is_file()), None)
    if file_names is None:
        raise DataError(f"{path}: no word-level text was recognised; it should hold {_EXPECTED}")
    files = [required_file(path, name) for name in file_names]
    number: dict[str, int] = {}
    train = _read_ids(files[0], number, grow=True)
    number.setdefault(UNKNOWN, len(number))
    validation, test = (_read_ids(file, number, grow=False) for file in files[1:])
    return WordData(path.absolute().name, tuple(number), train, validation, test)


def _read_ids(path: Path, number: dict[str, int], grow: bool) -> Tensor:
    """Return a file as word ids; new words are added to the vocabulary if it may grow."""
    ids, words = array("q"), 0  # an array, so that the hundred million words of WikiText-103 fit into memory
    for line in lines_of(path):
        tokens = line.split()
        words += len(tokens)
        if grow:
            ids.extend(number.setdefault(word, len(number)) for word in (*tokens, END))
        else:
            ids.extend(number.get(word, number[UNKNOWN]) for word in (*tokens, END))
    if not words:
        raise DataError(f"{path}: holds no words; it should hold lines of words separated by spaces")
    return torch.from_numpy(np.frombuffer(ids, np.int64).copy())


def _paragraphs_by_split() -> tuple[list[Paragraph], list[Paragraph], list[Paragraph]]:
    """Return the paragraphs for training, validation and test: whole topics, about 80 %, 10 % and 10 % of the words."""
    topics = _prose_by_topic()
    splits: tuple[list[str], ...] = ([], [], [])
    total = sum(_size(lines) for lines in topics.values())
    room = [share * total for share in _SHARES]
    for topic in sorted(topics, key=lambda topic: (-_size(topics[topic]), topic)):  # largest first, to fill evenly
        emptiest = max(range(3), key=lambda split: room[split])
        splits[emptiest].append(topic)
        room[emptiest] -= _size(topics[topic])
    train, validation, test = ([line for topic in sorted(split) for line in topics[topic]] for split in splits)
    return train, validation, test


def build_vocabulary(paragraphs: list[Paragraph]) -> tuple[str, ...]:
    """Return `<unk>`, `<eos>` and the frequent words, in the order of first appearance.

    The minimum frequency is the smallest one, from 2 on, that gives no more than 2,200 words.
    """
    counts = Counter(word for line in paragraphs for word in line)
    for minimum in count(2):
        words = [word for word, times in counts.items() if times >= minimum]
        if len(words) <= _MAX_VOCABULARY:
            break
    return (UNKNOWN, END, *words)


def split_words(text: str) -> Paragraph:
    """Split a text into words, numbers and punctuation marks, in lower case.

    >>> split_words("The *while* statement isn't new.")
    ('the', 'while', 'statement', "isn't", 'new', '.')
    """
    return tuple(_WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")))


def _prose_by_topic() -> dict[str, list[Paragraph]]:
    """Return the paragraphs of prose by topic, each paragraph only in the first topic that has it."""
    from pydoc_data.topics import topics  # half a megabyte, loaded only when it is used

    seen: set[Paragraph] = set()
    prose: dict[str, list[Paragraph]] = {}
    for topic in sorted(topics):
        prose[topic] = []
        for paragraph in re.split(r"\n\s*\n", topics[topic]):
            words = split_words(paragraph)
            if _is_prose(words) and words not in seen:
                seen.add(words)
                prose[topic].append(words)
    return prose


def _is_prose(words: Paragraph) -> bool:
    """Return whether more than half of the tokens are words, unlike in most code and grammar."""
    return len(words) > 4 and sum(word[0].isalpha() for word in words) > 0.5 * len(words)


def _size(paragraphs: list[Paragraph]) -> int:
    return sum(len(line) for line in paragraphs)
