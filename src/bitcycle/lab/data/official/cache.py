"""The cache folder of official data sets.

CACHE/cifar10/...          a complete data set, put there by a single rename
CACHE/cifar10.downloads/   downloads that are not unpacked yet
CACHE/first-seen.json      checksums of first downloads, for files without a published checksum
"""

from __future__ import annotations

import os
from pathlib import Path

from bitcycle._support.extras import need
from bitcycle._support.names import nearest
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.official.catalogue import OFFICIAL, Official


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
