"""The section of one question of a study: its plots, its tables, and what follows from them."""

from __future__ import annotations

import math
from collections import Counter

from bitcycle._support.charts.drawing import Drawing, text
from bitcycle._support.charts.files import grid
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.columns import (
    CORRELATION_COLUMNS,
    as_estimate,
    operand_columns,
    pair_columns,
    setting_columns,
)
from bitcycle.lab.report.cost_plot import NARROW, WIDE, cost_plot
from bitcycle.lab.report.curves import VALIDATION, Curves
from bitcycle.lab.report.line_plot import Line, diagnostic_plots, line_plot, settled_scale, strength
from bitcycle.lab.report.section import Figure, Section, chip, legend, note, panels, part, two_sizes
from bitcycle.lab.report.style import FULL, GROUPS, by_kind, kind_of
from bitcycle.lab.report.tables import RowStyle, html_table, markdown_table, picking, plain, reach_of
from bitcycle.lab.report.wording import recommendations
from bitcycle.lab.statistics.analysis import Analysis, EqualCost, Setting
from bitcycle.schedules.plot import Track, scale_of, track_panels, tracks

MARKDOWN_COLUMNS = 11
"""The summary shows the first columns of the table, and those of operands; the CSV file has all of them."""
MOST_ROWS = 1000
"""The most rows of a table; the CSV file has all of them."""
DIAGNOSTICS_TEXT = "Means over the seeds, coloured by group. Hover over a line for its name, or select a schedule."
CORRELATION_TEXT = (
    "Correlation of quality with cost over schedules and static baselines: +1 if more expensive is always better, 0 if "
    "cost does not matter. Full precision is left out because its cost is an order of magnitude higher."
)


