"""What the sections of study and deficit reports share: a title, findings, figures, and texts for page and summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from markupsafe import Markup

from bitcycle.lab.report.figure import Figure
from bitcycle.lab.report.labels import AnyAnalysis, better_text
from bitcycle.lab.report.rendering import render
from bitcycle.lab.report.tables import plain
from bitcycle.lab.report.wording import details, headline
from bitcycle.lab.statistics.analysis import Verdict

MAX_ROWS = 1000
"""The most rows of a table; the CSV file has all of them."""
ICONS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.OPEN: "?"}


class Section(ABC):
    """Everything about one question."""

    anchor: str
    analysis: AnyAnalysis
    template: str
    """The template of its plots and tables."""
    figures: list[Figure]
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
