"""What the report says about a setting or a point of a deficit experiment, and how its group or arm looks.

Groups and arms differ by shape and dash as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle.lab import format as fmt
from bitcycle.lab.report.drawing import SHADES, TINTS, MarkShape
from bitcycle.lab.statistics.analysis import Analysis, Comparison, DeficitAnalysis, DeficitPoint, Setting
from bitcycle.schedules.base import FULL_WIDTH

Measured = Setting | DeficitPoint
"""What has a quality over seeds, perhaps compared with a baseline or control."""
MAX_DRAWN = 60
"""The most settings that the plots of a question show."""
AnyAnalysis = Analysis | DeficitAnalysis
EQUAL = 1.005
"""Up to this ratio a cost counts as equal to the baseline's."""
SIGNS = dict(zip(MarkShape, "●■◆▲✚▼", strict=True))
"""The shapes of marks as characters, for text."""


@dataclass(frozen=True)
class Kind:
    """A group of schedules, a kind of baseline, or an arm."""

    name: str
    title: str
    shape: MarkShape
    tint: str
    """The name of its colour."""

    @property
    def colour(self) -> str:
        """Its colour on a light page."""
        return TINTS[self.tint]

    @property
    def sign(self) -> str:
        """Its mark as a character."""
        return SIGNS[self.shape]


LARGE = Kind("large", "large saving", MarkShape.CIRCLE, "large")
MEDIUM = Kind("medium", "medium saving", MarkShape.SQUARE, "medium")
SMALL = Kind("small", "small saving", MarkShape.DIAMOND, "small")
STATIC = Kind("static", "static", MarkShape.TRIANGLE, "static")
FULL = Kind("full", "full precision", MarkShape.CROSS, "full")
OTHER = Kind("other", "no group", MarkShape.FLAG, "other")
GROUPS = {kind.name: kind for kind in (LARGE, MEDIUM, SMALL)}
KINDS = (*GROUPS.values(), STATIC, FULL, OTHER)


def kind_of(setting: Setting) -> Kind:
    """Return the group of a setting, or what sort of baseline it is."""
    if setting.group in GROUPS:
        return GROUPS[setting.group]
    if not setting.baseline:
        return OTHER
    return FULL if setting.mean_bits >= FULL_WIDTH else STATIC


def by_kind(settings: Sequence[Setting]) -> list[tuple[Kind, list[Setting]]]:
    """Return the settings by kind, in the order of the saving."""
    members = [(kind, [setting for setting in settings if kind_of(setting) is kind]) for kind in KINDS]
    return [(kind, some) for kind, some in members if some]


@dataclass(frozen=True)
class ArmStyle(Kind):
    """An arm of a deficit experiment, named as in :class:`bitcycle.lab.studies.deficits.Arm`."""

    meaning: str
    dash: int


HELD = ArmStyle(
    "held",
    "held",
    MarkShape.SQUARE,
    "medium",
    "the learning rate is held constant during the deficit, as in the paper",
    dash=0,
)
RESTARTED = ArmStyle(
    "restarted",
    "restarted",
    MarkShape.CIRCLE,
    "large",
    "the learning-rate schedule runs through the deficit and starts again after it, with a fresh optimiser",
    dash=1,
)
LONGER = ArmStyle(
    "longer",
    "longer (control)",
    MarkShape.TRIANGLE,
    "static",
    "no deficit: the same number of steps and the same learning rates as held",
    dash=2,
)
ARM = {arm.name: arm for arm in (HELD, RESTARTED, LONGER)}


def shades(count: int) -> list[str]:
    """Return the names of ``count`` colours, as far apart as the scale allows.

    >>> shades(3), shades(1)
    (['shade-0', 'shade-4', 'shade-8'], ['shade-8'])
    """
    names, last = list(SHADES), len(SHADES) - 1
    return [names[round(i * last / (count - 1)) if count > 1 else last] for i in range(count)]


def diverged(row: Measured) -> bool:
    """Whether there is no quality to show because a training ended in infinity or NaN."""
    return not math.isfinite(row.quality.mean)


def comparison_of(row: Measured) -> Comparison | None:
    """Return the comparison with the baseline or control."""
    return row.against if isinstance(row, Setting) else row.loss


def has_cost(setting: Setting) -> bool:
    """Whether the cost relative to a baseline is known."""
    return math.isfinite(setting.relative_cost)


