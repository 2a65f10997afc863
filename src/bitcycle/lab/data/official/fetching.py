"""Fetching of official data sets: download, check, unpack, and put into the cache by a single rename."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bitcycle import __version__
from bitcycle._support.extras import need
from bitcycle.experiments.data.budgets import human, most_downloaded
from bitcycle.experiments.data.files import DataError
from bitcycle.experiments.data.official.cache import (
    RECORD,
    is_cached,
    reader_path,
    record_checksums,
    recorded_checksums,
)
from bitcycle.experiments.data.official.catalogue import Official, RemoteFile
from bitcycle.experiments.data.official.unpacking import unpack

TIMEOUT = 30  # seconds without a response
CHUNK = 1 << 16
HEADERS = {
    "User-Agent": f"bitcycle/{__version__}",  # some hosts reject Python's default
    "Accept-Encoding": "identity",  # a .gz file must arrive as it is, not decompressed
}

ProgressCallback = Callable[[str, int, int | None], None]
"""Receives the name of a file, the bytes so far, and the total bytes if the server states them."""
DAY = 86_400  # seconds


class Fetched(NamedTuple):
    """The outcome of :func:`fetch`."""

    path: Path
    """The path that the task's reader takes."""
    new: bool
    """False if the data set was in the cache already, and nothing was downloaded."""
    recorded: dict[str, str]
    """Checksums that were recorded because none are published, by file."""


