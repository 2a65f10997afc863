"""Optional dependencies: a missing one raises a one-line error that names the extra to install."""

from __future__ import annotations

import importlib
import warnings
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
        raise MissingExtraError(
            f"{purpose} needs {error.name}: pip install 'bitcycle[{extra}]'", name=error.name
        ) from None
