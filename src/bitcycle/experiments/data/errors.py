"""What goes wrong with data: one error, one line."""

from __future__ import annotations


class DataError(ValueError):
    """A file or folder of data cannot be used; the message names it, what is wrong, and what would be right.

    >>> str(DataError("cora/ind.cora.x: is empty; it should be a pickle"))
    'cora/ind.cora.x: is empty; it should be a pickle'
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # one line, whatever a file name or a library's message holds
