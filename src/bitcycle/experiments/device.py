"""Devices by name, checked before anything is begun on them."""

from __future__ import annotations

import torch


def check_device(name: str) -> None:
    """Raise a ValueError of one line unless a tensor can be put there.

    >>> check_device("cpu")
    """
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise ValueError(f"the device {name!r} cannot be used here: {reason}") from None
