"""What a report knows about its study, and what its sections share: a title, findings, figures, and texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from bitcycle.lab.report.labels import AnyAnalysis, better_text
from bitcycle.lab.report.quality_plots import Figure, Panels
from bitcycle.lab.report.rendering import plain, render
from bitcycle.lab.report.words import details, headline
from bitcycle.lab.statistics.analysis import Verdict

MAX_ROWS = 1000
"""The most rows of a table; the CSV file has all of them."""
ICONS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.OPEN: "?"}
FailedRun = tuple[str, int, str]
"""The schedule, the seed and the last line of the traceback."""


@dataclass(frozen=True)
class StudyInfo:
    """How a study was run, and how to run it again.

    >>> StudyInfo("digits", "bitcycle study image", planned=39, done=31).finished
    False
    """

    name: str
    command: str
    """The command line that repeats the study."""
    planned: int
    """The number of runs."""
    done: int
    failed: list[FailedRun] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    started: str = ""
    """When the first run began, in ISO format."""
    ended: str | None = None
    """When the last run ended; None if it is not known."""
    seconds: float = 0.0
    """Total time of all runs."""
    workers: int | None = None
    """None if it is not known."""
    plan: str = ""
    """The plan as TOML text, if there was one."""

    @property
    def finished(self) -> bool:
        """Whether all planned runs are done."""
        return self.done >= self.planned


class Section(ABC):
    """Everything about one question."""

    anchor: str
    analysis: AnyAnalysis
    template: str
    """The template of its plots and tables."""
    figures: Sequence[Figure | Panels]
    """The figures that are files."""
    main_claims: int
    """The number of claims at the top of a page with several sections."""
    linked: str | None = None
    """The class of a section in which a selection holds for all of its parts."""

    @abstractmethod
    def lead(self) -> str:
        """Return what was asked and run."""

    @abstractmethod
    def cautions(self) -> list[str]:
        """Return what limits the conclusions."""

    @abstractmethod
    def tables(self) -> list[str]:
        """Return the tables of the summary in Markdown."""

    def body(self) -> Markup:
        """Return the plots and tables of the page."""
        return render(self.template, section=self, better_text=better_text, max_rows=MAX_ROWS)

    def markdown(self, addresses: Sequence[str]) -> list[str]:
        """Return the blocks of the summary; ``addresses`` are those of the figures."""
        analysis, title = self.analysis, plain(self.analysis.title)
        metric = f"{analysis.metric} on the test set, {better_text(analysis)}."
        claims = [
            f"- {ICONS[claim.verdict]} **{claim.verdict}**: {plain(headline(claim, analysis))}\n"
            f"  - {plain(details(claim, analysis))}"
            for claim in analysis.claims
        ]
        return [
            f"## {title}",
            *map(plain, (self.lead(), metric, *self.cautions())),
            *(["\n".join(claims)] if claims else []),
            *(f"![{title}: {plain(figure.title)}]({at})" for figure, at in zip(self.figures, addresses, strict=False)),
            *self.tables(),
        ]
