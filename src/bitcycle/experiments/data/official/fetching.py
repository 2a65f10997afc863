"""From the catalogue into the cache: download, check, unpack beside, and put in place by one renaming."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from bitcycle._support.extras import need
from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.official.cache import is_there, reader_path
from bitcycle.experiments.data.official.downloading import Expected, Tell, download
from bitcycle.experiments.data.official.entry import Official, RemoteFile
from bitcycle.experiments.data.official.first_use import RECORD, first_seen, record
from bitcycle.experiments.data.official.unpacking import unpack

DAY = 86_400  # seconds


class Fetched(NamedTuple):
    """What came of :func:`fetch`."""

    path: Path
    """What the task's reader takes."""
    new: bool
    """False where the data set was there already, and nothing was downloaded."""
    recorded: dict[str, str]
    """Sums that were recorded because nobody states any, by file."""


def fetch(official: Official, cache: Path, mirror: str | None = None, tell: Tell | None = None) -> Fetched:
    """Bring a data set into the cache, unless it is there.

    `mirror` is an address under which the files lie with their own names; ``{name}`` in it stands for the name of the
    data set. ``fetch(official_named("cora"), cache_folder()).path`` is what ``read_graph`` takes.
    """
    if mirror is not None:
        mirror = mirror.replace("{name}", official.name)
        if not re.match(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?(/|$)", mirror):
            raise ValueError(f"a mirror is an address such as https://host/folder, not {mirror!r}")
    downloads = cache / "downloads" / official.name
    if is_there(official, cache):
        shutil.rmtree(downloads, ignore_errors=True)  # of a process that was killed when it was nearly done
        return Fetched(reader_path(official, cache), False, {})
    if (cache / official.name).exists():
        raise DataError(f"{cache / official.name}: holds no {official.holds}; delete the folder to fetch it anew")
    cache.mkdir(parents=True, exist_ok=True)
    seen = first_seen(cache)
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        files = [
            download(file, downloads, _expected(official, file, seen), mirror, tell or _quiet)
            for file in official.files
        ]
        sums = _sums_nobody_states(official, files)
        _put_in_place(official, files, cache)
        new = {name: value for name, value in sums.items() if f"{official.name}/{name}" not in seen}
        if new:
            record(cache, {f"{official.name}/{name}": value for name, value in new.items()})
        shutil.rmtree(downloads, ignore_errors=True)
    except DataError:
        shutil.rmtree(downloads, ignore_errors=True)  # what was refused is not tried again
        raise
    finally:
        for folder in (downloads, downloads.parent):
            with contextlib.suppress(OSError):  # those with whole files in them stay, for the next attempt
                folder.rmdir()
    return Fetched(reader_path(official, cache), True, new)


def _expected(official: Official, file: RemoteFile, seen: dict[str, str]) -> Expected:
    if file.checksum is not None:
        return Expected(file.checksum, f"stated in {official.stated}")
    return Expected(seen.get(f"{official.name}/{file.name}"), f"recorded in {RECORD} at the first download")


def _sums_nobody_states(official: Official, files: list[Path]) -> dict[str, str]:
    file_hash = need("pooch", "data", "downloading data").file_hash
    return {
        remote.name: f"sha256:{file_hash(str(file))}"
        for remote, file in zip(official.files, files, strict=True)
        if remote.checksum is None
    }


def _put_in_place(official: Official, files: list[Path], cache: Path) -> None:
    """Unpack into a folder beside, so that a kill at any moment leaves no half data set under the name."""
    _remove_remnants(official, cache)
    unfinished = cache / f".{official.name}.unfinished-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a killed process that had the same number
    unfinished.mkdir()
    try:
        for remote, file in zip(official.files, files, strict=True):
            unpack(file, remote, unfinished)
        if not (unfinished / official.holds).is_file():
            raise DataError(f"{files[0].name}: holds no {official.holds}; it is not the archive that it should be")
        try:
            unfinished.rename(cache / official.name)
        except OSError:
            if not is_there(official, cache):  # else another process was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_remnants(official: Official, cache: Path) -> None:
    """Remove what a killed process left behind; a younger folder may be one that another process is filling."""
    for remnant in cache.glob(f".{official.name}.unfinished-*"):
        if time.time() - remnant.stat().st_mtime > DAY:
            shutil.rmtree(remnant, ignore_errors=True)


def _quiet(name: str, done: int, total: int | None) -> None:
    """Show no progress."""
