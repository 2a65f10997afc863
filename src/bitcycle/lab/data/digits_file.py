"""scikit-learn's handwritten digits, which all embedded images are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import folder_of, need

PURPOSE = "the digits data"


def read_digits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the 1,797 images of 8 x 8 pixels from 0 to 16, and their labels.

    The file is read without scikit-learn, whose import takes nearly a second, unless the file has moved.

    >>> images, labels = read_digits()
    >>> images.shape, int(images.max()), labels[:3].tolist()
    ((1797, 8, 8), 16, [0, 1, 2])
    """
    path = folder_of("sklearn", "study", PURPOSE) / "datasets" / "data" / "digits.csv.gz"
    if not path.exists():
        bunch = need("sklearn.datasets", "study", PURPOSE).load_digits()
        return bunch.images.astype(np.int64), bunch.target.astype(np.int64)
    table = np.loadtxt(path, np.int64, delimiter=",")
    return table[:, :-1].copy().reshape(-1, 8, 8), table[:, -1].copy()
