"""What :func:`bitcycle.study` returns: the analysis of a study as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bitcycle.lab.format import count
from bitcycle.lab.report.labels import AnyAnalysis
from bitcycle.lab.report.words import analysis_text
from bitcycle.lab.runs.result import RunFailure
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis, Setting


@dataclass(frozen=True)
class StudyRow:
    """One setting of a study: a schedule with all its seeds."""

    question: str
    """The task with what distinguishes it in the study; settings of the same question are compared."""
    setting: str
    """A short name, unique within the question: ``CR``, ``static 8``, ``full``."""
    schedule: str
    """The schedule as a spec."""
    seeds: int
    """Finished runs."""
    mean: float
    """The metric on the test set, mean over the seeds."""
    low: float
    """The lower end of its 95 % interval; NaN with one seed."""
    high: float
    """The upper end."""
    cost: float
    """The cost of training, divided by that of the baseline, static q_max; NaN without a baseline."""
    bitops: float
    """The cost of training in BitOps."""
    difference: float
    """The mean difference from the baseline over shared seeds, positive is better; NaN for the baseline."""
    p: float
    """The p-value of the difference, with Holm's correction; NaN for the baseline and with fewer than two seeds."""
    outcome: str
    """``better``, ``worse``, ``no significant difference``, ``too few seeds``, ``diverged``; empty for the baseline."""
    acceptable: bool | None
    """Whether it is as good as the baseline, within the margin; None for the baseline."""

    @classmethod
    def of(cls, analysis: Analysis, setting: Setting) -> StudyRow:
        """Return a setting of an analysis as a row."""
        against, acceptable, nan = setting.against, setting.acceptable, float("nan")
        return cls(
            question=analysis.title,
            setting=setting.label,
            schedule=setting.condition.schedule,
            seeds=len(setting.qualities),
            mean=setting.quality.mean,
            low=setting.quality.low,
            high=setting.quality.high,
            cost=setting.relative_cost,
            bitops=setting.bitops,
            difference=against.difference.mean if against else nan,
            p=against.corrected if against else nan,
            outcome=str(against.outcome) if against else "",
            acceptable=acceptable.accepted if acceptable else None,
        )


@dataclass(frozen=True)
class StudyResult:
    """The analysis of a study, as a table with one row for each setting.

    ``print(result)`` shows it, ``pandas.DataFrame(result.rows)`` makes a data frame of it, and
    ``result.report("out/report")`` writes the report.
    """

    name: str
    """The name of the study in its store."""
    store: Path
    """The SQLite file with all results."""
    planned: int
    """Runs of the study."""
    done: int
    """Runs that are done."""
    failures: list[RunFailure]
    """Runs that failed, with their tracebacks."""
    analyses: list[Analysis] = field(repr=False)
    """One analysis for each question: a task with its model, data, options and length of training."""
    deficits: list[DeficitAnalysis] = field(default_factory=list, repr=False)
    """One analysis for each deficit experiment."""
    margin: float | None = None
    """The largest acceptable loss of quality, in units of the metric; None: 1 % of the baseline's mean."""

    @property
    def rows(self) -> list[StudyRow]:
        """All settings, the cheapest of each question first."""
        return [StudyRow.of(analysis, setting) for analysis in self.analyses for setting in analysis.settings]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, for tables and files."""
        return [asdict(row) for row in self.rows]

    def report(self, folder: str | Path) -> Path:
        """Write the report into a folder: an HTML page, figures, tables and a Markdown summary.

        Returns:
            The HTML page.
        """
        from bitcycle.lab.studies.reporting import report
        from bitcycle.lab.studies.store import Store

        with Store(self.store, must_exist=True) as opened:
            report(opened, self.name, Path(folder), self.margin)
        return Path(folder) / "report.html"

    def __str__(self) -> str:
        analyses: list[AnyAnalysis] = [*self.analyses, *self.deficits]
        return "\n\n".join([*map(analysis_text, analyses), *self._problems()])

    def _repr_html_(self) -> str:
        return Markup("<pre>{}</pre>").format(self)

    def _problems(self) -> Iterator[str]:
        if self.done < self.planned:
            yield f"{self.done} of {count(self.planned, 'run')} done"
        for failure in self.failures:
            yield f"failed: {failure.run.schedule} seed {failure.run.seed}: {failure.reason}"
