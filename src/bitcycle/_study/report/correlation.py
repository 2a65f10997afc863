"""How quality goes with cost, and whether precision early in training matters at equal cost."""

from __future__ import annotations

import math

from bitcycle._study.analysis import Analysis, Comparison, Correlation, EqualCost
from bitcycle._study.report import words
from bitcycle._study.report.facts import places_of
from bitcycle._study.report.interval_plot import interval_plot
from bitcycle._study.report.markup import Markup, join, tag

HEADS = ["correlation", "over", "value", "95 % interval", f"from {words.MINUS}1 to 1"]


def correlation_words(correlation: Correlation) -> list[str]:
    """A row of the table of correlations.

    >>> correlation_words(Correlation("Pearson", "settings", 0.52, 0.1, 0.8, 11))
    ['Pearson', '11 settings', '+0.52', '+0.10 to +0.80']
    """
    low, high = (words.fixed(value, 2, signed=True) for value in (correlation.low, correlation.high))
    interval = "no interval" if words.NONE in (low, high) else f"{low} to {high}"
    of = words.count(correlation.count, correlation.over.removesuffix("s"))
    return [correlation.kind, of, words.fixed(correlation.value, 2, signed=True), interval]


def correlation_table(correlations: list[Correlation]) -> Markup:
    """The correlations with their intervals, also drawn."""
    if not correlations:
        return tag("p", "There are too few settings for a correlation.", class_="note")
    rows = []
    for correlation in correlations:
        first, *cells = correlation_words(correlation)
        drawn = interval_plot(correlation.value, correlation.low, correlation.high, 1.0)
        rows.append(tag("tr", tag("th", first, scope="row"), *(tag("td", x) for x in cells), tag("td", drawn)))
    return _table("Correlation of quality with cost", HEADS, rows)


def equal_cost_part(analysis: Analysis) -> Markup:
    """The schedules of equal cost, ordered by early precision, and the pairs; says so if there was no such test."""
    test = analysis.equal_cost
    if test is None:
        return tag("p", "This study has no schedules of equal cost that could be compared.", class_="note")
    return join([tag("p", _trend_words(test)), _pairs(analysis, test)])


def _trend_words(test: EqualCost) -> str:
    value, interval = correlation_words(test.spearman)[2:]
    same = "nearly the same" if math.isnan(test.spread) else f"the same within {words.percent(test.spread)}"
    return (
        f"{words.listed(test.labels)} cost {same}; named in this order, they spend less and less precision on "
        f"the first tenth of training. The rank correlation of early bits with quality is {value} ({interval}); the "
        f"probability of so clear a trend by chance alone is {words.p_value(test.p)} (Page's test, one-sided)."
    )


def _pairs(analysis: Analysis, test: EqualCost) -> Markup:
    if not test.pairs:
        return Markup("")
    rows = [
        tag("tr", tag("th", cells[0], scope="row"), *(tag("td", cell) for cell in cells[1:]))
        for cells in pair_rows(analysis, test)
    ]
    heads = ["starts high, against starts low", "better by", "95 % interval", "p (Holm)", "verdict on the first"]
    return _table("Pairs of equal cost", heads, rows)


def pair_rows(analysis: Analysis, test: EqualCost) -> list[list[str]]:
    """The pairs in words."""
    return [_pair_words(analysis, *pair) for pair in test.pairs]


def _pair_words(analysis: Analysis, first: str, second: str, comparison: Comparison) -> list[str]:
    places = places_of(analysis)
    return [
        f"{first} against {second}",
        words.fixed(comparison.difference.mean, places, signed=True),
        words.interval(comparison.difference, places, signed=True),
        words.p_value(comparison.corrected),
        comparison.outcome,
    ]


def _table(label: str, heads: list[str], rows: list[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    table = tag("table", head, tag("tbody", *rows))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)
