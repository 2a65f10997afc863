"""The section of the deficit experiments on one task: what was asked, the two plots, the figures, and measurements."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report.deficits.arms import SHOWN, sign
from bitcycle._study.report.deficits.courses import trained
from bitcycle._study.report.deficits.facts import Experiment, experiments_of
from bitcycle._study.report.deficits.panels import length_chips, measurement_panels, panels_of
from bitcycle._study.report.deficits.plot import deficit_key, deficit_plot
from bitcycle._study.report.deficits.sentences import (
    arms_words,
    asked,
    cautions,
    figures_words,
    measured_words,
    plot_words,
    what_ran,
)
from bitcycle._study.report.deficits.table import deficit_table
from bitcycle._study.report.findings import claims_list
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle.experiments.result import RunResult


def deficit_section(number: int, analysis: DeficitAnalysis, records: Sequence[RunResult], alone: bool) -> Markup:
    """Everything about the experiments, under the anchor ``deficit-<number>``; their claims unless they are alone.

    The page opens with the claims of a question that is alone.
    """
    experiments = experiments_of(analysis)
    found = _part("What was found", "", claims_list(analysis.claims, analysis)) if analysis.claims and not alone else ""
    return tag(
        "section",
        tag("h2", analysis.title),
        tag("p", f"{asked(analysis)} {what_ran(analysis)}", class_="lead"),
        join(tag("p", caution, class_="note") for caution in cautions(analysis)),
        found,
        tag(
            "div",
            _part("The arms", arms_words(analysis), _arms(experiments)),
            join(_plots(analysis, experiment) for experiment in experiments),
            _part("All figures", figures_words(analysis), *(_figures(analysis, each) for each in experiments)),
            class_="linked",
        ),
        _measurements(analysis, records),
        id=f"deficit-{number}",
    )


def _part(title: str, intro: str, *content: str) -> Markup:
    explained = tag("p", intro, class_="intro") if intro else ""
    return tag("div", tag("h3", title), explained, *content, class_="part")


def _arms(experiments: Sequence[Experiment]) -> Markup:
    """The arms with their signs and what they mean: a legend, and buttons that select."""
    items = []
    for arm in SHOWN.values():
        if not any(arm in experiment.arms for experiment in experiments):
            continue
        chip = tag(
            "button",
            sign(arm),
            arm.title,
            class_=f"chip kind-{arm.kind.name}",
            type="button",
            data_setting=arm.key,
            aria_pressed="false",
            data_tip=f"{arm.title}\n{arm.meaning}",
        )
        items.append(tag("li", tag("span", chip), tag("span", arm.meaning)))
    return tag("ul", *items, class_="arms")


def _plots(analysis: DeficitAnalysis, experiment: Experiment) -> Markup:
    plot = deficit_plot(analysis, experiment)
    return _part(experiment.title, plot_words(analysis, experiment), plot, deficit_key(experiment))


def _figures(analysis: DeficitAnalysis, experiment: Experiment) -> Markup:
    return tag("h4", experiment.title) + deficit_table(analysis, experiment)


def _measurements(analysis: DeficitAnalysis, records: Sequence[RunResult]) -> Markup:
    found = trained(analysis, records)
    panels = panels_of(found.lines) if found else []
    if not found or not panels:
        return Markup("")
    content = [length_chips(found.lines, found.experiment.axis), measurement_panels(panels)]
    return tag("div", _part("Measurements along training", measured_words(found.experiment), *content), class_="linked")
