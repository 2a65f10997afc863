"""Access to data files. Every problem with a file or folder is raised as a DataError with a one-line message."""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import warnings
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import MissingExtraError, need

MAX_FILE_BYTES = 1_000_000_000
"""Content of a file that is read at once: the largest official one, an idx file of EMNIST, has 550 MB."""
IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "GIF")


class DataError(ValueError):
    """A data file or folder cannot be used. The message names it, what is wrong, and what would be right.

    >>> str(DataError("cora/ind.cora.x: is empty; it should be a pickle"))
    'cora/ind.cora.x: is empty; it should be a pickle'
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # one line, even if a file name or another error has several


def is_there(path: Path) -> bool:
    """Return whether there is such a file or folder, or, for FOLDER/NAME, Planetoid's files of that name in the folder.

    >>> is_there(Path("no/where"))
    False
    """
    planetoid = (path.parent / inside / f"ind.{path.name}.x" for inside in ("", "raw"))
    return path.exists() or any(file.exists() for file in planetoid)


def existing_folder(folder: str | Path, expected: str) -> Path:
    """Return a folder as a path, which must exist and not be empty. ``expected`` says what it should hold.

    >>> existing_folder("nowhere", "ptb.train.txt")
    Traceback (most recent call last):
    ...
    bitcycle.lab.data.files.DataError: nowhere: there is no such folder; it should hold ptb.train.txt
    """
    path = Path(folder)
    if not path.exists():
        raise DataError(f"{path}: there is no such folder; it should hold {expected}")
    if not path.is_dir():
        raise DataError(f"{path}: is a file, not a folder; it should be a folder that holds {expected}")
    if not any(path.iterdir()):
        raise DataError(f"{path}: the folder is empty; it should hold {expected}")
    return path


def first_existing(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of the named files that exists in the folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def required_file(folder: Path, *names: str) -> Path:
    """Return the first of the named files that exists in the folder, or raise a DataError."""
    path = first_existing(folder, names)
    if path is None:
        raise DataError(
            f"{folder}: holds no {names[0]}; it should hold {' or '.join(names)} along with the other files"
        )
    return path


@contextlib.contextmanager
def open_data(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading; a ``.gz`` file is decompressed.

    Raises:
        DataError: If the file cannot be read, also while it is being read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for somebody to write
            raise OSError("not a regular file")
        with cast(io.BufferedIOBase, gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            yield file
    except EOFError:
        raise DataError(f"{path}: the gzip file is truncated; it should be copied or downloaded again") from None
    except (OSError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DataError(f"{path}: cannot be read ({reason}); it should be a readable file") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, which must not be empty. A ``.gz`` file is decompressed."""
    with open_data(path) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if not content:
        raise DataError(f"{path}: the file is empty; it should be copied or downloaded again")
    if len(content) > MAX_FILE_BYTES:
        raise DataError(
            f"{path}: its content exceeds the limit of {MAX_FILE_BYTES / 1e6:,.0f} MB; "
            "it should be like an official data file"
        )
    return content


def lines_of(path: Path) -> Iterator[str]:
    """Iterate over the lines of a UTF-8 text file, without line ends. A byte order mark at its start is skipped."""
    try:
        # A lone \r inside a sentence does not end a line.
        with open_data(path) as binary, io.TextIOWrapper(cast(Any, binary), "utf-8-sig", newline="\n") as file:
            for line in file:
                if "\0" in line:  # valid UTF-8, but a sign of a binary file
                    raise DataError(f"{path}: is not text (it has zero bytes); it should be UTF-8")
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text ({error.reason} at byte {error.start}); it should be UTF-8") from None


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[Any]:
    """Open an image with Pillow. Its pixels are to be decoded within the context.

    Only plain formats are tried: Pillow would call other programs for some, whatever the name of the file. Pillow's own
    limit holds for the number of pixels.

    Raises:
        DataError: If the image cannot be decoded, or is too large.
    """
    pillow = need("PIL.Image", "study", "decoding images")
    bombs = (pillow.DecompressionBombWarning, pillow.DecompressionBombError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(io.BytesIO(read_bytes(path)), formats=IMAGE_FORMATS) as image:
                yield image
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError, *bombs) as error:
        raise DataError(f"{path}: cannot be decoded ({error}); it should be a complete image file") from None


def read_digits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the 1,797 images of 8 x 8 pixels from 0 to 16, and their labels.

    The file is read without scikit-learn, whose import takes nearly a second.

    >>> images, labels = read_digits()
    >>> images.shape, int(images.max()), labels[:3].tolist()
    ((1797, 8, 8), 16, [0, 1, 2])
    """
    sklearn = find_spec("sklearn")
    if sklearn is None or sklearn.origin is None:
        raise MissingExtraError("the digits data needs sklearn: pip install 'bitcycle[study]'", name="sklearn")
    table = np.loadtxt(Path(sklearn.origin).parent / "datasets" / "data" / "digits.csv.gz", np.int64, delimiter=",")
    return table[:, :-1].copy().reshape(-1, 8, 8), table[:, -1].copy()
