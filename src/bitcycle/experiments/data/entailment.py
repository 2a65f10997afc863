"""Pairs of sentences: does the premise entail the hypothesis? XNLI, SNLI and GLUE from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import existing_folder, first_existing
from bitcycle.experiments.data.pair_files import THREE, TWO, Row, read_rows

__all__ = ["Pair", "PairData", "read_pairs"]

_HOLDS = "XNLI (dev-en.tsv, xnli.dev.tsv), SNLI (snli_1.0_dev.jsonl, dev.txt) or GLUE (train.tsv, dev.tsv) files"


class Pair(NamedTuple):
    """A premise, a hypothesis and the number of the label."""

    premise: str
    hypothesis: str
    label: int


@dataclass(frozen=True)
class PairData:
    """Pairs of sentences in three parts; `labels` gives the name of a label."""

    name: str
    labels: tuple[str, ...]
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def read_pairs(folder: str | Path, language: str = "en") -> PairData:
    """Read a folder of XNLI, SNLI, RTE or MNLI; `language` chooses where the folder has several.

    Where there is no training file, the published test part is for training, and the premises of dev are dealt out to
    validation and test in turn; the name says so. Where the test part has no labels, as in GLUE, dev is the test part
    and validation is the last tenth of a fixed permutation of the training part.
    ``read_pairs("xnli").name`` is 'xnli-en (trained on test, evaluated on dev)'.
    """
    path = existing_folder(folder, _HOLDS)
    files = {part: first_existing(path, _names(part, language)) for part in ("train", "dev", "test")}
    rows = {part: read_rows(file, language) for part, file in files.items() if file is not None}
    labelled = {part: pairs for part, pairs in rows.items() if all(row.label is not None for row in pairs)}
    name = path.absolute().name + (f"-{language}" if any(_names_a_language(file) for file in files.values()) else "")
    match sorted(labelled):
        case ["dev", "test", "train"]:
            train, validation, test = labelled["train"], labelled["dev"], labelled["test"]
        case ["dev", "test"]:
            name += " (trained on test, evaluated on dev)"
            train, (validation, test) = labelled["test"], _dealt_out(labelled["dev"])
        case [("dev" | "test") as other, "train"]:
            (train, validation), test = _held_out(labelled["train"]), labelled[other]
        case found:
            raise DataError(
                f"{path}: has labelled pairs in {language!r} for {' and '.join(found) or 'no part'}; it should hold "
                f"{_HOLDS} for two parts or more{_other_languages(path)}"
            )
    labels = TWO if {row.label for row in train} <= set(TWO) else THREE
    parts = (_numbered(path, part, labels) for part in (train, validation, test))
    return PairData(name, labels, *parts)


def _names(part: str, language: str) -> tuple[str, ...]:
    """The names under which data sets publish a part, those of one language first."""
    return (
        f"{part}-{language}.tsv",
        f"xnli.{part}.tsv",
        f"xnli.{part}.jsonl",
        f"multinli.{part}.{language}.tsv",
        f"snli_1.0_{part}.jsonl",
        f"snli_1.0_{part}.txt",
        f"multinli_1.0_{part}.jsonl",
        f"{part}.jsonl",
        f"{part}.tsv",
        f"{part}.txt",
        f"{part}_matched.tsv",
    )


def _names_a_language(file: Path | None) -> bool:
    return file is not None and ("-" in file.stem or file.name.startswith("xnli."))


def _other_languages(path: Path) -> str:
    found = sorted({file.stem.partition("-")[2] for file in path.glob("dev-*.tsv")})
    return f"; its languages are {', '.join(found)}" if found else ""


def _dealt_out(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Two halves that have no premise in common."""
    number = {premise: place for place, premise in enumerate(dict.fromkeys(row.premise for row in rows))}
    first, second = ([row for row in rows if number[row.premise] % 2 == half] for half in (0, 1))
    return first, second


def _held_out(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    held = max(1, len(rows) // 10)
    return [rows[place] for place in order[:-held]], [rows[place] for place in order[-held:]]


def _numbered(path: Path, rows: list[Row], labels: tuple[str, ...]) -> list[Pair]:
    if not rows:
        raise DataError(f"{path}: one of its parts holds no labelled pair; each should hold some")
    unknown = {row.label for row in rows} - set(labels)
    if unknown:
        raise DataError(f"{path}: has the label {min(map(str, unknown))!r}; labels should be {', '.join(labels)}")
    return [Pair(row.premise, row.hypothesis, labels.index(str(row.label))) for row in rows]
