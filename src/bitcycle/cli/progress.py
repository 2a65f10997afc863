"""The progress bar of all commands."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class ProgressBar:
    """A progress bar on stderr, with the time that remains; nothing if stderr is not a terminal.

    Args:
        total: How many units there are, if that is known.
        description: A text after the bar.
        in_bytes: Whether the units are bytes, which are shown with their speed.
    """

    def __init__(self, total: float | None = None, description: str = "", in_bytes: bool = False) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        console = Console(stderr=True)
        counted = (
            [rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn()]
            if in_bytes
            else [rich_progress.TaskProgressColumn(), rich_progress.TimeElapsedColumn()]
        )
        self._progress = rich_progress.Progress(
            rich_progress.BarColumn(bar_width=24),
            *counted,
            rich_progress.TextColumn("remaining"),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(description, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()

    def update(self, completed: float, total: float | None = None, description: str | None = None) -> None:
        """Set how many units are done, and if given, how many there are and the text after the bar."""
        changes: dict[str, Any] = {"completed": completed, "total": total, "description": description}
        self._progress.update(self._task, **{key: value for key, value in changes.items() if value is not None})

    def restart(self, description: str) -> None:
        """Begin again at 0, so that the speed and the remaining time are those of what follows."""
        self._progress.reset(self._task, description=description)

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, highlight=False, markup=False)
