"""The prose of Python's language reference out of `pydoc_data.topics`: paragraphs, parts, vocabulary."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count

UNKNOWN, END = "<unk>", "<eos>"
_LARGEST_VOCABULARY = 2200
_SHARES = (0.8, 0.1, 0.1)
_WORD = re.compile(r"[a-z_][a-z_0-9]*(?:'[a-z]+)?|\d+|[^\w\s\"*]")  # quotes and asterisks are mark-up here

Paragraph = tuple[str, ...]


def paragraphs_of_parts() -> tuple[list[Paragraph], list[Paragraph], list[Paragraph]]:
    """The paragraphs for training, validation and test: whole topics, about 80, 10 and 10 % of the words."""
    topics = _prose_of_topics()
    parts: tuple[list[str], ...] = ([], [], [])
    total = sum(_size(lines) for lines in topics.values())
    room = [share * total for share in _SHARES]
    for topic in sorted(topics, key=lambda topic: (-_size(topics[topic]), topic)):  # large ones first, to fill evenly
        widest = max(range(3), key=lambda part: room[part])
        parts[widest].append(topic)
        room[widest] -= _size(topics[topic])
    train, validation, test = ([line for topic in sorted(part) for line in topics[topic]] for part in parts)
    return train, validation, test


def words_of_vocabulary(paragraphs: list[Paragraph]) -> tuple[str, ...]:
    """`<unk>`, `<eos>` and the words that occur often enough, in the order of first appearance.

    Often enough is the smallest number of times that leaves a vocabulary of no more than about 2,000 words.
    """
    counts = Counter(word for line in paragraphs for word in line)
    for least in count(2):
        words = [word for word, times in counts.items() if times >= least]
        if len(words) <= _LARGEST_VOCABULARY:
            break
    return (UNKNOWN, END, *words)


def words_of(text: str) -> Paragraph:
    """Words, numbers and signs, in lower case.

    >>> words_of("The *while* statement isn't new.")
    ('the', 'while', 'statement', "isn't", 'new', '.')
    """
    return tuple(_WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")))


def _prose_of_topics() -> dict[str, list[Paragraph]]:
    """The paragraphs of prose of every topic, each paragraph in the first topic that has it."""
    from pydoc_data.topics import topics  # here, because it is half a megabyte

    seen: set[Paragraph] = set()
    prose: dict[str, list[Paragraph]] = {}
    for topic in sorted(topics):
        prose[topic] = []
        for paragraph in re.split(r"\n\s*\n", topics[topic]):
            words = words_of(paragraph)
            if _is_prose(words) and words not in seen:
                seen.add(words)
                prose[topic].append(words)
    return prose


def _is_prose(words: Paragraph) -> bool:
    """Whether more than half of it is words, unlike most code and grammar."""
    return len(words) > 4 and sum(word[0].isalpha() for word in words) > 0.5 * len(words)


def _size(paragraphs: list[Paragraph]) -> int:
    return sum(len(line) for line in paragraphs)
