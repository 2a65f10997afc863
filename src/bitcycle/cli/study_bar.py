"""The live progress of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bitcycle._study.driver import StudyProgress


class StudyBar:
    """A live progress bar of a whole study; where there is no terminal, a line for each run that ends."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            transient=True,
        )
        self.task = self.progress.add_task("starting", total=None)
        self.said = "nothing is done"
        self.latest: object = None

    def __enter__(self) -> StudyBar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        self.progress.stop()

    def update(self, now: StudyProgress) -> None:
        kept = f" ({now.kept} from before)" if now.kept else ""
        failed = f", {now.failed} failed" if now.failed else ""
        self.said = f"{now.done} of {now.runs} runs done{kept}{failed}"
        # What was there before takes no time, so it does not count in the estimate of what is left.
        self.progress.update(
            self.task,
            total=now.steps - now.steps_kept,
            completed=now.steps_now - now.steps_kept,
            description=self.said,
        )
        if now.latest is not None and now.latest is not self.latest:
            self.latest = now.latest
            run = now.latest.run
            came = f"{now.latest.test:.4f}" if hasattr(now.latest, "test") else "failed"
            self.progress.console.print(
                f"{now.done + now.failed:>4}/{now.runs}  {run.task} {run.schedule} seed {run.seed}: {came}",
                highlight=False,
                markup=False,
            )