def fetch(
    official: Official, cache: Path, mirror: str | None = None, progress: ProgressCallback | None = None
) -> Fetched:
    """Download a data set into the cache, unless it is there already.

    Files are downloaded, checked, and unpacked into a temporary folder, which is renamed at the end.
    ``fetch(official_named("cora"), cache_folder()).path`` is the path that ``read_graph`` takes.

    Args:
        official: The data set.
        cache: The cache folder.
        mirror: A URL that has the files under their own names, instead of the publisher's. ``{name}`` in it is
            replaced by the name of the data set.
        progress: Called during downloads.

    Raises:
        DownloadError: If a file cannot be downloaded, or does not match its checksum.
        DataError: If an archive is damaged or refused.
        ValueError: If the mirror is not a URL.
    """
    if mirror is not None:
        mirror = mirror.replace("{name}", official.name)
        if not re.match(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?(/|$)", mirror):
            raise ValueError(f"mirror must be a URL such as https://host/folder, got {mirror!r}")
    downloads = cache / "downloads" / official.name
    if is_cached(official, cache):
        shutil.rmtree(downloads, ignore_errors=True)  # of a process that was killed after the rename
        return Fetched(reader_path(official, cache), False, {})
    if (cache / official.name).exists():
        raise DataError(f"{cache / official.name}: has no {official.marker}; delete the folder to fetch it again")
    cache.mkdir(parents=True, exist_ok=True)
    recorded = recorded_checksums(cache)
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        files = [
            download(file, downloads, _expected(official, file, recorded), mirror, progress or _no_progress)
            for file in official.files
        ]
        checksums = _unpublished_checksums(official, files)
        _unpack_all(official, files, cache)
        new = {name: value for name, value in checksums.items() if f"{official.name}/{name}" not in recorded}
        if new:
            record_checksums(cache, {f"{official.name}/{name}": value for name, value in new.items()})
        shutil.rmtree(downloads, ignore_errors=True)
    except DataError:
        shutil.rmtree(downloads, ignore_errors=True)  # refused files are not tried again
        raise
    finally:
        for folder in (downloads, downloads.parent):
            with contextlib.suppress(OSError):  # folders with complete files stay for the next attempt
                folder.rmdir()
    return Fetched(reader_path(official, cache), True, new)


def _expected(official: Official, file: RemoteFile, recorded: dict[str, str]) -> ExpectedChecksum:
    if file.checksum is not None:
        return ExpectedChecksum(file.checksum, f"published in {official.checksum_source}")
    return ExpectedChecksum(recorded.get(f"{official.name}/{file.name}"), f"recorded in {RECORD} at the first download")


def _unpublished_checksums(official: Official, files: list[Path]) -> dict[str, str]:
    file_hash = need("pooch", "data", "downloading data").file_hash
    return {
        remote.name: f"sha256:{file_hash(str(file))}"
        for remote, file in zip(official.files, files, strict=True)
        if remote.checksum is None
    }


def _unpack_all(official: Official, files: list[Path], cache: Path) -> None:
    """Unpack into a temporary folder and rename it, so that a kill never leaves an incomplete data set."""
    _remove_remnants(official, cache)
    unfinished = cache / f".{official.name}.unfinished-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a killed process with the same id
    unfinished.mkdir()
    try:
        for remote, file in zip(official.files, files, strict=True):
            unpack(file, remote, unfinished)
        if not (unfinished / official.marker).is_file():
            raise DataError(f"{files[0].name}: has no {official.marker}; it is not the expected archive")
        try:
            unfinished.rename(cache / official.name)
        except OSError:
            if not is_cached(official, cache):  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_remnants(official: Official, cache: Path) -> None:
    """Remove the temporary folders of killed processes, but none that another process may still be using."""
    for remnant in cache.glob(f".{official.name}.unfinished-*"):
        if time.time() - remnant.stat().st_mtime > DAY:
            shutil.rmtree(remnant, ignore_errors=True)


def _no_progress(name: str, done: int, total: int | None) -> None:
    """Ignore progress."""


class DownloadError(OSError):
    """A file could not be downloaded. The message names the host and the problem in one line."""


class ExpectedChecksum(NamedTuple):
    """A checksum, if there is one, and its source."""

    value: str | None
    source: str


def download(
    remote: RemoteFile, folder: Path, expected: ExpectedChecksum, mirror: str | None, progress: ProgressCallback
) -> Path:
    """Download a file into a folder, unless it is there with the expected checksum. After an error there is no file.

    pooch downloads to a temporary file, which it moves into place after checking it.
    """
    pooch = need("pooch", "data", "downloading data")
    problems = need("requests.exceptions", "data", "downloading data")
    pooch.get_logger().setLevel("WARNING")  # the progress is reported already
    url = remote.url if mirror is None else f"{mirror.rstrip('/')}/{remote.name}"
    host = urlsplit(url).netloc
    most = most_downloaded(remote.size)
    bar = _PoochProgress(remote.name, progress, most)
    responses: list[Any] = []

    def receive(response: Any, *_: Any, **__: Any) -> None:
        responses.append(response)
        length = response.headers.get("Content-Length", "0")
        if not re.fullmatch(r"[0-9]{1,18}", length) or int(length) > most:
            raise _LargerError
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DownloadError(f"{host} sends {remote.name} compressed, although this was not asked for")

    downloader = pooch.HTTPDownloader(
        progressbar=bar,
        chunk_size=CHUNK,
        headers=HEADERS,
        timeout=TIMEOUT,
        hooks={"response": receive},
    )
    try:
        return Path(pooch.retrieve(url, expected.value, remote.name, folder, downloader=downloader))
    except _LargerError:
        raise DownloadError(
            f"{remote.name}: the file from {host} exceeds the limit of {human(most)}, as it should have "
            f"{human(remote.size)}; it was deleted"
        ) from None
    except problems.HTTPError as error:
        status = f"{error.response.status_code} {error.response.reason}"
        raise DownloadError(f"{host} does not serve {remote.name}: it responds {status} to {url}") from None
    except problems.SSLError:
        raise DownloadError(f"cannot reach {host} securely: its certificate is not trusted") from None
    except problems.RequestException as error:
        if bar.total is not None:
            raise DownloadError(f"the download of {remote.name} from {host} was interrupted: try again") from None
        if isinstance(error, problems.ConnectionError | problems.Timeout):
            raise DownloadError(f"cannot reach {host}: no network?") from None
        raise DownloadError(f"cannot download {url}: {' '.join(str(error).split())}") from None
    except ValueError:
        raise DownloadError(
            f"{remote.name}: the file from {host} does not match {expected.value} ({expected.source}); it was deleted"
        ) from None
    finally:
        for response in responses:
            response.close()  # pooch leaves the connection open when a download fails


class _LargerError(Exception):
    """A download is larger than its stated size allows."""


class _PoochProgress:
    """A progress bar for pooch, which sets ``total`` when the server responds and then calls the methods.

    It also ends a download of more than ``most`` bytes, for which pooch has no option.
    """

    def __init__(self, name: str, callback: ProgressCallback, most: int) -> None:
        self.name, self.callback, self.most = name, callback, most
        self.total: int | None = None
        self.done = 0

    def update(self, size: int) -> None:
        self.done += size  # pooch reports a full chunk even if the last one is shorter
        if self.done > self.most + CHUNK:
            raise _LargerError
        self.callback(self.name, min(self.done, self.total or self.done), self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: the owner of the callback closes its display."""