def drawn_settings(analysis: Analysis) -> list[Setting]:
    """Return the settings that the plots show: all that did not diverge, or a choice where they are very many.

    The choice holds the Pareto front and the baselines, and others at even distances in the order of cost.
    """
    settings = [setting for setting in analysis.settings if not diverged(setting)]
    if len(settings) <= MAX_DRAWN:
        return settings
    first = [i for i, setting in enumerate(settings) if setting.on_front or setting.baseline][: MAX_DRAWN // 2]
    others = sorted(set(range(len(settings))) - set(first))
    room = MAX_DRAWN - len(first)
    even = {others[i * len(others) // room] for i in range(room)}
    return [settings[i] for i in sorted(even.union(first))]


def points_of(analysis: DeficitAnalysis) -> list[DeficitPoint]:
    """Return the points of both experiments."""
    return [*analysis.lengths, *analysis.positions]


def places_of(analysis: AnyAnalysis) -> int:
    """Return the decimals of the metric: four significant digits of the largest mean."""
    rows = analysis.settings if isinstance(analysis, Analysis) else points_of(analysis)
    return fmt.decimals(row.quality.mean for row in rows)


def quality_text(row: Measured, places: int) -> str:
    """Format a mean with its interval, if it has one."""
    mean = fmt.fixed(row.quality.mean, places)
    return f"{mean}, 95 % interval {fmt.interval(row.quality, places)}" if fmt.has_interval(row.quality) else mean


def saving_text(setting: Setting) -> str:
    """Format the saving, or how many times the baseline's cost a setting needs."""
    if not has_cost(setting):
        return fmt.NONE
    cost = setting.relative_cost
    return fmt.cost_phrase(cost) if cost > EQUAL else fmt.percent(1 - cost)


def verdict_text(analysis: AnyAnalysis, row: Measured) -> str:
    """Return the outcome of the comparison with the baseline or control."""
    if isinstance(row, DeficitPoint) and row.arm == LONGER.name:
        return "the control"
    if isinstance(row, Setting) and isinstance(analysis, Analysis) and row.label == analysis.baseline:
        return "the baseline"
    comparison = comparison_of(row)
    return comparison.outcome if comparison else fmt.NONE


def better_text(analysis: AnyAnalysis) -> str:
    """Return which direction is better."""
    return "higher is better" if analysis.higher_is_better else "lower is better"


def baseline_text(analysis: Analysis) -> str:
    """Return the name of the baseline."""
    return analysis.baseline or "the baseline"


def tip_lines(analysis: Analysis, setting: Setting) -> list[str]:
    """Return the lines of a setting's tooltip."""
    lines = [setting.label]
    if diverged(setting):
        lines.append(f"{analysis.metric}: diverged")
    else:
        lines.append(f"{analysis.metric} {quality_text(setting, places_of(analysis))}")
        lines.append(f"over {fmt.count(len(setting.qualities), 'seed')}")
    if has_cost(setting) and setting.label != analysis.baseline:
        lines.append(f"{fmt.cost_phrase(setting.relative_cost)}, compared with {baseline_text(analysis)}")
    bits = "32-bit floats" if kind_of(setting) is FULL else f"{setting.mean_bits:.2f} bits on average"
    lines.append(bits if setting.baseline else f"{bits}, {setting.early_bits:.2f} in the first tenth")
    if setting.against:
        lines.append(f"{analysis.metric} against {baseline_text(analysis)}: {setting.against.outcome}")
    return lines


@dataclass(frozen=True)
class ExperimentView:
    """One of the two deficit experiments, with the texts of its plot."""

    name: str
    """``length`` or ``position``."""
    column: str
    """What varies: the length or the start of the deficit."""
    points: list[DeficitPoint]

    @property
    def title(self) -> str:
        """The heading of its part of the page."""
        return f"{self.column.capitalize()} of the deficit"

    @property
    def axis(self) -> str:
        """The title of the horizontal axis."""
        return f"{self.column} of the deficit, in normal runs"

    @property
    def arms(self) -> list[ArmStyle]:
        """The arms that have a run."""
        return [arm for arm in ARM.values() if any(point.arm == arm.name for point in self.points)]

    @property
    def by_length(self) -> bool:
        """Whether the length of an initial deficit varies, not the position of a window."""
        return self.name == "length"

    def without_deficit(self, point: DeficitPoint) -> bool:
        """Whether a point is the normal run itself."""
        return self.by_length and point.place == 0


def experiments_of(analysis: DeficitAnalysis) -> list[ExperimentView]:
    """Return the experiments that have a run."""
    both = [
        ExperimentView("length", "length", analysis.lengths),
        ExperimentView("position", "start", analysis.positions),
    ]
    return [experiment for experiment in both if experiment.points]


def trainings(share: float) -> str:
    """Format a length in normal runs.

    >>> trainings(0.25), trainings(1.0), trainings(1 / 3)
    ('0.25 normal runs', '1 normal run', '0.333 normal runs')
    """
    return f"{fmt.number(share)} normal run" + ("" if share == 1 else "s")


def place_text(analysis: DeficitAnalysis, experiment: ExperimentView, point: DeficitPoint) -> str:
    """Return which deficit a point is about; its control has none."""
    if experiment.without_deficit(point):
        return f"no deficit: the normal run of {fmt.count(analysis.steps, 'step')}"
    if experiment.by_length:
        deficit = f"an initial deficit of {trainings(point.share)} ({fmt.count(point.place, 'step')})"
    else:
        window = fmt.count(analysis.window, "step")
        deficit = f"a deficit of {window} after {trainings(point.share)} (step {point.place:,})"
    return f"the same number of steps as with {deficit}" if point.arm == LONGER.name else deficit


def point_lines(analysis: DeficitAnalysis, experiment: ExperimentView, point: DeficitPoint) -> list[str]:
    """Return the lines of a point's tooltip."""
    places = places_of(analysis)
    lines = [ARM[point.arm].title, place_text(analysis, experiment, point)]
    lines.append(f"{analysis.metric} {quality_text(point, places)}")
    done, planned = len(point.qualities), fmt.count(analysis.seeds, "seed")
    lines.append(f"over {planned}" if done == analysis.seeds else f"over {done} of {planned}")
    if point.loss:
        gain = fmt.fixed(point.loss.difference.mean, places, signed=True)
        lines.append(f"against the control: {gain}, {point.loss.outcome}")
    return lines
