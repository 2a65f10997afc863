"""Unpacking archives that may be hostile: nothing is written outside of the folder, and no more than is plausible.

Every member is looked at before the first is written. Data sets are plain files in folders: an archive with a link, a
device, or a path that leads out of the folder is not what it claims to be, and is refused as a whole.
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

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.official.entry import RemoteFile

GROWTH = 20  # times the size of the download; the official archives stay below 10
ALLOWANCE = 100_000_000  # bytes, for small archives of very regular files

_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, NotImplementedError, UnicodeError),
)


def unpack(file: Path, remote: RemoteFile, folder: Path) -> None:
    """Unpack what the catalogue wants of a downloaded archive into the folder; another file is copied there."""
    try:
        if file.name.endswith((".tar", ".tar.gz")):
            _unpack_tar(file, remote, folder)
        elif file.name.endswith(".zip"):
            _unpack_zip(file, remote, folder)
        else:
            shutil.copyfile(file, folder / file.name)
    except _DAMAGE:
        raise DataError(f"{file.name}: is damaged or no archive; it should be downloaded again") from None


def _unpack_tar(file: Path, remote: RemoteFile, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{file.name}: to unpack it safely needs Python 3.11.4 or newer")
    wanted, size = [], 0
    with tarfile.open(file) as archive:
        for member in archive:
            _check_path(file, member.name)
            if not member.isfile() and not member.isdir():
                raise _refused(file, f"{member.name!r} is a link or a device")
            place = remote.place(member.name)
            if place is not None:
                size = _plausible(file, remote, size + member.size)
                wanted.append(member.replace(name=place, deep=False))
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
            place = remote.place(member.filename)
            if place is not None:
                size = _plausible(file, remote, size + member.file_size)
                member.filename = place
                wanted.append(member)
        for member in wanted:
            archive.extract(member, folder)


def _check_path(file: Path, name: str) -> None:
    """Refuse a path that leads out of the folder, on whatever system."""
    path = name.replace("\\", "/")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path) or ".." in path.split("/"):
        raise _refused(file, f"{name!r} leads out of the folder")


def _plausible(file: Path, remote: RemoteFile, size: int) -> int:
    """The unpacked size so far; members declare it before they are unpacked."""
    if size > GROWTH * remote.size + ALLOWANCE:
        raise _refused(file, f"it would unpack to more than {size / 1e6:,.0f} MB from {remote.size / 1e6:,.1f} MB")
    return size


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file.name}: refused, {reason}; it is not the archive that it should be")
