"""The three splits of every data set, and how a validation set is held out where a data set has none."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

import torch
from torch import Tensor


class Split(StrEnum):
    """A part of a data set: models are trained on the first, chosen on the second and tested once on the third.

    Example:
        >>> Split("validation") is Split.VALIDATION, f"{Split.TEST}"
        (True, 'test')
    """

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


S = TypeVar("S")


class Splits(Generic[S]):
    """Base of data sets: ``data[Split.TEST]`` is ``data.test``."""

    train: S
    validation: S
    test: S

    def __getitem__(self, split: Split) -> S:
        return {Split.TRAIN: self.train, Split.VALIDATION: self.validation, Split.TEST: self.test}[split]


def hold_out(count: int) -> tuple[Tensor, Tensor]:
    """Split row numbers into training and validation rows; validation is the last tenth of a fixed permutation.

    Example:
        >>> train, validation = hold_out(30)
        >>> len(train), len(validation)
        (27, 3)
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    held = max(1, count // 10)
    return order[:-held], order[-held:]
