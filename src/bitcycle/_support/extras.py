"""Optional dependencies: a missing one gives one line that names the extra to install."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType


class MissingExtraError(ImportError):
    """An optional dependency is not installed."""


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        with warnings.catch_warnings():  # what an extra says about its own imports is not for the user
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{purpose} needs {error.name}: pip install 'bitcycle[{extra}]'", name=error.name
        ) from None
