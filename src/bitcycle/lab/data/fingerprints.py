"""Fingerprints of data: what is in a folder, wherever it lies.

The fingerprint is part of the name of a run, so that a study on files that have changed runs again. It covers the
relative name and the content of every file. More than :data:`MAX_CONTENT_BYTES` take too long to read at every start of
a study: then sizes and modification times are used instead, which copying has to preserve (``cp --archive``,
``rsync --times``). Hidden files, and files that are no data such as sockets, are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from bitcycle.lab.data.files import DataError, is_there
from bitcycle.lab.data.official import OFFICIAL

MAX_CONTENT_BYTES = 4_000_000_000
"""Up to this number of bytes, files are compared by content; reading them takes a few seconds."""


def fingerprint(data: str) -> str:
    """Return the fingerprint of the data of a run.

    Args:
        data: The ``data`` of a :class:`RunConfig`: a folder, a file, or FOLDER/NAME where a folder has several data
            sets. The name of an official data set has no fingerprint: its files are checked when they are downloaded.

    Returns:
        16 hexadecimal digits; empty if there is nothing to read, as for embedded data or a folder that does not exist.

    Raises:
        DataError: If a file cannot be read.

    Example:
        >>> fingerprint(""), fingerprint("cifar10")
        ('', '')
    """
    path = Path(data)
    if not data or (data in OFFICIAL and not path.is_dir()):
        return ""
    if not is_there(path):
        return ""
    folder, chosen = (path, "") if path.exists() else (path.parent, path.name)
    try:
        return _digest(folder, chosen)
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot be read ({error.strerror})") from None


def _digest(folder: Path, chosen: str) -> str:
    files = sorted((path.relative_to(folder).as_posix(), path, path.stat()) for path in _files(folder))
    by_content = sum(status.st_size for _, _, status in files) <= MAX_CONTENT_BYTES
    digest = hashlib.sha256(f"{chosen}\n{'content' if by_content else 'times'}\n".encode())
    for name, path, status in files:
        if by_content:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            content = f"{status.st_size} {status.st_mtime_ns}"
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, through links; a folder that contains itself is entered once."""
    if folder.is_file():
        yield folder
        return
    entered: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        place = os.path.realpath(parent)
        if place in entered:
            folders.clear()
            continue
        entered.add(place)
        yield from (path for name in names if not name.startswith(".") and (path := Path(parent, name)).is_file())


def _raise(error: OSError) -> None:
    raise error
