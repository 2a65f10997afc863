"""The section of one question: its plots, its table, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import Analysis
from bitcycle._study.report import words
from bitcycle._study.report.correlation import correlation_table, equal_cost_part
from bitcycle._study.report.cost_plot import cost_key, cost_plot
from bitcycle._study.report.courses import bits_key, measurement_plots, training_plots
from bitcycle._study.report.facts import better_words, diverged, key_of, question_words, tip_lines
from bitcycle._study.report.findings import claims_list
from bitcycle._study.report.look import kinds_of
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle._study.report.schedule_plot import schedule_plots
from bitcycle._study.report.settings_table import settings_table
from bitcycle._study.report.svg import mark
from bitcycle._study.wording import recommendations
from bitcycle.experiments.result import RunResult


def section(number: int, analysis: Analysis, records: Sequence[RunResult], alone: bool) -> Markup:
    """Everything about one question, under the anchor ``task-<number>``; its claims unless it is alone.

    The page opens with the claims of a question that is alone.
    """
    measured = measurement_plots(analysis, records)
    parts = [
        tag("h2", analysis.title),
        tag("p", question_words(analysis) + ".", class_="lead"),
        _warnings(analysis),
        "" if alone or not analysis.claims else _part("What was found", "", claims_list(analysis.claims, analysis)),
        _chips(analysis),
        _part("Quality against cost", "", cost_plot(analysis), cost_key(analysis)),
        _advice(analysis),
        _part(
            "The schedules",
            "The bits of each schedule from the first step of training to the last.",
            schedule_plots(analysis),
        ),
        _part("All figures", _table_words(analysis), settings_table(analysis)),
        _part("Training curves", _curve_words(analysis), bits_key(analysis), training_plots(analysis, records)),
        _part(
            "Measurements along training",
            "Means over the seeds, coloured by group. Point at a line for its name, or select a schedule.",
            measured,
        )
        if measured
        else "",
        _part("Does quality go with cost?", _correlation_words(analysis), correlation_table(analysis.correlations)),
        _part("Does early precision matter?", "", equal_cost_part(analysis)),
    ]
    return tag("section", *parts, id=f"task-{number}", class_="linked")


def _part(title: str, intro: str, *content: str) -> Markup:
    explained = tag("p", intro, class_="intro") if intro else ""
    return tag("div", tag("h3", title), explained, *content, class_="part")


def _chips(analysis: Analysis) -> Markup:
    """The settings by group, with the marks of the plots: a legend, and buttons that select."""
    groups = []
    for kind, members in kinds_of(analysis.settings):
        chips = []
        for setting in members:
            sign = tag("svg", mark(kind, 7, 7, 4.6), viewBox="0 0 14 14", class_="chip-mark", aria_hidden="true")
            tip = "\n".join(tip_lines(analysis, setting))
            key = key_of(analysis, setting)
            button = {"type": "button", "data_setting": key, "aria_pressed": "false", "data_tip": tip}
            chips.append(tag("button", sign, setting.label, class_=f"chip kind-{kind.name}", **button))
        groups.append(tag("div", tag("span", kind.title, class_="hint"), *chips, class_="chip-group"))
    return tag("div", *groups, class_="chips", role="group", aria_label="Select a schedule in all plots")


def _warnings(analysis: Analysis) -> Markup:
    """What keeps the figures from saying all that they might."""
    notes = []
    if analysis.baseline is None:
        notes.append("There is no static baseline at the largest width, so nothing is compared with one.")
    lost = [setting.label for setting in analysis.settings if diverged(setting)]
    if lost:
        notes.append(f"{words.listed(lost)} diverged: in the table, but not in the plots.")
    if analysis.settings and all(len(setting.qualities) <= 1 for setting in analysis.settings):
        notes.append("There is one seed for each schedule: no intervals, and differences may be chance.")
    return join(tag("p", note, class_="note") for note in notes)


def _advice(analysis: Analysis) -> Markup:
    items = [tag("li", sentence) for sentence in recommendations(analysis)]
    return tag("div", tag("h3", "What it means for your choice"), tag("ul", *items), class_="part advice")


def _table_words(analysis: Analysis) -> str:
    base = analysis.baseline
    text = f"The {analysis.metric} is a mean over seeds ({better_words(analysis)})."
    if base:
        text += (
            f" Differences from {base} are paired by seed, and positive where a schedule is better; p values are"
            " corrected for the number of schedules by Holm's method."
        )
    return text


def _curve_words(analysis: Analysis) -> str:
    return (
        f"The {analysis.metric} on the validation part, as a mean over seeds ({better_words(analysis)}); the other"
        " groups are grey. The strips show the bits of the same steps. A steep start may lie outside of the frame."
    )


def _correlation_words(analysis: Analysis) -> str:
    return (
        "Of quality with cost, over schedules and static baselines: +1 if dearer is always better, 0 if cost does not"
        " matter. Full precision is left out, its cost being of another kind."
    )
