"""What the catalogue says of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class RemoteFile:
    """A file that a publisher serves: an archive to unpack (.tar, .tar.gz, .zip), or a file to keep as it is.

    >>> file = RemoteFile("https://host/products.zip", 10, take=("products/*",), drop=1)
    >>> file.name, file.place("products/raw/edge.csv.gz"), file.place("__MACOSX/products/raw")
    ('products.zip', 'raw/edge.csv.gz', None)
    """

    url: str
    size: int
    """Bytes of the download."""
    checksum: str | None = None
    """``md5:...`` or ``sha256:...`` as somebody states it; None where nobody whom we trust does."""
    take: tuple[str, ...] = ("*",)
    """Patterns of the members of an archive that are wanted."""
    drop: int = 0
    """How many folders in front of the name of a member are left out."""

    @property
    def name(self) -> str:
        """The name of the file, here and on every mirror."""
        return self.url.rpartition("/")[2]

    def place(self, member: str) -> str | None:
        """Where a member of the archive goes, or None if it is not wanted."""
        if not any(fnmatchcase(member, pattern) for pattern in self.take):
            return None
        return "/".join(member.split("/")[self.drop :]) or None


@dataclass(frozen=True)
class Official:
    """A data set in the form in which it is published."""

    name: str
    task: str
    """The task whose reader takes it."""
    files: tuple[RemoteFile, ...]
    licence: str
    """Its licence or terms, in a sentence for the user."""
    stated: str
    """Where the checksums are stated, or why there are none."""
    holds: str
    """A file that is there once the data set is, relative to the data set's folder."""
    reads: str = ""
    """What the reader takes, relative to the data set's folder."""

    @property
    def size(self) -> int:
        """Bytes of all downloads."""
        return sum(file.size for file in self.files)
