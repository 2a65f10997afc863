"""Locks between processes: the operating system releases them when their process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

# filelock is imported where it is needed, so that `bitcycle --help` stays fast.


def try_lock(path: Path) -> BaseFileLock | None:
    """Lock a file in an existing folder, or return None if the lock is taken, be it by this process.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lock = try_lock(Path(folder) / "lock")
        ...     print(try_lock(Path(folder) / "lock"))
        ...     unlock(lock)
        ...     unlock(try_lock(Path(folder) / "lock"))
        None
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; wait for it as long as another process holds it."""
    from filelock import FileLock

    lock = FileLock(path)
    lock.acquire()
    try:
        yield
    finally:
        unlock(lock)


def unlock(lock: BaseFileLock) -> None:
    """Remove the file of a lock and release the lock.

    A process that waits for the removed file finds out that it is not in its place, and locks the new one.
    """
    with suppress(PermissionError):  # an open file cannot be removed on Windows
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