class StudySection(Section):
    """Everything about one group of comparable runs."""

    main_claims = 2
    linked = "linked"
    analysis: Analysis

    def __init__(self, number: int, analysis: Analysis, curves: Curves) -> None:
        self.anchor, self.analysis = f"task-{number}", analysis
        self.settings = labels.drawn_settings(analysis)
        self.tracks = {setting.label: _known_tracks(setting) for setting in self.settings}
        self.cost = cost_plot(analysis, WIDE)
        self.schedules = self._schedule_panels()
        self.training = self._training_panels(self._lines(curves, VALIDATION))
        names = curves.names(setting.condition for setting in self.settings)
        steps = analysis.comparison_group.steps
        self.diagnostics = diagnostic_plots(names, lambda name: self._lines(curves, name), steps)
        metric = f"validation {analysis.metric}, mean over seeds, {labels.better_text(analysis)}"
        bits = [drawing for _, drawing in self.schedules]
        drawings = (
            ("cost", "quality against cost", self.cost),
            ("curves", "training curves", grid(metric, self.training, 2) if self.training else None),
            ("schedules", "schedules", grid("Bits over training", bits, 4) if bits else None),
        )
        self.figures = [Figure(name, title, drawing) for name, title, drawing in drawings if drawing]

    def _lines(self, curves: Curves, name: str) -> list[Line]:
        lines = []
        drawn: Counter[str] = Counter()  # lines of each panel, which differ by their dashes
        for setting in self.settings:
            points, kind = curves.mean(setting.condition, name), kind_of(setting)
            if len(points) > 1:
                panel = kind.name if kind.name in GROUPS else ""
                compared = labels.has_cost(setting) and not setting.baseline
                tip = fmt.cost_phrase(setting.relative_cost) if compared else ""
                style = (labels.key_of(self.analysis, setting), setting.label, kind.class_)
                bits = self.tracks[setting.label][0].stretches if self.tracks[setting.label] else []
                lines.append(Line(*style, points, drawn[panel], tip, bits=bits))
                drawn[panel] += 1
        return lines

    def _schedule_panels(self) -> list[tuple[Setting, Drawing]]:
        """A panel per schedule whose bits are known, apart from full precision; several where operands differ."""
        known = [each for each in self.settings if kind_of(each) is not FULL and self.tracks[each.label]]
        scale = scale_of(self.tracks[setting.label] for setting in known)
        drawn = []
        for setting in known:
            words = f"mean {setting.mean_bits:.2f} bits"
            if setting.label != self.analysis.baseline and setting.relative_cost <= labels.EQUAL:
                words += f", {fmt.cost_phrase(setting.relative_cost)}"
            own = self.tracks[setting.label]
            notes = [words] if len(own) == 1 else [f"{each.name}: {each.spec}" for each in own]
            captions = [(setting.label, each) for each in notes]
            drawn += [(setting, panel) for panel in track_panels(own, captions, scale, kind_of(setting).class_)]
        return drawn

    def _training_panels(self, lines: list[Line]) -> list[Drawing]:
        """The validation metric: a panel per group, all on the same scale, the baselines together."""
        y = settled_scale(lines)
        groups = [(kind.title, [each for each in lines if each.class_ == kind.class_]) for kind in GROUPS.values()]
        rest = [each for each in lines if each.class_ not in {kind.class_ for kind in GROUPS.values()}]
        baselines = {setting.label for setting in self.settings if setting.baseline}
        others = "" if all(each.label in baselines for each in rest) else " and others"
        quantity, steps = f"validation {self.analysis.metric}", self.analysis.comparison_group.steps
        return [
            line_plot(title, quantity, own, steps, y, behind=[each for each in lines if each not in own], named=True)
            for title, own in [*groups, (f"baselines{others}", rest)]
            if own
        ]

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

    def body(self) -> Markup:
        analysis, advice = self.analysis, recommendations(self.analysis)
        missing = "No setting has both a quality and a cost to show."
        cost = two_sizes("cost-plot", self.cost, cost_plot(analysis, NARROW), missing)
        parts = [self._chips(), part("Quality against cost", "", cost)]
        if advice:
            sentences = tag("ul", *(tag("li", sentence) for sentence in advice))
            parts.append(part("Recommendations", "", sentences, class_="part advice"))
        parts += [
            part("Schedules", "Bits from the first to the last step of training.", self._schedules()),
            part("All numbers", _table_text(analysis), self._table()),
            part("Training curves", _curve_text(analysis), self._training()),
        ]
        if self.diagnostics:
            parts.append(part("Diagnostics during training", DIAGNOSTICS_TEXT, panels(self.diagnostics)))
        parts += [
            part("Does quality increase with cost?", CORRELATION_TEXT, self._correlations()),
            part("Does early precision matter?", "", self._equal_cost()),
        ]
        return join(parts)

    def tables(self) -> list[str]:
        analysis = self.analysis
        columns = setting_columns(analysis)[: MARKDOWN_COLUMNS + len(operand_columns(analysis))]
        blocks = [markdown_table(columns, analysis.settings[:MOST_ROWS])]
        if analysis.correlations:
            table = markdown_table(CORRELATION_COLUMNS[:-1], analysis.correlations)  # the last is for the page only
            blocks += ["Correlation of quality with cost:", table]
        if analysis.equal_cost and analysis.equal_cost.pairs:
            blocks += ["Pairs of equal cost:", markdown_table(pair_columns(analysis), analysis.equal_cost.pairs)]
        advice = [f"- {plain(sentence)}" for sentence in recommendations(analysis)]
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

    def _chips(self) -> Markup:
        """The settings by group with the marks of the plots: a legend, and buttons that select."""
        analysis, drawn = self.analysis, {setting.label for setting in self.settings}

        def chip_of(setting: Setting) -> Markup:
            tip = "\n".join(labels.tip_lines(analysis, setting))
            return chip(setting.label, kind_of(setting).sign(), labels.key_of(analysis, setting), tip)

        shown = [setting for setting in analysis.settings if setting.label in drawn or labels.diverged(setting)]
        groups = [(kind.title, map(chip_of, members)) for kind, members in by_kind(shown)]
        return legend("Select a schedule in all plots", groups)

    def _schedules(self) -> Markup:
        figures = []
        for setting, drawing in self.schedules:
            key = labels.key_of(self.analysis, setting)
            caption = tag(
                "figcaption", tag("button", setting.label, **picking(key)), tag("span", drawing.note, class_="hint")
            )
            figures.append(tag("figure", caption, drawing.inline(), class_="panel", data_setting=key))
        unknown = "None of the schedules is known here, so their bits cannot be drawn."
        return tag("div", *figures, class_="panels small") if figures else note(unknown)

    def _table(self) -> Markup:
        rows = self.analysis.settings[:MOST_ROWS]

        def style(setting: Setting) -> RowStyle:
            key = labels.key_of(self.analysis, setting)
            return RowStyle(key, kind_of(setting).sign(), labels.diverged(setting))

        # Full precision is far from the others and would squash their intervals.
        reach = reach_of([s.against.difference for s in rows if s.against and kind_of(s) is not FULL])
        label = f"All settings of {self.analysis.title}, with intervals"
        return html_table(setting_columns(self.analysis), rows, label, "sortable", style, reach)

    def _training(self) -> Markup:
        if not self.training:
            return note("The records of this study contain no training curves.")
        return self._bits_key() + panels((drawing, "") for drawing in self.training)

    def _bits_key(self) -> Markup:
        """What the shades of the strips mean."""
        scale = scale_of(known[:1] for known in self.tracks.values())
        levels = sorted({round(scale.low + (scale.high - scale.low) * i / 5) for i in range(6)})
        if len(levels) == 1:
            return Markup("")
        parts = []
        for i, bits in enumerate(levels):
            at = {"x": 18.0 * i, "y": 2.0, "width": 17.0, "height": 12.0}
            parts.append(tag("rect", **at, class_="strip", fill_opacity=strength(bits, scale)))
            parts.append(text(str(bits), 18.0 * i + 8.5, 27, "tick"))
        width = 18 * len(levels)
        key = tag("svg", *parts, viewBox=f"0 0 {width} 30", width=width, class_=FULL.class_, aria_hidden="true")
        return tag("p", "bits:", key, class_="bits-key")

    def _correlations(self) -> Markup:
        if not self.analysis.correlations:
            return note("There are too few settings for a correlation.")
        return html_table(
            CORRELATION_COLUMNS, self.analysis.correlations, "Correlation of quality with cost", reach=1.0
        )

    def _equal_cost(self) -> Markup:
        test = self.analysis.equal_cost
        if test is None:
            return note("This study has no schedules of equal cost that could be compared.")
        pairs = html_table(pair_columns(self.analysis), test.pairs, "Pairs of equal cost") if test.pairs else ""
        return join([tag("p", _trend_text(test)), pairs])


def _table_text(analysis: Analysis) -> str:
    sentences = f"The {analysis.metric} is a mean over seeds ({labels.better_text(analysis)})."
    if analysis.baseline:
        sentences += (
            f" Differences from {analysis.baseline} are paired by seed and positive where a schedule is better; "
            "p-values are corrected for the number of schedules with Holm's method."
        )
    if len(analysis.settings) > MOST_ROWS:
        sentences += f" The first {MOST_ROWS:,} of {len(analysis.settings):,} settings; settings.csv has all of them."
    return sentences


def _curve_text(analysis: Analysis) -> str:
    apart = any(setting.condition.weights or setting.condition.activations for setting in analysis.settings)
    return (
        f"The {analysis.metric} on the validation set, mean over seeds ({labels.better_text(analysis)}); the other "
        f"groups are grey. The strips show the bits {'of weights ' if apart else ''}at the same steps. "
        "A steep start may be cut off."
    )


def _trend_text(test: EqualCost) -> str:
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
    """What moves in a setting; nothing for a user's function that is not known in this process."""
    try:
        return tracks(setting.condition.schedules, setting.condition.steps)
    except ValueError:
        return []
