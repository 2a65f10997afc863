"""One file over http, by pooch: into a temporary file, checked, and only then put in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bitcycle import __version__
from bitcycle._support.extras import need
from bitcycle.experiments.data.official.entry import RemoteFile

TIMEOUT = 30  # seconds without an answer
CHUNK = 1 << 16
HEADERS = {
    "User-Agent": f"bitcycle/{__version__}",  # some hosts refuse the one of Python
    "Accept-Encoding": "identity",  # a .gz file must come as it is, not unpacked on the way
}

Tell = Callable[[str, int, int | None], None]
"""Is told the name of a file, the bytes so far, and of how many where the server says so."""


class DownloadError(OSError):
    """A file could not be downloaded; the message names the host and what is wrong, in one line."""


class Expected(NamedTuple):
    """A checksum, if there is one, and where it comes from."""

    checksum: str | None
    origin: str


def download(remote: RemoteFile, folder: Path, expected: Expected, mirror: str | None, tell: Tell) -> Path:
    """Put the file into the folder, unless it is there and is what is expected; an error leaves no trace of it."""
    pooch = need("pooch", "data", "downloading data")
    problems = need("requests.exceptions", "data", "downloading data")
    pooch.get_logger().setLevel("WARNING")  # it would tell what we tell
    url = remote.url if mirror is None else f"{mirror.rstrip('/')}/{remote.name}"
    host = urlsplit(url).netloc
    progress = _Progress(remote.name, tell)
    answers: list[Any] = []
    downloader = pooch.HTTPDownloader(
        progressbar=progress,
        chunk_size=CHUNK,
        headers=HEADERS,
        timeout=TIMEOUT,
        hooks={"response": lambda answer, *_, **__: answers.append(answer)},
    )
    try:
        return Path(pooch.retrieve(url, expected.checksum, remote.name, folder, downloader=downloader))
    except problems.HTTPError as error:
        answer = f"{error.response.status_code} {error.response.reason}"
        raise DownloadError(f"{host} does not give {remote.name}: it answers {answer} for {url}") from None
    except problems.SSLError:
        raise DownloadError(f"cannot reach {host} safely: its certificate is not trusted") from None
    except problems.RequestException as error:
        if progress.total is not None:
            raise DownloadError(f"the download of {remote.name} from {host} broke off: try again") from None
        if isinstance(error, problems.ConnectionError | problems.Timeout):
            raise DownloadError(f"cannot reach {host}: no network?") from None
        raise DownloadError(f"cannot download {url}: {' '.join(str(error).split())}") from None
    except ValueError:
        raise DownloadError(
            f"{remote.name}: what came from {host} is not {expected.checksum} ({expected.origin}); it was not kept"
        ) from None
    finally:
        for answer in answers:
            answer.close()  # pooch leaves the connection open when a download fails


class _Progress:
    """What pooch takes for a progress bar: it sets `total` when the server answers, then calls the methods."""

    def __init__(self, name: str, tell: Tell) -> None:
        self.name, self.tell = name, tell
        self.total: int | None = None
        self.done = 0

    def update(self, size: int) -> None:
        self.done += size  # a whole chunk even if the last one was shorter
        self.tell(self.name, min(self.done, self.total or self.done), self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing: whoever shows the progress ends it."""
