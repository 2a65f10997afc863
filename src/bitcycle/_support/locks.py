"""Locks between processes: the operating system releases them when their process ends, however it ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on this system: locks then exclude nobody
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """An exclusive lock, held by the process that took it until it is released or the process ends.

    The file is removed on release, so that no lock files are left behind. A process that waited for the removed file
    would hold a lock that nobody else sees, so :meth:`take` checks that the file it locked is still in its place.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lock = FileLock.take(Path(folder) / "lock")
        ...     print(FileLock.take(Path(folder) / "lock"))
        ...     lock.release()
        ...     FileLock.take(Path(folder) / "lock").release()
        None
    """

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self._file = path, file

    @classmethod
    def take(cls, path: Path, wait: bool = False) -> FileLock | None:
        """Take a lock.

        Args:
            path: The file to lock. Its folder must exist.
            wait: Whether to wait while another process holds the lock.

        Returns:
            The lock, or None if another process holds it and ``wait`` is false.
        """
        while True:
            file = path.open("a")
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if _is_at(path, file):
                    return cls(path, file)
            except BlockingIOError:
                file.close()
                return None
            except BaseException:
                file.close()
                raise
            file.close()  # the holder before removed this file

    def release(self) -> None:
        """Release the lock and remove its file."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
