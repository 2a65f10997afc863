"""Access to data files. Every problem with a file or folder is raised as a DataError with a one-line message.

Everything is read within the budgets of :mod:`bitcycle.experiments.data.budgets`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bitcycle._support.extras import need
from bitcycle.experiments.data.budgets import MOST_FILE_BYTES, MOST_IMAGE_BYTES, MOST_LINE, human, most_unpacked

IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "GIF")
_CHUNK = 1 << 16


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


def existing_folder(folder: str | Path, holds: str) -> Path:
    """Return a folder as a path, which must exist and not be empty. ``holds`` says what it should hold.

    >>> existing_folder("nowhere", "ptb.train.txt")
    Traceback (most recent call last):
    ...
    bitcycle.experiments.data.files.DataError: nowhere: there is no such folder; it should hold ptb.train.txt
    """
    path = Path(folder)
    if not path.exists():
        raise DataError(f"{path}: there is no such folder; it should hold {holds}")
    if not path.is_dir():
        raise DataError(f"{path}: is a file, not a folder; it should be a folder that holds {holds}")
    if not any(path.iterdir()):
        raise DataError(f"{path}: the folder is empty; it should hold {holds}")
    return path


def first_existing(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of the named files that exists in the folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def required(folder: Path, *names: str) -> Path:
    """Return the first of the named files that exists in the folder, or raise a DataError."""
    path = first_existing(folder, names)
    if path is None:
        raise DataError(
            f"{folder}: holds no {names[0]}; it should hold {' or '.join(names)} along with the other files"
        )
    return path


class _Metered(io.RawIOBase):
    """A stream of bytes that refuses to give more than its budget."""

    def __init__(self, stream: io.BufferedIOBase, most: int, path: Path) -> None:
        self._stream, self._most, self._path = stream, most, path
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        self._given += len(content)
        if self._given > self._most:
            raise exceeded(self._path, "its content", human(self._most))
        buffer[: len(content)] = content
        return len(content)


@contextlib.contextmanager
def within_budget(path: Path, most: int | None = None) -> Iterator[io.BufferedReader]:
    """Open a file for reading within a budget. A ``.gz`` file is decompressed.

    Args:
        path: The file.
        most: The most bytes of its content; None = as many as the file has. A ``.gz`` file may always expand by
            :data:`~bitcycle.experiments.data.budgets.MOST_EXPANSION` only.

    Raises:
        DataError: If the file exceeds the budget; for a ``.gz`` file, while it is being read.
        OSError: If the file cannot be read.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for somebody to write
        raise OSError("not a regular file")
    if most is not None and status.st_size > most:
        raise exceeded(path, "the file", human(most))
    with path.open("rb") as file:
        if path.suffix != ".gz":
            yield file
            return
        most_expanded = most_unpacked(status.st_size)
        with gzip.GzipFile(fileobj=file) as content:
            metered = _Metered(content, most_expanded if most is None else min(most, most_expanded), path)
            yield io.BufferedReader(metered, _CHUNK)


@contextlib.contextmanager
def opened(path: Path, most: int | None = None) -> Iterator[io.BufferedReader]:
    """Open a file like :func:`within_budget`; a file that cannot be read is a DataError too."""
    try:
        with within_budget(path, most) as file:
            yield file
    except EOFError:
        raise DataError(f"{path}: the gzip file is truncated; it should be copied or downloaded again") from None
    except (OSError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); it should be a readable file") from None


def exceeded(path: Path, what: str, limit: str) -> DataError:
    """Return the error of a file that exceeds a budget.

    >>> str(exceeded(Path("a.gz"), "its content", "100 MB"))
    'a.gz: its content exceeds the limit of 100 MB; it should be like an official data file'
    """
    return DataError(f"{path}: {what} exceeds the limit of {limit}; it should be like an official data file")


def read_bytes(path: Path, most: int = MOST_FILE_BYTES) -> bytes:
    """Return the content of a file, which must not be empty, within a budget. A ``.gz`` file is decompressed."""
    with opened(path, most) as file:
        content = file.read()
    if not content:
        raise DataError(f"{path}: the file is empty; it should be copied or downloaded again")
    return content


def lines_of(path: Path) -> Iterator[str]:
    """Iterate over the lines of a UTF-8 text file, without line ends. A byte order mark at its start is skipped."""
    try:
        # A lone \r inside a sentence does not end a line.
        with opened(path) as binary, io.TextIOWrapper(binary, "utf-8-sig", newline="\n") as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_LINE + 1), ""), 1):
                if "\0" in line:  # valid UTF-8, but a sign of a binary file
                    raise DataError(f"{path}: is not text (it has zero bytes); it should be UTF-8")
                if len(line) > MOST_LINE:
                    raise exceeded(path, f"line {number}", f"{MOST_LINE:,} characters")
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text ({error.reason} at byte {error.start}); it should be UTF-8") from None


@contextlib.contextmanager
def opened_image(path: Path, most_pixels: int, wording: str) -> Iterator[Any]:
    """Open an image with Pillow, within a budget of bytes and pixels. Its pixels are to be decoded within the context.

    Only plain formats are tried: Pillow would call other programs for some, whatever the name of the file.

    Args:
        path: The image.
        most_pixels: The most pixels that it may have.
        wording: The message of an image that cannot be decoded, with ``{path}`` and ``{reason}``.

    Raises:
        DataError: If the image exceeds the budget, or cannot be decoded.
    """
    pillow = need("PIL.Image", "study", "decoding images")
    try:
        with within_budget(path, MOST_IMAGE_BYTES) as file:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # the budget is smaller
                image = pillow.open(file, formats=IMAGE_FORMATS)
            with image:
                if image.width * image.height > most_pixels:
                    raise exceeded(path, f"an image of {image.width} x {image.height}", f"{most_pixels:,} pixels")
                yield image
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise DataError(wording.format(path=path, reason=reason)) from None
