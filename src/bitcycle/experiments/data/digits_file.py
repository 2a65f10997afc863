"""scikit-learn's handwritten digits, which all embedded images are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import folder_of


def read_digits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the 1,797 images, of 8 x 8 pixels from 0 to 16,, and their labels.

    The file is read without scikit-learn, whose import takes nearly a second.

    >>> images, labels = read_digits()
    >>> images.shape, int(images.max()), labels[:3].tolist()
    ((1797, 8, 8), 16, [0, 1, 2])
    """
    path = folder_of("sklearn", "study", "the digits data") / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(path, np.int64, delimiter=",")
    return table[:, :-1].copy().reshape(-1, 8, 8), table[:, -1].copy()
