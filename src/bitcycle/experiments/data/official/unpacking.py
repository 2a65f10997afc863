"""Unpacking of untrusted archives: nothing is written outside the folder, and no implausible amount of data.

All members are checked before the first is written. Data sets consist of regular files in folders: an archive with a
link, a device, or a path out of the folder is refused as a whole.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

from bitcycle.experiments.data.files import DataError
from bitcycle.experiments.data.official.catalogue import RemoteFile

MAX_RATIO = 20  # of unpacked to downloaded bytes; official archives stay below 10
ALLOWANCE = 100_000_000  # extra bytes, for small archives that compress very well

_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, NotImplementedError, UnicodeError),
)


def unpack(file: Path, remote: RemoteFile, folder: Path) -> None:
    """Unpack the listed members of an archive into a folder, or copy a file that is not an archive."""
    try:
        if file.name.endswith((".tar", ".tar.gz")):
            _unpack_tar(file, remote, folder)
        elif file.name.endswith(".zip"):
            _unpack_zip(file, remote, folder)
        else:
            shutil.copyfile(file, folder / file.name)
    except _DAMAGE:
        raise DataError(f"{file.name}: is damaged or not an archive; it should be downloaded again") from None


def _unpack_tar(file: Path, remote: RemoteFile, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{file.name}: unpacking it safely needs Python 3.11.4 or newer")
    wanted, size = [], 0
    with tarfile.open(file) as archive:
        for member in archive:
            _check_path(file, member.name)
            if not member.isfile() and not member.isdir():
                raise _refused(file, f"{member.name!r} is a link or a device")
            destination = remote.destination(member.name)
            if destination is not None:
                size = _checked_size(file, remote, size + member.size)
                wanted.append(member.replace(name=destination, deep=False))
        archive.extractall(folder, wanted, filter="data")


def _unpack_zip(file: Path, remote: RemoteFile, folder: Path) -> None:
    wanted, size = [], 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            _check_path(file, member.filename)
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(file, f"{member.filename!r} is a link or a device")
            if member.flag_bits & 1:
                raise _refused(file, f"{member.filename!r} is encrypted")
            destination = remote.destination(member.filename)
            if destination is not None:
                size = _checked_size(file, remote, size + member.file_size)
                member.filename = destination
                wanted.append(member)
        for member in wanted:
            archive.extract(member, folder)


def _check_path(file: Path, name: str) -> None:
    """Refuse a path that leads out of the folder on any operating system."""
    path = name.replace("\\", "/")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path) or ".." in path.split("/"):
        raise _refused(file, f"{name!r} leads out of the folder")


def _checked_size(file: Path, remote: RemoteFile, size: int) -> int:
    """Return the declared size of the members so far, unless it is implausible."""
    if size > MAX_RATIO * remote.size + ALLOWANCE:
        raise _refused(file, f"it would unpack to more than {size / 1e6:,.0f} MB from {remote.size / 1e6:,.1f} MB")
    return size


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file.name}: refused, {reason}; it is not the expected archive")
