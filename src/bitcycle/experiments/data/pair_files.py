"""Files of sentence pairs: tsv with a header (GLUE, XNLI, SNLI), tsv without one (XTREME), and jsonl (SNLI, XNLI)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import lines_of

THREE = ("entailment", "neutral", "contradiction")
TWO = ("entailment", "not_entailment")

_PREMISE = ("sentence1", "premise")
_HYPOTHESIS = ("sentence2", "hypothesis", "hypo")
_LABEL = ("gold_label", "label")
_SPELLINGS = {"contradictory": "contradiction"}  # in the translated training files of XNLI
_UNDECIDED = "-"  # the annotators of SNLI did not agree


class Row(NamedTuple):
    """A pair as a file gives it; the label is None in a part that was published without labels."""

    premise: str
    hypothesis: str
    label: str | None


def read_rows(path: Path, language: str) -> list[Row]:
    """The pairs of one file in the given language; not those without an agreed label or with an empty sentence.

    Machine-translated training files hold a few lines with an empty sentence; a file with nothing else is refused.
    """
    rows = list(_from_json(path, language) if path.suffix == ".jsonl" else _from_table(path, language))
    whole = [row for row in rows if row.premise.strip() and row.hypothesis.strip()]
    if not whole:
        raise DataError(f"{path}: holds no pair of sentences in the language {language!r}; it should hold one a line")
    return [row for row in whole if row.label != _UNDECIDED]


def _from_json(path: Path, language: str) -> Iterator[Row]:
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not all(isinstance(value, str) for value in _picked(entry)):
            raise DataError(
                f"{path}: line {number} is damaged; it should be a JSON object with texts gold_label, sentence1 and "
                "sentence2"
            )
        if entry.get("language", language) == language:
            yield _row(path, number, *_picked(entry))


def _picked(entry: dict[str, Any]) -> tuple[Any, Any, Any]:
    return entry.get("sentence1"), entry.get("sentence2"), entry.get("gold_label")


def _from_table(path: Path, language: str) -> Iterator[Row]:
    lines = enumerate(lines_of(path), 1)
    first = next(lines, (1, ""))
    header = first[1].split("\t")
    premise, hypothesis, label = (_column(header, names) for names in (_PREMISE, _HYPOTHESIS, _LABEL))
    if premise is None or hypothesis is None:
        yield from _from_plain_table(path, [first, *lines])
        return
    spoken = _column(header, ("language",))
    for number, line in lines:
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) < len(header):
            raise DataError(
                f"{path}: line {number} has {len(cells)} cells; it should have {len(header)}, as line 1 has"
            )
        if spoken is None or cells[spoken] == language:
            given = None if label is None else _SPELLINGS.get(cells[label], cells[label])
            yield _row(path, number, cells[premise], cells[hypothesis], given)


def _from_plain_table(path: Path, lines: list[tuple[int, str]]) -> Iterator[Row]:
    """Premise, hypothesis and label, where the label may be its number."""
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != 3:
            raise DataError(f"{path}: line {number} has {len(cells)} cells; it should be premise, hypothesis and label")
        yield _row(path, number, cells[0], cells[1], THREE[int(cells[2])] if cells[2] in ("0", "1", "2") else cells[2])


def _row(path: Path, number: int, premise: str, hypothesis: str, label: str | None) -> Row:
    if label not in (*THREE, *TWO, _UNDECIDED, None):
        raise DataError(
            f"{path}: line {number} has the label {label!r}; it should be one of {', '.join((*THREE, *TWO[1:]))}"
        )
    return Row(premise, hypothesis, label)


def _column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)
