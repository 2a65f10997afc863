"""The section of one question of a study: its plots, its tables, and what follows from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.columns import (
    CORRELATION_COLUMNS,
    as_estimate,
    operand_columns,
    pair_columns,
    setting_columns,
)
from bitcycle.lab.report.labels import FULL, GROUPS, Kind, by_kind, kind_of
from bitcycle.lab.report.line_plots import VALIDATION, Curves, Line, diagnostic_plots, line_plot, settled_axis
from bitcycle.lab.report.quality_plots import Figure, Panels, cost_plot
from bitcycle.lab.report.rendering import RowStyle, html_table, markdown_table, plain, reach_of
from bitcycle.lab.report.schedule_panels import Panel, Track, panels, tracks
from bitcycle.lab.report.section import MAX_ROWS, Section
from bitcycle.lab.report.words import recommendations
from bitcycle.lab.statistics.analysis import Analysis, Setting

MARKDOWN_COLUMNS = 11
"""The summary shows the first columns of the table, and those of operands; the CSV file has all of them."""


class StudySection(Section):
    """Everything about one group of comparable runs."""

    main_claims = 2
    linked = "linked"
    template = "study.html"
    analysis: Analysis

    def __init__(self, number: int, analysis: Analysis, curves: Curves) -> None:
        self.anchor, self.analysis, self.advice = f"task-{number}", analysis, recommendations(analysis)
        self.settings = labels.drawn_settings(analysis)
        self.cost = cost_plot(analysis)
        self.schedules = self._schedule_panels()
        self.training = self._training_panels(self._lines(curves, VALIDATION))
        names = curves.names(setting.condition for setting in self.settings)
        steps = analysis.comparison_group.steps
        self.diagnostics = diagnostic_plots(names, lambda name: self._lines(curves, name), steps)
        metric = f"validation {analysis.metric}, mean over seeds, {labels.better_text(analysis)}"
        training = Panels("curves", "training curves", metric, self.training) if self.training else None
        self.figures = [figure for figure in (self.cost, training, self.schedules) if figure]

    def _lines(self, curves: Curves, name: str) -> list[Line]:
        lines = []
        drawn: Counter[str] = Counter()  # lines of each panel, which differ by their dashes
        for setting in self.settings:
            points, kind = curves.mean(setting.condition, name), kind_of(setting)
            if len(points) > 1:
                panel = kind.name if kind.name in GROUPS else ""
                compared = labels.has_cost(setting) and not setting.baseline
                tip = fmt.cost_phrase(setting.relative_cost) if compared else ""
                lines.append(Line(setting.label, kind.tint, points, drawn[panel], tip))
                drawn[panel] += 1
        return lines

    def _schedule_panels(self) -> Figure | None:
        """A panel per schedule whose bits are known, apart from full precision; several where operands differ."""
        drawn = []
        for setting in self.settings:
            words = f"{setting.mean_bits:.2f} bits"
            if setting.label != self.analysis.baseline and setting.relative_cost <= labels.EQUAL:
                words += f", {fmt.cost_phrase(setting.relative_cost)}"
            known = [] if kind_of(setting) is FULL else _known_tracks(setting)
            for each in known:
                note = words if len(known) == 1 else f"{each.name}: {each.spec}"
                drawn.append(Panel(setting.label, note, each, kind_of(setting).colour, self.tip(setting)))
        if not drawn:
            return None
        return Figure("schedules", "bits over training", panels(drawn), panels(drawn, columns=2, width=150))

    def _training_panels(self, lines: Sequence[Line]) -> list[Figure]:
        """The validation metric: a panel per group, all on the same scale, the baselines together."""
        axis = settled_axis(lines)
        groups = [(kind.title, [each for each in lines if each.tint == kind.tint]) for kind in GROUPS.values()]
        rest = [each for each in lines if each.tint not in {kind.tint for kind in GROUPS.values()}]
        baselines = {setting.label for setting in self.settings if setting.baseline}
        others = "" if all(each.label in baselines for each in rest) else " and others"
        quantity, steps = f"validation {self.analysis.metric}", self.analysis.comparison_group.steps
        return [
            line_plot(title, quantity, own, steps, axis, behind=[each for each in lines if each not in own], named=True)
            for title, own in [*groups, (f"baselines{others}", rest)]
            if own
        ]

    @property
    def groups(self) -> list[tuple[Kind, list[Setting]]]:
        """The settings that the page can select, by kind: those of the plots, and those that diverged."""
        drawn = {setting.label for setting in self.settings}
        return by_kind([s for s in self.analysis.settings if s.label in drawn or labels.diverged(s)])

    def tip(self, setting: Setting) -> str:
        """Return the text of a setting's tooltip, which begins with its name."""
        return "\n".join(labels.tip_lines(self.analysis, setting))

    def lead(self) -> str:
        group = self.analysis.comparison_group
        parts = [
            f"Task {group.task}",
            f"model {group['model']}" if group["model"] else "",
            f"data {group['data']}" if group["data"] else "embedded data",
            fmt.count(group.steps, "training step"),
            f"batch size {group['batch_size']}" if group["batch_size"] else "",
            *(f"{name} {value}" for name, value in group["options"]),
        ]
        return ", ".join(part for part in parts if part) + "."

    def tables(self) -> list[str]:
        analysis = self.analysis
        columns = setting_columns(analysis)[: MARKDOWN_COLUMNS + len(operand_columns(analysis))]
        blocks = [markdown_table(columns, analysis.settings[:MAX_ROWS])]
        if analysis.correlations:
            table = markdown_table(CORRELATION_COLUMNS[:-1], analysis.correlations)  # the last is for the page only
            blocks += ["Correlation of quality with cost:", table]
        if analysis.equal_cost and analysis.equal_cost.pairs:
            blocks += ["Pairs of equal cost:", markdown_table(pair_columns(analysis), analysis.equal_cost.pairs)]
        advice = [f"- {plain(sentence)}" for sentence in self.advice]
        return [*blocks, "Recommendations:", "\n".join(advice)] if advice else blocks

    def cautions(self) -> list[str]:
        settings, sentences = self.analysis.settings, []
        if self.analysis.baseline is None:
            sentences.append("There is no static baseline at the largest width, so nothing is compared with one.")
        lost = [setting.label for setting in settings if labels.diverged(setting)]
        if lost:
            sentences.append(f"{fmt.listed(lost)} diverged: in the table, but not in the plots.")
        if len(self.settings) + len(lost) < len(settings):
            sentences.append(
                f"The plots show {len(self.settings):,} of {len(settings):,} settings: the Pareto front, the "
                "baselines, and others evenly spaced by cost. The file settings.csv has all of them."
            )
        if settings and all(len(setting.qualities) <= 1 for setting in settings):
            sentences.append("There is one seed per schedule: no intervals, and differences may be noise.")
        return sentences

    def table(self) -> Markup:
        """Return the table of all settings."""
        rows = self.analysis.settings[:MAX_ROWS]

        def style(setting: Setting) -> RowStyle:
            return RowStyle(setting.label, kind_of(setting), labels.diverged(setting))

        # Full precision is far from the others and would squash their intervals.
        reach = reach_of([s.against.difference for s in rows if s.against and kind_of(s) is not FULL])
        label = f"All settings of {self.analysis.title}, with intervals"
        return html_table(setting_columns(self.analysis), rows, label, "sortable", style, reach)

    def correlations(self) -> Markup:
        """Return the table of correlations; empty if there are none."""
        found = self.analysis.correlations
        return (
            html_table(CORRELATION_COLUMNS, found, "Correlation of quality with cost", reach=1.0) if found else Markup()
        )

    def pairs(self) -> Markup:
        """Return the table of pairs of equal cost; empty if there are none."""
        pairs = self.analysis.equal_cost.pairs if self.analysis.equal_cost else []
        return html_table(pair_columns(self.analysis), pairs, "Pairs of equal cost") if pairs else Markup()

    def trend_text(self) -> str:
        """Return what the schedules of equal cost say about early precision."""
        test = self.analysis.equal_cost
        assert test is not None
        spread = fmt.percent(test.spread).replace(" ", "\N{NO-BREAK SPACE}")
        same = "nearly the same" if math.isnan(test.spread) else f"the same within {spread}"
        value = fmt.fixed(test.spearman.value, 2, signed=True)
        interval = fmt.interval(as_estimate(test.spearman), 2, signed=True)
        return (
            f"The cost of {fmt.listed(test.labels)} is {same}; in this order, they use less and less precision in the "
            f"first tenth of training. The rank correlation of early bits with quality is {value} ({interval}). Page's "
            f"trend test, one-sided: {fmt.p_value(test.p, named=True)}."
        )


def _known_tracks(setting: Setting) -> list[Track]:
    """The operands of a setting over training; nothing for a user's function that is not known in this process."""
    try:
        return tracks(setting.condition.schedules, setting.condition.steps)
    except ValueError:
        return []
