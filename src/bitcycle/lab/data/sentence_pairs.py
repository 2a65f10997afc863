"""Labelled sentence pairs for natural language inference, and readers of XNLI, SNLI and GLUE files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from bitcycle._support.text import short_repr
from bitcycle.lab.data.files import DataError, existing_folder, first_existing, lines_of
from bitcycle.lab.data.splits import Splits, hold_out

THREE_WAY = ("entailment", "neutral", "contradiction")
TWO_WAY = ("entailment", "not_entailment")

_PREMISE = ("sentence1", "premise")
_HYPOTHESIS = ("sentence2", "hypothesis", "hypo")
_LABEL = ("gold_label", "label")
_JSON_NAMES = ("gold_label", "sentence1", "sentence2")
_SPELLINGS = {"contradictory": "contradiction"}  # in the translated training files of XNLI
_UNDECIDED = "-"  # the annotators of SNLI did not agree
_EXPECTED = "XNLI (dev-en.tsv, xnli.dev.tsv), SNLI (snli_1.0_dev.jsonl, dev.txt) or GLUE (train.tsv, dev.tsv) files"


class Pair(NamedTuple):
    """A premise, a hypothesis and the index of the label."""

    premise: str
    hypothesis: str
    label: int


@dataclass(frozen=True)
class PairData(Splits[list[Pair]]):
    """Labelled sentence pairs in three splits."""

    name: str
    labels: tuple[str, ...]
    """The names of the labels."""
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def read_pairs(folder: str | Path) -> PairData:
    """Read a folder of XNLI, SNLI, RTE or MNLI; of several languages, the English pairs.

    If there is no training file, the published test set is used for training, and the premises of dev are divided
    between validation and test; the name of the data says so. If the test set has no labels, as in GLUE, dev is the
    test set and validation is the last tenth of a fixed permutation of the training set.
    ``read_pairs("xnli").name`` is 'xnli-en (trained on test, evaluated on dev)'.

    Args:
        folder: The data set, in the layout of its publisher.

    Raises:
        DataError: If the folder has none of these formats, or a file is damaged.
    """
    path = existing_folder(folder, _EXPECTED)
    files = {part: first_existing(path, _names(part)) for part in ("train", "dev", "test")}
    rows = {part: read_rows(file) for part, file in files.items() if file is not None}
    labelled = {part: pairs for part, pairs in rows.items() if all(row.label is not None for row in pairs)}
    name = path.absolute().name + ("-en" if any(map(_has_languages, files.values())) else "")
    match sorted(labelled):
        case ["dev", "test", "train"]:
            train, validation, test = labelled["train"], labelled["dev"], labelled["test"]
        case ["dev", "test"]:
            name += " (trained on test, evaluated on dev)"
            train, (validation, test) = labelled["test"], _halves(labelled["dev"])
        case [("dev" | "test") as other, "train"]:
            (train, validation), test = _hold_out(labelled["train"]), labelled[other]
        case parts:
            raise DataError(
                f"{path}: has labelled pairs in English for {' and '.join(parts) or 'no part'}; it should hold "
                f"{_EXPECTED} for two parts or more"
            )
    labels = TWO_WAY if {row.label for row in train} <= set(TWO_WAY) else THREE_WAY
    splits = (_pairs(path, split, labels) for split in (train, validation, test))
    return PairData(name, labels, *splits)


def _names(part: str) -> tuple[str, ...]:
    """Return the file names under which data sets publish a part, those of a single language first."""
    return (
        f"{part}-en.tsv",
        f"xnli.{part}.tsv",
        f"xnli.{part}.jsonl",
        f"multinli.{part}.en.tsv",
        f"snli_1.0_{part}.jsonl",
        f"snli_1.0_{part}.txt",
        f"multinli_1.0_{part}.jsonl",
        f"{part}.jsonl",
        f"{part}.tsv",
        f"{part}.txt",
        f"{part}_matched.tsv",
    )


def _has_languages(file: Path | None) -> bool:
    return file is not None and ("-" in file.stem or file.name.startswith("xnli."))


def _halves(rows: list[PairRow]) -> tuple[list[PairRow], list[PairRow]]:
    """Divide the rows into two halves that have no premise in common."""
    number = {premise: index for index, premise in enumerate(dict.fromkeys(row.premise for row in rows))}
    first, second = ([row for row in rows if number[row.premise] % 2 == half] for half in (0, 1))
    return first, second


def _hold_out(rows: list[PairRow]) -> tuple[list[PairRow], list[PairRow]]:
    train, validation = hold_out(len(rows))
    return [rows[index] for index in train.tolist()], [rows[index] for index in validation.tolist()]


def _pairs(path: Path, rows: list[PairRow], labels: tuple[str, ...]) -> list[Pair]:
    if not rows:
        raise DataError(f"{path}: one of its splits has no labelled pair; each should have some")
    unknown = {row.label for row in rows} - set(labels)
    if unknown:
        raise DataError(
            f"{path}: has the label {short_repr(min(map(str, unknown)))}; labels should be {', '.join(labels)}"
        )
    return [Pair(row.premise, row.hypothesis, labels.index(str(row.label))) for row in rows]


class PairRow(NamedTuple):
    """A pair as it is in a file; the label is None in files that are published without labels."""

    premise: str
    hypothesis: str
    label: str | None


def read_rows(path: Path) -> list[PairRow]:
    """Return the English pairs of one file, without those that have no agreed label or an empty sentence.

    Supported are tsv with a header (GLUE, XNLI, SNLI), tsv without one (XTREME), and jsonl (SNLI, XNLI).
    Machine-translated training files have a few lines with an empty sentence; a file of nothing else is an error.
    """
    rows = [_row(path, *each) for each in _records(path) if each[1].get("language", "en") == "en"]
    complete = [row for row in rows if row.premise.strip() and row.hypothesis.strip()]
    if not complete:
        raise DataError(f"{path}: holds no pair of English sentences; it should hold one per line")
    return [row for row in complete if row.label != _UNDECIDED]


def _records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each line that is not blank, and its entries by name."""
    lines = ((number, line) for number, line in enumerate(lines_of(path), 1) if line.strip())
    if path.suffix == ".jsonl":
        yield from ((number, _json_record(path, number, line)) for number, line in lines)
        return
    first = next(lines, (1, ""))
    header = first[1].split("\t")
    has_header = bool({*_PREMISE} & {*header} and {*_HYPOTHESIS} & {*header})
    if not has_header:
        header = ["premise", "hypothesis", "label"]
    for number, line in lines if has_header else chain([first] if first[1] else [], lines):
        cells = line.split("\t")
        if len(cells) < len(header):
            raise DataError(
                f"{path}: line {number} has {len(cells)} cells; it should have {len(header)}: {', '.join(header)}"
            )
        if not has_header:  # the label may be its index
            cells[2] = dict(zip("012", THREE_WAY, strict=True)).get(cells[2], cells[2])
        yield number, dict(zip(header, cells, strict=False))


def _json_record(path: Path, number: int, line: str) -> dict[str, str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in _JSON_NAMES):
        raise DataError(
            f"{path}: line {number} is damaged; it should be a JSON object with the strings {', '.join(_JSON_NAMES)}"
        )
    return entry


def _row(path: Path, number: int, record: dict[str, str]) -> PairRow:
    premise, hypothesis, label = (
        next((record[name] for name in names if name in record), None) for names in (_PREMISE, _HYPOTHESIS, _LABEL)
    )
    label = _SPELLINGS.get(str(label), label)
    if label not in (*THREE_WAY, *TWO_WAY, _UNDECIDED, None):
        raise DataError(
            f"{path}: line {number} has the label {short_repr(label)}; "
            f"it should be one of {', '.join((*THREE_WAY, *TWO_WAY[1:]))}"
        )
    return PairRow(premise or "", hypothesis or "", label)
