"""The progress bars of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from bitcycle.lab.format import count, short

if TYPE_CHECKING:
    from bitcycle.lab.runs.training import TrainingProgress
    from bitcycle.lab.studies.driver import StudyProgress


RESUME = "Run the same command again to resume."


class ProgressBar(Progress):
    """A progress bar on stderr, with the time that remains; nothing if stderr is not a terminal.

    Args:
        total: How many units there are, if that is known.
        description: A text after the bar.
        in_bytes: Whether the units are bytes, which are shown with their speed.
        resume: A sentence on how to resume what Ctrl-C stops.
    """

    status = ""
    """What is done, for the line that is printed if Ctrl-C stops it."""

    def __init__(
        self, total: float | None = None, description: str = "", in_bytes: bool = False, resume: str = ""
    ) -> None:
        console = Console(stderr=True)
        units = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (TaskProgressColumn(), TimeElapsedColumn())
        remaining = TextColumn("remaining"), TimeRemainingColumn(), TextColumn("{task.description}")
        columns = BarColumn(bar_width=24), *units, *remaining
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.resume = resume
        self.bar = self.add_task(description, total=total)

    def __exit__(self, kind: Any, *error: Any) -> None:
        self.stop()
        if kind is KeyboardInterrupt and self.resume:
            raise typer.Abort(f"{self.status}. {self.resume}")

    def show(self, completed: float, total: float | None = None, description: str | None = None) -> None:
        """Show how many units are done, and if given, how many there are and the text after the bar."""
        self.update(self.bar, completed=completed, total=total, description=description)


class DownloadBar(ProgressBar):
    """The progress of a download, file by file."""

    def __init__(self) -> None:
        super().__init__(description="connecting", in_bytes=True)
        self.file = ""

    def follow(self, name: str, done: int, total: int | None) -> None:
        """Show the progress."""
        if name != self.file:  # begin again at 0, so that the speed is that of this file
            self.file = name
            self.reset(self.bar, description=name)
        self.show(done, total)


class TrainingBar(ProgressBar):
    """The progress of a training, with loss, metric, bits and cost."""

    def __init__(self, steps: int, metric: str, resume: str) -> None:
        super().__init__(steps, resume=resume)
        self.metric = metric
        self.status = "no step is done"

    def follow(self, now: TrainingProgress) -> None:
        """Show the progress."""
        self.status = f"{now.step} of {count(now.steps, 'step')} done"
        metric = "" if now.metric is None else f"  {self.metric} {now.metric:.4f}"
        bits = "full" if now.bits is None else f"{now.bits} bits"
        cost = f"{short(int(now.bitops / 32**2))} MACs"
        self.show(now.step, description=f"loss {now.loss:.4f}{metric}  {bits}  {cost}")


class StudyBar(ProgressBar):
    """The progress of a study; if stderr is not a terminal, one line for each run that ends."""

    def __init__(self) -> None:
        super().__init__(description="starting", resume=RESUME)
        self.status = "no run is done"

    def follow(self, now: StudyProgress) -> None:
        """Show the progress."""
        self.status = now.status
        # Runs that were done before take no time, so they do not count in the estimate of the remaining time.
        before = now.finished_steps_before
        self.show(now.current_steps - before, now.planned_steps - before, self.status)
        if now.line:
            self.console.print(now.line, highlight=False, markup=False)
