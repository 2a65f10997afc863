"""The catalogue of official data sets, which is in ``catalogue.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class RemoteFile:
    """A file on a publisher's server: an archive (.tar, .tar.gz, .zip), which is unpacked, or any other file.

    >>> file = RemoteFile("https://host/products.zip", 10, inside="products")
    >>> file.name, file.destination("products/raw/edge.csv.gz"), file.destination("__MACOSX/products/raw")
    ('products.zip', 'raw/edge.csv.gz', None)
    """

    url: str
    size: int
    """Bytes of the download."""
    checksum: str | None = None
    """``md5:...`` or ``sha256:...`` as published; None if no trusted source publishes one."""
    inside: str = ""
    """The folder in an archive whose content is unpacked; empty = everything."""
    members: tuple[str, ...] = ("*",)
    """Patterns of the members that are unpacked, relative to that folder."""

    @property
    def name(self) -> str:
        """The name of the file, in the cache and on every mirror."""
        return self.url.rpartition("/")[2]

    def destination(self, member: str) -> str | None:
        """Return the path to which a member of the archive is unpacked, or None if it is skipped."""
        folder = f"{self.inside}/" if self.inside else ""
        path = member.removeprefix(folder)
        if not path or not member.startswith(folder) or not any(fnmatchcase(path, each) for each in self.members):
            return None
        return path


@dataclass(frozen=True)
class Official:
    """An official data set, as it is published."""

    name: str
    """The name that ``--data`` takes."""
    task: str
    """The task that reads it."""
    files: tuple[RemoteFile, ...]
    licence: str
    """Its licence or terms of use, in one line."""
    checksum_source: str
    """Where the checksums are published, or why there are none."""
    marker: str
    """A file that exists once the data set is complete, relative to its folder."""
    reader_path: str = ""
    """The path that the task's reader takes, relative to the folder of the data set."""

    @property
    def size(self) -> int:
        """Total bytes of all downloads."""
        return sum(file.size for file in self.files)


def _read_catalogue() -> dict[str, Official]:
    text = files("bitcycle.lab.data.official").joinpath("catalogue.toml").read_text("utf-8")
    catalogue = {}
    for name, entry in tomllib.loads(text).items():
        remote = tuple(RemoteFile(**{**file, "members": tuple(file.get("members", "*"))}) for file in entry["files"])
        catalogue[name] = Official(**{**entry, "name": name, "files": remote})
    return catalogue


OFFICIAL: dict[str, Official] = _read_catalogue()
"""All official data sets, by name."""


def official_named(name: str) -> Official:
    """Return the official data set of a name.

    Raises:
        ValueError: If there is no data set of this name.

    >>> official_named("snli").task
    'entailment'
    >>> official_named("cifar-10")
    Traceback (most recent call last):
    ...
    ValueError: unknown data set 'cifar-10'; did you mean 'cifar10'?
    """
    if name not in OFFICIAL:
        raise ValueError(f"unknown data set {name!r}; {nearest(name, OFFICIAL)}")
    return OFFICIAL[name]
