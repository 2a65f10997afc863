"""The cache folder: which data sets are in it, and where the readers find them.

CACHE/cifar10/...          a whole data set, put there by one renaming
CACHE/downloads/cifar10/   archives that are not unpacked yet
CACHE/first-seen.json      the sums of files for which nobody states one
"""

from __future__ import annotations

import os
from pathlib import Path

from bitcycle._support.extras import need
from bitcycle._support.names import nearest
from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.official.catalogue import OFFICIAL
from bitcycle.experiments.data.official.entry import Official


def cache_folder() -> Path:
    """Where data sets are kept: the folder that ``BITCYCLE_CACHE`` names, or the system's place for caches."""
    chosen = os.environ.get("BITCYCLE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(need("pooch", "data", "the cache of official data").os_cache("bitcycle"))


def is_there(official: Official, cache: Path) -> bool:
    """Whether the data set is in the cache; half a data set never is."""
    return (cache / official.name / official.holds).is_file()


def reader_path(official: Official, cache: Path) -> Path:
    """What the task's reader takes."""
    return cache / official.name / official.reads


def located(data: str) -> str:
    """Data as a run names it: the name of an official data set, or a path that is the same from every folder.

    >>> located(""), located("cifar10"), located("/some/../folder")
    ('', 'cifar10', '/folder')
    """
    if not data or (data in OFFICIAL and not Path(data).is_dir()):
        return data
    if Path(data).name == data and not Path(data).exists():
        hint = nearest(data, OFFICIAL, "'bitcycle data list' has the names")
        raise DataError(f"there is no folder {data} here, and no official data set of that name; {hint}")
    return os.path.abspath(Path(data).expanduser())


def find_official(name: str | Path, cache: Path | None = None) -> Path:
    """The path for a reader: a name of the catalogue is looked up in the cache, everything else is a path already.

    A folder of that name in the working directory goes first.

    >>> find_official("some/folder").as_posix()
    'some/folder'
    """
    official = OFFICIAL.get(str(name))
    if official is None or Path(name).is_dir():
        return Path(name)
    cache = cache or cache_folder()
    if not is_there(official, cache):
        raise DataError(f"{name} is not in the cache: run 'bitcycle data get {name}'")
    return reader_path(official, cache)
