"""Unpacking of untrusted archives: nothing is written outside the folder, and no implausible amount of data.

All members are checked before the first is written, and the budgets of :mod:`bitcycle.experiments.data.budgets` hold
while the archive is read. Data sets consist of regular files in folders: an archive with a link, a device, or a path
out of the folder is refused as a whole.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

from bitcycle._support.text import shown
from bitcycle.experiments.data.budgets import (
    MOST_FOLDERS,
    MOST_HEADER_BYTES,
    MOST_NAME,
    human,
    most_members,
    most_unpacked,
)
from bitcycle.experiments.data.files import DataError
from bitcycle.experiments.data.official.catalogue import RemoteFile

_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, NotImplementedError, UnicodeError, RecursionError),
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


class _Archive(io.RawIOBase):
    """The bytes of an archive, which refuses to give more of them than its budgets allow.

    A reader of archives takes sizes from the archive: that of a header of a tar file, which it then reads at once, and
    that of the directory of a zip file. A tar file is also compressed as a whole.
    """

    def __init__(self, stream: io.BufferedIOBase, file: Path, size: int) -> None:
        self._stream, self._file = stream, file
        self._most = most_unpacked(size)
        self._most_headers: int | None = 0
        self._headers = 0

    def allow_headers(self, most: int | None) -> None:
        """Allow as many bytes of headers to be read from now on; None = no headers but contents are read."""
        self._most_headers, self._headers = most, 0

    def read(self, size: int = -1) -> bytes:
        if size < 0:  # zipfile's way to read what is left
            size = max(0, self._file.stat().st_size - self._stream.tell())
        if self._most_headers is not None:
            self._headers += size
            if self._headers > self._most_headers:
                raise _refused(self._file, f"a header exceeds the limit of {human(self._most_headers)}")
        content = self._stream.read(size)
        self._check(self._stream.tell())
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            self._check(offset)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def _check(self, position: int) -> None:
        if position > self._most:
            raise _refused(self._file, f"its content exceeds the limit of {human(self._most)}")


class _Members:
    """The members to be unpacked, checked one by one while the archive is read."""

    def __init__(self, file: Path, remote: RemoteFile) -> None:
        self.file, self.remote = file, remote
        self.number, self.size = 0, 0
        self.destinations: set[str] = set()

    def destination(self, name: str, size: int) -> str | None:
        """Return the path to which a member is unpacked, None if it is skipped, or refuse the archive."""
        self.number += 1
        if self.number > (most := most_members(self.remote.size)):
            raise _refused(self.file, f"it has more than {most:,} members")
        _check_path(self.file, name)
        destination = self.remote.destination(name)
        if destination is None:
            return None
        self.size += size
        if self.size > (limit := most_unpacked(self.remote.size)):
            raise _refused(self.file, f"it would unpack to more than {human(limit)} from {human(self.remote.size)}")
        if destination.rstrip("/") in self.destinations:
            raise _refused(self.file, f"{shown(name)} occurs twice")
        self.destinations.add(destination.rstrip("/"))
        return destination


def _unpack_tar(file: Path, remote: RemoteFile, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{file.name}: unpacking it safely needs Python 3.11.4 or newer")
    members, wanted = _Members(file, remote), []
    with file.open("rb") as packed:
        opener = gzip.open if packed.read(2) == b"\x1f\x8b" else open
    with opener(file, "rb") as stream, _Archive(stream, file, remote.size) as content:
        content.allow_headers(MOST_HEADER_BYTES)
        with tarfile.open(fileobj=content, mode="r:") as archive:
            for member in archive:
                content.allow_headers(MOST_HEADER_BYTES)
                member.pax_headers = {}  # they have been applied, and may be many
                if member.issparse() or not (member.isfile() or member.isdir()):
                    raise _refused(file, f"{shown(member.name)} is a link or a device")
                destination = members.destination(member.name, member.size)
                if destination is not None:
                    wanted.append(member.replace(name=destination, deep=False))
            content.allow_headers(None)
            archive.extractall(folder, wanted, filter="data")


def _unpack_zip(file: Path, remote: RemoteFile, folder: Path) -> None:
    members, wanted = _Members(file, remote), []
    with file.open("rb") as stream, _Archive(stream, file, remote.size) as content:
        content.allow_headers(_BYTES_PER_ENTRY * most_members(remote.size))
        with zipfile.ZipFile(content) as archive:
            content.allow_headers(None)
            for member in archive.infolist():
                if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _refused(file, f"{shown(member.filename)} is a link or a device")
                if member.flag_bits & 1:
                    raise _refused(file, f"{shown(member.filename)} is encrypted")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # zipfile decompresses other methods without a limit
                    raise _refused(file, f"{shown(member.filename)} is not compressed by deflate")
                destination = members.destination(member.filename, member.file_size)
                if destination is not None:
                    member.filename = destination
                    wanted.append(member)
            for member in wanted:
                archive.extract(member, folder)


_BYTES_PER_ENTRY = 300  # of the directory of a zip file, and of what is read to find it


def _check_path(file: Path, name: str) -> None:
    """Refuse a path that leads out of the folder on any operating system."""
    path = name.replace("\\", "/")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path) or ".." in path.split("/"):
        raise _refused(file, f"{shown(name)} leads out of the folder")
    parts = path.rstrip("/").split("/")
    if len(parts) > MOST_FOLDERS:
        raise _refused(file, f"{shown(name)} is in more than {MOST_FOLDERS} folders")
    if max(len(os.fsencode(part)) for part in parts) > MOST_NAME:
        raise _refused(file, f"{shown(name)} has a name of more than {MOST_NAME} bytes")


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file.name}: refused, {reason}; it is not the expected archive")
