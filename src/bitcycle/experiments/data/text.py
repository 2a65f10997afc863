"""Word-level text: the prose of Python's own reference, and the files of PTB and WikiText."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import existing_folder, lines_of, required
from bitcycle.experiments.data.reference_text import END, UNKNOWN, paragraphs_of_parts, words_of_vocabulary

__all__ = ["WordData", "python_reference", "read_words"]

_LAYOUTS = (  # the names of the three files
    tuple(f"ptb.{part}.txt" for part in ("train", "valid", "test")),
    tuple(f"wiki.{part}.tokens" for part in ("train", "valid", "test")),
    ("train.txt", "valid.txt", "test.txt"),
)
_HOLDS = "ptb.train.txt, wiki.train.tokens or train.txt, each with its valid and test beside it"


@dataclass(frozen=True)
class WordData:
    """A text as numbers of words, int64, in three parts; the vocabulary gives the word of a number."""

    name: str
    vocabulary: tuple[str, ...]
    train: Tensor
    validation: Tensor
    test: Tensor


def python_reference() -> WordData:
    """The English prose of Python's language reference, as `help()` shows it; a paragraph is a line.

    Whole topics go to one part, and a paragraph that several topics share is kept in the first of them alone, so
    nothing of the test text is in the training text. The text differs a little from one Python version to the next.

    >>> data = python_reference()
    >>> data.vocabulary[:2], data.train.dtype, len(data.train) > 7 * len(data.test)
    (('<unk>', '<eos>'), torch.int64, True)
    """
    parts = paragraphs_of_parts()
    vocabulary = words_of_vocabulary(parts[0])
    number = {word: place for place, word in enumerate(vocabulary)}
    unknown = number[UNKNOWN]
    ids = (torch.tensor([number.get(word, unknown) for line in lines for word in (*line, END)]) for lines in parts)
    return WordData("python-reference", vocabulary, *ids)


def read_words(folder: str | Path) -> WordData:
    """Read the word-level files of PTB or WikiText: words between spaces, `<eos>` at the end of every line.

    The vocabulary is that of the training file, in the order of first appearance; other words are `<unk>`.
    ``len(read_words("ptb").vocabulary)`` is 10,000 and ``len(read_words("wikitext-2").vocabulary)`` is 33,278.
    """
    path = existing_folder(folder, _HOLDS)
    layout = next((names for names in _LAYOUTS if (path / names[0]).is_file()), None)
    if layout is None:
        raise DataError(f"{path}: no word-level text was recognised; it should hold {_HOLDS}")
    files = [required(path, name) for name in layout]
    number: dict[str, int] = {}
    train = _read(files[0], number, grow=True)
    number.setdefault(UNKNOWN, len(number))
    validation, test = (_read(file, number, grow=False) for file in files[1:])
    return WordData(path.absolute().name, tuple(number), train, validation, test)


def _read(path: Path, number: dict[str, int], grow: bool) -> Tensor:
    """The file as numbers of words; new words get a number if the vocabulary may still grow."""
    ids, words = array("q"), 0  # an array: the hundred million words of WikiText-103 fit into memory
    for line in lines_of(path):
        found = line.split()
        words += len(found)
        if grow:
            ids.extend(number.setdefault(word, len(number)) for word in (*found, END))
        else:
            ids.extend(number.get(word, number[UNKNOWN]) for word in (*found, END))
    if not words:
        raise DataError(f"{path}: holds no words; it should hold lines of words between spaces")
    return torch.from_numpy(np.frombuffer(ids, np.int64).copy())
