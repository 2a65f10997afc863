"""Unpacking of archives. Nothing is written outside the folder: an archive with a path out of it is refused."""

from __future__ import annotations

import errno
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PureWindowsPath
from typing import TypeVar

from bitcycle._support.text import format_error, short_repr
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.official.catalogue import RemoteFile

MAX_UNPACKED_BYTES = 10_000_000_000
"""What an archive may unpack to. The largest official one, ogbn-products, takes 1.5 GB."""
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

Member = TypeVar("Member", tarfile.TarInfo, zipfile.ZipInfo)


def unpack(file: Path, remote: RemoteFile, folder: Path) -> None:
    """Unpack a downloaded archive into a folder; copy a file that is not an archive.

    Raises:
        DataError: If the archive is damaged, leads out of the folder, or is too large.
    """
    try:
        if file.name.endswith((".tar", ".tar.gz")):
            if not hasattr(tarfile, "data_filter"):
                raise DataError(f"{file.name}: unpacking it safely needs Python 3.11.4 or newer")
            with tarfile.open(file) as tar:
                members = _chosen(((member.name, member.size, member) for member in tar), file, remote)
                chosen = [member.replace(name=name, deep=False) for name, member in members]
                tar.extractall(folder, chosen, filter="data")
        elif file.name.endswith(".zip"):
            with zipfile.ZipFile(file) as archive:
                entries = ((member.filename, member.file_size, member) for member in archive.infolist())
                for name, member in list(_chosen(entries, file, remote)):
                    member.filename = name
                    archive.extract(member, folder)
        else:
            shutil.copyfile(file, folder / file.name)
    except DataError:
        raise
    except tarfile.FilterError as error:
        raise _refused(file, str(error)) from None
    except (*_DAMAGED, NotImplementedError, RuntimeError) as error:  # the last two: another method, encrypted
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise
        raise DataError(
            f"{file.name}: is damaged or not an archive ({format_error(error)}); it should be downloaded again"
        ) from None


def _chosen(members: Iterable[tuple[str, int, Member]], file: Path, remote: RemoteFile) -> Iterator[tuple[str, Member]]:
    """Yield the members that are to be unpacked, with their destinations; refuse the archive if one is not harmless."""
    total = 0
    for name, size, member in members:
        path = PureWindowsPath(name)  # takes both kinds of slashes, and drives
        if path.anchor or ".." in path.parts:
            raise _refused(file, f"{short_repr(name)} leads out of the folder")
        destination = remote.destination(name)
        if destination is None:
            continue
        total += size
        if total > MAX_UNPACKED_BYTES:
            raise _refused(file, f"it would unpack to more than {MAX_UNPACKED_BYTES / 1e6:,.0f} MB")
        yield destination, member


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file.name}: refused, {reason}; it is not the expected archive")
