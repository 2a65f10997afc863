"""What the sections of study and deficit reports share: a title, findings, figures, and texts for page and summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._study.analysis import Analysis, Claim, DeficitAnalysis
from bitcycle._study.report.findings import ICONS, claims_list
from bitcycle._study.report.labels import better_text
from bitcycle._study.report.tables import plain
from bitcycle._study.wording import details, headline
from bitcycle._support.charts.drawing import Drawing
from bitcycle._support.charts.markup import Markup, join, tag


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
    analysis: Analysis | DeficitAnalysis
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

    def html(self, alone: bool) -> Markup:
        """Return the section of the page; the claims of a section that is alone are at the top of the page."""
        claims = "" if alone or not self.analysis.claims else part("Findings", "", claims_list(self.analysis))
        head = [tag("h2", self.analysis.title), tag("p", self.lead(), class_="lead"), *map(note, self.cautions())]
        return tag("section", *head, claims, self.body(), id=self.anchor, class_=self.linked)

    def markdown(self, addresses: Sequence[str]) -> list[str]:
        """Return the blocks of the summary; ``addresses`` are those of the figures."""
        title = plain(self.analysis.title)
        metric = f"{self.analysis.metric} on the test set, {better_text(self.analysis)}."
        blocks = [f"## {title}", *map(plain, (self.lead(), metric, *self.cautions()))]
        blocks += ["\n".join(_claim(claim, self.analysis) for claim in self.analysis.claims)] * bool(
            self.analysis.claims
        )
        pictures = zip(self.figures, addresses, strict=False)
        blocks += [f"![{title}: {plain(figure.title)}]({address})" for figure, address in pictures]
        return blocks + self.tables()


def _claim(claim: Claim, analysis: Analysis | DeficitAnalysis) -> str:
    sentence = f"- {ICONS[claim.verdict]} **{claim.verdict}**: {plain(headline(claim, analysis))}"
    return f"{sentence}\n  - {plain(details(claim, analysis))}"


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
    drawn = [each.inline(f"plot {class_} {name}", "group") for each, name in ((wide, "wide"), (narrow, "narrow"))]
    return join([*drawn, key_list(wide)])


def key_list(drawing: Drawing) -> Markup:
    """Return the key of a drawing as a list."""
    items = [
        tag(
            "li",
            tag("svg", sample, viewBox="0 0 30 16", class_="sample", aria_hidden="true") if sample else "",
            meaning,
        )
        for sample, meaning in drawing.key
    ]
    return tag("ul", *items, class_="key") if items else Markup("")


def panels(drawings: Sequence[Drawing], sentences: Sequence[str] = ()) -> Markup:
    """Return panels side by side, each under its title and perhaps a sentence."""
    figures = []
    for i, drawing in enumerate(drawings):
        sentence = sentences[i] if sentences else ""
        meaning = tag("span", sentence, class_="hint meaning") if sentence else ""
        caption = tag("figcaption", tag("strong", drawing.title), meaning)
        figures.append(tag("figure", caption, drawing.inline(), class_="panel"))
    return tag("div", *figures, class_="panels") if figures else Markup("")


def chip(label: str, sign: Markup, key: str, tip: str) -> Markup:
    """Return a legend entry, which is a button that selects."""
    button = {"type": "button", "data_setting": key, "aria_pressed": "false", "data_tip": tip}
    return tag("button", sign, label, class_="chip", **button)
