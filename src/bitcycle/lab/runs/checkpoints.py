"""Checkpoints: written completely or not at all, checked when they are read, and read without executing anything.

A checkpoint is a dictionary of the ``format``, the ``run`` (:meth:`RunConfig.as_dict`) and the ``state`` of the
training, as :func:`torch.save` writes it. That file is a zip archive; its comment holds a SHA-256 digest of everything
before it, so that a checkpoint in which a single bit has changed is found out. The previous checkpoint is kept beside
the latest.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

# torch is imported where it is needed: the process that drives a study only asks whether there is a checkpoint.

NAME = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"
UNFINISHED = "checkpoint.unfinished.pt"
FORMAT = 3

_MARK = b"bitcycle sha256 "
_COMMENT = len(_MARK) + 2 * hashlib.sha256().digest_size


class CheckpointError(OSError):
    """A checkpoint could not be read or written because of the disk, not because of the run."""


class DamagedError(ValueError):
    """A checkpoint does not hold what was written."""


def save_checkpoint(folder: Path, run: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a checkpoint under another name, flush it to disk, and only then rename it; keep the previous one.

    Raises:
        CheckpointError: If the disk is full or fails. The checkpoints that were there are kept.
    """
    import torch

    with _as_checkpoint_error(folder / NAME):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / UNFINISHED
        try:
            with unfinished.open("w+b") as file:
                torch.save({"format": FORMAT, "run": run, "state": state}, file)
                _append_digest(file)
                file.flush()
                os.fsync(file.fileno())
            if (folder / NAME).exists():
                (folder / NAME).replace(folder / PREVIOUS)
            unfinished.replace(folder / NAME)
            _flush_folder(folder)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def load_checkpoint(folder: Path, run: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state of the latest checkpoint in a folder that is not damaged.

    A damaged checkpoint is renamed and a line about it is logged.

    Args:
        folder: Where :func:`save_checkpoint` wrote it.
        run: The run that is to be resumed.

    Returns:
        The state, or ``None`` if the folder has no checkpoint.

    Raises:
        ValueError: If the checkpoint has an unknown format, or belongs to another run.
        CheckpointError: If the disk fails.
    """
    with _as_checkpoint_error(folder / UNFINISHED):
        (folder / UNFINISHED).unlink(missing_ok=True)  # of a process that was killed
    content = read_checkpoint(folder)
    if content is None:
        return None
    known = {"data"} if run.get("fingerprint") else set()  # the same data may be in several folders
    changed = {key: value for key, value in content["run"].items() if key not in known and value != run.get(key)}
    if changed:
        listed = ", ".join(f"{key} {value!r} instead of {run.get(key)!r}" for key, value in changed.items())
        raise ValueError(f"{folder / NAME} belongs to another run ({listed}): choose another folder")
    state: dict[str, Any] = content["state"]
    return state


def read_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Return the latest checkpoint in a folder that is not damaged, of whatever run: its ``run`` and its ``state``.

    A damaged checkpoint is renamed and a line about it is logged.

    Raises:
        ValueError: If the checkpoint has an unknown format.
        CheckpointError: If the disk fails.
    """
    for name in (NAME, PREVIOUS):
        path = folder / name
        try:
            with _as_checkpoint_error(path):
                return _read(path)
        except FileNotFoundError:
            continue
        except DamagedError as error:
            _set_aside(path, str(error))
    return None


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder has a checkpoint."""
    return (folder / NAME).exists() or (folder / PREVIOUS).exists()


def _append_digest(file: IO[bytes]) -> None:
    """Write the digest of the archive as its comment, whose length is in the last two bytes of an archive without."""
    file.seek(-2, os.SEEK_END)
    file.write(_COMMENT.to_bytes(2, "little"))
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(0, os.SEEK_END)
    file.write(_MARK + digest.encode())


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Raises:
        DamagedError: If it is not what was written.
        ValueError: If it has an unknown format, or carries code.
    """
    import torch

    raw = path.read_bytes()
    intact = raw[-_COMMENT:] == _MARK + hashlib.sha256(raw[:-_COMMENT]).hexdigest().encode()
    if not intact and raw[-_COMMENT:].startswith(_MARK):
        raise DamagedError("its content does not match its digest")
    try:
        content: Any = torch.load(io.BytesIO(raw), weights_only=True)
    except Exception as error:
        # No accident turns a checkpoint into a plain pickle, or into one that names code.
        if raw.startswith(pickle.PROTO) or (isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error)):
            raise ValueError(
                f"{path} is not a readable checkpoint: it is a plain pickle or names code to run; move it away "
                "to start from scratch"
            ) from None
        raise DamagedError(str(error).partition("\n")[0]) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} was written by another version of bitcycle: move it away to start from scratch")
    if not intact:
        raise DamagedError("its digest is missing")
    if not (isinstance(content.get("run"), dict) and isinstance(content.get("state"), dict)):
        raise ValueError(f"{path} has no run or no state, so it is not a checkpoint of a run: choose another folder")
    return content


def _set_aside(path: Path, reason: str) -> None:
    """Rename a damaged checkpoint, so that it can be looked at and is in nobody's way."""
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    logging.getLogger("bitcycle").warning("%s is damaged and set aside as %s (%s)", path, aside.name, reason)


def _flush_folder(folder: Path) -> None:
    """Flush the names of a folder to disk, on file systems that can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _as_checkpoint_error(path: Path) -> Iterator[None]:
    """Raise a CheckpointError for an error of the disk, which torch may hide behind an error of its own."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError):
            raise CheckpointError(cause.errno, cause.strerror, str(path)) from None
        raise
