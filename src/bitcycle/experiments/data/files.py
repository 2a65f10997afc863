"""Access to data files. Every problem with a file or folder is raised as a DataError of one line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path


class DataError(ValueError):
    """A data file or folder cannot be used. The message names it, what is wrong, and what would be right.

    >>> str(DataError("cora/ind.cora.x: is empty; it should be a pickle"))
    'cora/ind.cora.x: is empty; it should be a pickle'
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # one line, even if a file name or another error has several


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


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, which must not be empty. A ``.gz`` file is decompressed."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except EOFError:
        raise DataError(f"{path}: the gzip file is truncated; it should be copied or downloaded again") from None
    except (OSError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); it should be a readable file") from None
    if not content:
        raise DataError(f"{path}: the file is empty; it should be copied or downloaded again")
    return content


def lines_of(path: Path) -> Iterator[str]:
    """Iterate over the lines of a UTF-8 text file, without line ends."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:  # a lone \r inside a sentence does not end a line
            for line in file:
                if "\0" in line:  # valid UTF-8, but a sign of a binary file
                    raise DataError(f"{path}: is not text (it has zero bytes); it should be UTF-8")
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text ({error.reason} at byte {error.start}); it should be UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}); it should be a readable file") from None
