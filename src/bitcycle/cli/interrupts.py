"""Ctrl-C that does not get lost."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Interrupt:
    """Within it, Ctrl-C raises KeyboardInterrupt, and :meth:`check` raises it again.

    Python drops an exception that arises in a callback, of a weak reference or of a garbage collection; the one of
    Ctrl-C may fall just there. Where Ctrl-C is ignored, as in a job of ``nohup``, it stays so.

    >>> with Interrupt() as interrupt:
    ...     interrupt.check()
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Interrupt:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Stop if Ctrl-C was pressed."""
        if self.asked:
            raise KeyboardInterrupt
