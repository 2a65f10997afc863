"""What the sections of study and deficit reports share: a title, findings, figures, and texts for page and summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bitcycle._support.charts.drawing import Drawing
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle.lab.report.labels import AnyAnalysis, better_text
from bitcycle.lab.report.tables import picking, plain
from bitcycle.lab.report.wording import details, headline
from bitcycle.lab.statistics.analysis import Claim, Verdict

ICONS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.OPEN: "?"}


@dataclass(frozen=True)
class Figure:
    """A figure as files."""

    name: str
    """The beginning of the file names."""
    title: str
    drawing: Drawing


class Section(ABC):
    """Everything about one question, drawn once."""

    anchor: str
    analysis: AnyAnalysis
    figures: list[Figure]
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
    def body(self) -> Markup:
        """Return the plots and tables of the page."""

    @abstractmethod
    def tables(self) -> list[str]:
        """Return the tables of the summary in Markdown."""

    def claims(self, most: int | None = None) -> Markup:
        """Return the first claims, or all of them, as a list for the page."""
        return tag("ul", *(self._claim(claim) for claim in self.analysis.claims[:most]), class_="claims")

    def _claim(self, claim: Claim) -> Markup:
        """A claim with its verdict, and the details one click below."""
        icon = tag("span", ICONS[claim.verdict], class_="icon", aria_hidden="true")
        badge = tag("span", icon, claim.verdict, class_=f"verdict {claim.verdict}")
        summary = tag("summary", headline(claim, self.analysis))
        return tag("li", badge, tag("details", summary, tag("p", details(claim, self.analysis))))

    def html(self, alone: bool) -> Markup:
        """Return the section of the page; the claims of a section that is alone are at the top of the page."""
        claims = "" if alone or not self.analysis.claims else part("Findings", "", self.claims())
        head = [tag("h2", self.analysis.title), tag("p", self.lead(), class_="lead"), *map(note, self.cautions())]
        return tag("section", *head, claims, self.body(), id=self.anchor, class_=self.linked)

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


def part(title: str, intro: str, *content: str, class_: str = "part") -> Markup:
    """Return a part of a section under its own heading."""
    return tag("div", tag("h3", title), tag("p", intro, class_="intro") if intro else "", *content, class_=class_)


def note(sentence: str) -> Markup:
    """Return a sentence about what is missing or limits what the numbers say."""
    return tag("p", sentence, class_="note")


def two_sizes(class_: str, wide: Drawing | None, narrow: Drawing | None, missing: str) -> Markup:
    """Return a drawing for wide and for narrow pages, of which the style sheet shows one, with its key."""
    if wide is None or narrow is None:
        return note(missing)
    items = []
    for sample, meaning in wide.key:
        drawn = tag("svg", sample, viewBox="0 0 30 16", class_="sample", aria_hidden="true") if sample else ""
        items.append(tag("li", drawn, meaning))
    both = [each.inline(f"plot {class_} {name}", "group") for each, name in ((wide, "wide"), (narrow, "narrow"))]
    return join([*both, tag("ul", *items, class_="key")])


def panels(drawings: Iterable[tuple[Drawing, str]]) -> Markup:
    """Return panels side by side, each under its title and a sentence, if it has one."""
    figures = []
    for drawing, sentence in drawings:
        meaning = tag("span", sentence, class_="hint meaning") if sentence else ""
        caption = tag("figcaption", tag("strong", drawing.title), meaning)
        figures.append(tag("figure", caption, drawing.inline(), class_="panel"))
    return tag("div", *figures, class_="panels")


def legend(label: str, groups: Iterable[tuple[str, Iterable[Markup]]]) -> Markup:
    """Return groups of chips, each under its title."""
    boxes = [tag("div", tag("span", title, class_="hint"), *chips, class_="chip-group") for title, chips in groups]
    return tag("div", *boxes, class_="chips", role="group", aria_label=label)


def chip(label: str, sign: Markup, key: str, tip: str) -> Markup:
    """Return a legend entry, which is a button that selects."""
    return tag("button", sign, label, data_tip=tip, **picking(key, "chip"))
