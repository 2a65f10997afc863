"""Checkpoints: written completely or not at all, and read without executing anything.

A checkpoint is a dictionary of the ``format``, the ``run`` (:meth:`RunConfig.as_dict`) and the ``state`` of the
training. Format 1, of bitcycle 0.1, has other names for some entries and is still read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from bitcycle.experiments.run_config import upgraded

NAME = "checkpoint.pt"
FORMAT = 2


def save_checkpoint(folder: Path, run: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a checkpoint: to a temporary file, flushed to disk, which then replaces the previous checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{NAME}.{os.getpid()}"
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, "run": run, "state": state}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / NAME)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error.__context__, OSError):  # torch hides a full disk behind an error of its own
            raise OSError(error.__context__.errno, error.__context__.strerror, str(folder / NAME)) from None
        raise


def load_checkpoint(folder: Path, run: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state of the checkpoint in a folder.

    Args:
        folder: Where :func:`save_checkpoint` wrote it.
        run: The run that is to be resumed.

    Returns:
        The state, or ``None`` if the folder has no checkpoint.

    Raises:
        ValueError: If the checkpoint is damaged, has an unknown format, or belongs to another run.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        content = torch.load(path, weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is not a readable checkpoint: move it away to start from scratch ({reason})"
        ) from error
    known = content.get("format") if isinstance(content, dict) else None
    if known == 1:
        content = _from_format_1(content)
    elif known != FORMAT:
        raise ValueError(f"{path} was written by another version of bitcycle: move it away to start from scratch")
    different = sorted(key for key in run if content["run"].get(key) != run[key])
    if different:
        differences = ", ".join(f"{key} {content['run'].get(key)!r} instead of {run[key]!r}" for key in different)
        raise ValueError(f"{path} belongs to another run ({differences}): choose another folder")
    state: dict[str, Any] = content["state"]
    return state


def _from_format_1(content: dict[str, Any]) -> dict[str, Any]:
    state = {"diagnostics" if name == "measurements" else name: part for name, part in content["state"].items()}
    return {"format": FORMAT, "run": upgraded(content["run"]), "state": state}
