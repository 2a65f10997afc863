"""Fetching of official data sets: download, check, unpack, and put into the cache by a single rename.

pooch downloads to a temporary file and moves it into place after checking it. The standard library unpacks archives,
and writes nothing outside the folder: ``tarfile`` refuses devices, links and paths that lead out of it, and ``zipfile``
ignores such parts of a path.
"""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bitcycle import __version__
from bitcycle._support.extras import need
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.official.catalogue import Official, RemoteFile, is_cached, reader_path
from bitcycle.lab.format import format_error
from bitcycle.lab.locks import locked

TIMEOUT_S = 30  # without a response
CHUNK_BYTES = 1 << 16
HEADERS = {
    "User-Agent": f"bitcycle/{__version__}",  # some hosts reject Python's default
    "Accept-Encoding": "identity",  # a .gz file must arrive as it is, not decompressed
}

ProgressCallback = Callable[[str, int, int | None], None]
"""Receives the name of a file, the bytes so far, and the total bytes if the server states them."""


class DownloadError(OSError):
    """A file could not be downloaded. The message names the host and the problem in one line."""


class Fetched(NamedTuple):
    """The outcome of :func:`fetch`."""

    path: Path
    """The path that the task's reader takes."""
    new: bool
    """False if the data set was in the cache already, and nothing was downloaded."""
    computed: dict[str, str]
    """Checksums of the files for which none are published, by file."""


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
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / ".lock"):  # of two processes, the second finds what the first has fetched
        return _fetch(official, cache, mirror, progress)


def _fetch(official: Official, cache: Path, mirror: str | None, progress: ProgressCallback | None) -> Fetched:
    path, folder = reader_path(official, cache), cache / official.name
    if is_cached(official, cache):
        return Fetched(path, False, {})
    if folder.exists():
        raise DataError(f"{folder}: has no {official.marker}; delete the folder to fetch it again")
    computed: dict[str, str] = {}
    downloads, unfinished = cache / f"{official.name}.downloads", cache / f"{official.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a killed process
    unfinished.mkdir()
    try:
        for remote in official.files:
            file = _download(official, remote, downloads, mirror, progress)
            if remote.checksum is None:
                computed[remote.name] = f"sha256:{_pooch().file_hash(str(file))}"
        for remote in official.files:
            unpack(downloads / remote.name, remote, unfinished)
        if not (unfinished / official.marker).is_file():
            raise DataError(f"{official.files[0].name}: has no {official.marker}; it is not the expected archive")
        unfinished.rename(folder)
        shutil.rmtree(downloads, ignore_errors=True)
    except DataError:
        shutil.rmtree(downloads, ignore_errors=True)  # refused files are not tried again
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(OSError):  # complete files stay for the next attempt
            downloads.rmdir()
    return Fetched(path, True, computed)


def unpack(file: Path, remote: RemoteFile, folder: Path) -> None:
    """Unpack a downloaded archive into a folder; copy a file that is not an archive.

    Raises:
        DataError: If the archive is damaged, or has a link or a path that leads out of the folder.
    """
    try:
        if file.name.endswith((".tar", ".tar.gz")):
            with tarfile.open(file) as tar:
                tar.extractall(folder, filter="data")
        elif file.name.endswith(".zip"):
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    destination = remote.destination(member.filename)
                    if destination is not None:
                        member.filename = destination
                        archive.extract(member, folder)
        else:
            shutil.copyfile(file, folder / file.name)
    except tarfile.FilterError as error:
        raise DataError(f"{file.name}: refused, {error}; it is not the expected archive") from None
    except (OSError, EOFError, ValueError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"{file.name}: is damaged or not an archive ({format_error(error)}); it should be downloaded again"
        ) from None


def _pooch() -> Any:
    return need("pooch", "data", "downloading data")


def _download(
    official: Official, remote: RemoteFile, folder: Path, mirror: str | None, progress: ProgressCallback | None
) -> Path:
    """Download a file into a folder, unless it is there with this checksum. After an error there is no file."""
    problems = need("requests.exceptions", "data", "downloading data")
    _pooch().get_logger().setLevel("WARNING")  # the progress is reported already
    url = remote.url if mirror is None else f"{mirror.rstrip('/')}/{remote.name}"
    host = urlsplit(url).netloc
    bar = _PoochProgress(remote.name, progress)
    responses: list[Any] = []
    downloader = _pooch().HTTPDownloader(
        progressbar=bar,
        chunk_size=CHUNK_BYTES,
        headers=HEADERS,
        timeout=TIMEOUT_S,
        hooks={"response": lambda response, **_: responses.append(response)},
    )
    try:
        return Path(_pooch().retrieve(url, remote.checksum, remote.name, folder, downloader=downloader))
    except problems.HTTPError as error:
        status = f"{error.response.status_code} {error.response.reason}"
        raise DownloadError(f"{host} does not serve {remote.name}: it responds {status} to {url}") from None
    except problems.SSLError:
        raise DownloadError(f"cannot reach {host} securely: its certificate is not trusted") from None
    except problems.RequestException:
        if bar.total is None:
            raise DownloadError(f"cannot reach {host}: no network?") from None
        raise DownloadError(f"the download of {remote.name} from {host} was interrupted: try again") from None
    except ValueError:
        raise DownloadError(
            f"{remote.name}: the file from {host} does not match {remote.checksum} "
            f"(published in {official.checksum_source}); it was deleted"
        ) from None
    finally:
        for response in responses:
            response.close()  # pooch leaves the connection open when a download fails


class _PoochProgress:
    """A progress bar for pooch, which sets ``total`` when the server responds and then calls the methods."""

    def __init__(self, name: str, callback: ProgressCallback | None) -> None:
        self.name, self.callback = name, callback
        self.total: int | None = None
        self.done = 0

    def update(self, size: int) -> None:
        self.done += size  # pooch reports a full chunk even if the last one is shorter
        if self.callback is not None:
            self.callback(self.name, min(self.done, self.total or self.done), self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: the owner of the callback closes its display."""
