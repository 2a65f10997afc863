"""The table of settings: every figure of the plots, with intervals. The page can sort it by a column."""

from __future__ import annotations

import math

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.columns import Column, cell_of, table_of, with_drawing
from bitcycle._study.report.facts import against_words, diverged, key_of, places_of, saving_words
from bitcycle._study.report.look import kind_of
from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.report.svg import mark
from bitcycle._support.text import short


def columns(analysis: Analysis) -> list[Column[Setting]]:
    """The columns of the table on the page, and of the summary in Markdown."""
    places = places_of(analysis)
    base = analysis.baseline or "baseline"

    def quality(setting: Setting) -> str:
        return "diverged" if diverged(setting) else words.fixed(setting.quality.mean, places)

    def spread(setting: Setting) -> str:
        return words.NONE if diverged(setting) else words.interval(setting.quality, places)

    def difference(setting: Setting) -> str:
        return words.fixed(setting.against.difference.mean, places, signed=True) if setting.against else words.NONE

    def difference_interval(setting: Setting) -> str:
        return words.interval(setting.against.difference, places, signed=True) if setting.against else words.NONE

    return [
        Column("schedule", lambda s: s.label, lambda s: s.label, numeric=False),
        Column("saving group", lambda s: kind_of(s).name, lambda s: kind_of(s).name, numeric=False),
        Column("saving", saving_words, lambda s: 1 - s.relative_cost),
        Column(analysis.metric, quality, lambda s: s.quality.mean),
        Column("95 % interval", spread, lambda s: s.quality.low),
        Column(f"gain on {base}", difference, lambda s: s.against.difference.mean if s.against else math.nan),
        Column("its 95 % interval", difference_interval, lambda s: s.against.difference.low if s.against else math.nan),
        Column("verdict", lambda s: against_words(analysis, s), lambda s: against_words(analysis, s), numeric=False),
        Column("p (Holm)", lambda s: words.p_value(_p(s)), _p),
        Column("seeds", lambda s: str(len(s.qualities)), lambda s: len(s.qualities)),
        Column("Pareto front", lambda s: "yes" if s.on_front else "no", lambda s: float(s.on_front), numeric=False),
        Column("mean bits", lambda s: words.fixed(s.mean_bits, 2), lambda s: s.mean_bits),
        Column("bits in the first tenth", lambda s: words.fixed(s.early_bits, 2), lambda s: s.early_bits),
        Column("cost in BitOps", lambda s: _bitops(s.bitops), lambda s: s.bitops),
        Column("time a run", lambda s: words.duration(s.seconds), lambda s: s.seconds),
    ]


def _p(setting: Setting) -> float:
    return setting.against.corrected if setting.against else math.nan


def _bitops(bitops: float) -> str:
    return short(round(bitops)) if math.isfinite(bitops) else words.NONE


def settings_table(analysis: Analysis) -> Markup:
    """The table, in a container of its own that scrolls where the page is narrow."""
    shown = columns(analysis)
    rows = (_row(analysis, setting, shown) for setting in analysis.settings)
    return table_of(shown, rows, f"All settings of {analysis.title}, with intervals")


def _row(analysis: Analysis, setting: Setting, shown: list[Column[Setting]]) -> Markup:
    key = key_of(analysis, setting)
    cells = [_name(setting, key)]
    # Full precision is far off the others, and would squash their intervals.
    compared = [s.against for s in analysis.settings if s.against and kind_of(s).name != "full"]
    for column in shown[1:]:
        content = None
        if column.head == "its 95 % interval" and setting.against:
            content = with_drawing(column.cell(setting), setting.against, compared)
        cells.append(cell_of(column, setting, content))
    diverged_row = " diverged" if diverged(setting) else ""
    return tag("tr", *cells, class_=f"kind-{kind_of(setting).name}{diverged_row}", data_setting=key)


def _name(setting: Setting, key: str) -> Markup:
    sign = tag("svg", mark(kind_of(setting), 7, 7, 4.6), viewBox="0 0 14 14", class_="chip-mark", aria_hidden="true")
    button = tag("button", setting.label, type="button", class_="pick", data_setting=key, aria_pressed="false")
    return tag("th", sign, button, scope="row", data_sort=setting.label)
