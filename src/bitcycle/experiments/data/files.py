"""Opening folders and files so that whatever is wrong with them comes out as a DataError."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from bitcycle.experiments.data.errors import DataError


def existing_folder(folder: str | Path, holds: str) -> Path:
    """The folder as a path; it must exist and have something in it. `holds` says what would be right.

    >>> existing_folder("nowhere", "ptb.train.txt")
    Traceback (most recent call last):
    ...
    bitcycle.experiments.data.errors.DataError: nowhere: there is no such folder; it should hold ptb.train.txt
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
    """The first of the named files that is in the folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def required(folder: Path, *names: str) -> Path:
    """The first of the named files that is in the folder; one of them must be."""
    path = first_existing(folder, names)
    if path is None:
        raise DataError(f"{folder}: holds no {names[0]}; it should have {' or '.join(names)} beside the other files")
    return path


def read_bytes(path: Path) -> bytes:
    """All of a file, decompressed where its name ends in .gz; it must not be empty."""
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
    """The lines of a UTF-8 text file, without their ends, read as they are needed."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:  # a lone \r inside a sentence ends no line
            for line in file:
                if "\0" in line:  # UTF-8 allows it, text does not have it
                    raise DataError(f"{path}: is not text (it has zero bytes); it should be UTF-8")
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text ({error.reason} at byte {error.start}); it should be UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}); it should be a readable file") from None
