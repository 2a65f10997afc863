"""Optional dependencies: a missing one raises a one-line error that names the extra to install."""

from __future__ import annotations

import importlib
import warnings
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


class MissingExtraError(ImportError):
    """An optional dependency is not installed."""


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module.

    Args:
        module: Dotted name of the module.
        extra: The extra of bitcycle that installs it.
        purpose: What the module is needed for; the error message starts with it.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: If the module is not installed.

    Example:
        >>> need("nosuchmodule", "study", "drawing")
        Traceback (most recent call last):
            ...
        bitcycle._support.extras.MissingExtraError: drawing needs nosuchmodule: pip install 'bitcycle[study]'
    """
    try:
        with warnings.catch_warnings():  # a dependency's own import warnings are of no use to the user
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise _missing(error.name, extra, purpose) from None


def folder_of(package: str, extra: str, purpose: str) -> Path:
    """Return the folder of an optional package, which is not imported; see :func:`need`.

    Raises:
        MissingExtraError: If the package is not installed.
    """
    found = find_spec(package)
    if found is None or found.origin is None:
        raise _missing(package, extra, purpose)
    return Path(found.origin).parent


def _missing(module: str, extra: str, purpose: str) -> MissingExtraError:
    return MissingExtraError(f"{purpose} needs {module}: pip install 'bitcycle[{extra}]'", name=module)
