"""The catalogue of official data sets, which is in ``catalogue.toml``, and the cache into which they are fetched.

CACHE/cifar10/...          a complete data set, put there by a single rename
CACHE/cifar10.downloads/   downloads that are not unpacked yet
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

from bitcycle._support.extras import need
from bitcycle._support.names import nearest
from bitcycle.lab.data.files import DataError


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


def cache_folder() -> Path:
    """Return the cache folder: ``$BITCYCLE_CACHE``, or ``bitcycle`` in the cache folder of the system."""
    chosen = os.environ.get("BITCYCLE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(need("pooch", "data", "the cache of official data").os_cache("bitcycle"))


def is_cached(official: Official, cache: Path) -> bool:
    """Return whether the cache has the complete data set. Incomplete data sets are never in the cache."""
    return (cache / official.name / official.marker).is_file()


def reader_path(official: Official, cache: Path) -> Path:
    """Return the path that the task's reader takes."""
    return cache / official.name / official.reader_path


def resolve_data(data: str) -> str:
    """Return data as a run configuration names it: the name of an official data set, or an absolute path.

    Raises:
        DataError: If there is neither a folder nor an official data set of this name.

    >>> resolve_data(""), resolve_data("cifar10"), resolve_data("/some/../folder")
    ('', 'cifar10', '/folder')
    """
    if not data or (data in OFFICIAL and not Path(data).is_dir()):
        return data
    if Path(data).name == data and not Path(data).exists():
        hint = nearest(data, OFFICIAL, "'bitcycle data list' has the names")
        raise DataError(f"there is no folder {data} here, and no official data set of that name; {hint}")
    return os.path.abspath(Path(data).expanduser())


def find_official(name: str | Path, cache: Path | None = None) -> Path:
    """Return the path for a task's reader.

    Args:
        name: The name of an official data set, which is looked up in the cache, or a path, which is returned as it is.
            A folder of this name in the working directory takes precedence over the cache.
        cache: The cache folder; :func:`cache_folder` by default.

    Raises:
        DataError: If the data set is not in the cache.

    >>> find_official("some/folder").as_posix()
    'some/folder'
    """
    official = OFFICIAL.get(str(name))
    if official is None or Path(name).is_dir():
        return Path(name)
    cache = cache or cache_folder()
    if not is_cached(official, cache):
        raise DataError(f"{name} is not in the cache: run 'bitcycle data get {name}'")
    return reader_path(official, cache)
