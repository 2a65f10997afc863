"""Checkpoints: written whole or not at all, read without executing anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

NAME = "checkpoint.pt"
FORMAT = 1


def save_checkpoint(folder: Path, run: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a checkpoint beside the old one, make sure it is on the disk, then put it in its place."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{NAME}.{os.getpid()}"
    try:
        with unfinished.open("wb") as file:
            torch.save({"format": FORMAT, "run": run, "state": state}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / NAME)
    except (OSError, RuntimeError) as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error.__context__, OSError):  # torch hides a full disk behind an error of its own
            raise OSError(error.__context__.errno, error.__context__.strerror, str(folder / NAME)) from None
        raise


def load_checkpoint(folder: Path, run: dict[str, Any]) -> dict[str, Any] | None:
    """The state of the checkpoint in a folder; none if there is no checkpoint. One of another run is refused."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        found = torch.load(path, weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path} is not a readable checkpoint: move it away to start anew ({str(error).splitlines()[0]})"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} was written by another version: move it away to start anew")
    different = sorted(key for key in run if found["run"].get(key) != run[key])
    if different:
        said = ", ".join(f"{key} {found['run'].get(key)!r} instead of {run[key]!r}" for key in different)
        raise ValueError(f"{path} belongs to another run ({said}): choose another folder")
    state: dict[str, Any] = found["state"]
    return state
