"""Verdicts: against plain formulas, and at the borders of the rules."""

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bitcycle.lab.judging import Effect
from evidence.design import Role, Rule
from evidence.figures import all_figures, path_of, write
from evidence.judging import Mark, OpenReason, Remark, judge, remark, verdict
from tests.evidence.made_up import SLOPE, claim, design, domain, figures

BASE = {"static q_min": 2.0, "static q_max": 1.0}


def cell_of(found, each=None):
    [cell] = judge(design(each or claim()), found)
    return cell


def test_an_effect_is_the_paired_difference_in_gaps():
    found = figures({**BASE, "CT": 1.3, "match(CT, mixed)": 1.6})
    cell = cell_of(found)
    by_setting = {}
    for figure in found["d", "schedules"].figures:
        by_setting.setdefault(figure.setting, {})[figure.seed] = figure.loss
    seeds = range(100, 110)
    gap = fmean(by_setting["static q_min"][s] - by_setting["static q_max"][s] for s in seeds)
    effects = [(by_setting["match(CT, mixed)"][s] - by_setting["CT"][s]) / gap for s in seeds]
    reach = stats.t.ppf(0.95, 9) * stdev(effects) / math.sqrt(10)
    assert cell.effect.mean == pytest.approx(fmean(effects))
    assert (cell.effect.lower, cell.effect.upper) == pytest.approx((fmean(effects) - reach, fmean(effects) + reach))
    assert cell.mark is Mark.SUPPORTED
    assert cell.effect.mean == pytest.approx(0.3, abs=0.02)


def test_a_slope_is_the_change_from_the_cost_of_q_min_to_that_of_q_max():
    on_a_line = {name: 2 - (cost - 300) / 700 for name, cost in (("RR", 400), ("CT", 630), ("ETH", 820))}
    assert cell_of(figures({**BASE, **on_a_line}, noise=1e-9), SLOPE).effect.mean == pytest.approx(1.0)


def test_a_difference_beyond_another_one():
    found = figures({**BASE, "CT": 1.5, "ETH": 1.2, "RR": 1.4, "match(CT, mixed)": 1.3}, noise=1e-9)
    double = claim(better=("ETH",), than=("CT",), beyond={"better": ("match(CT, mixed)",), "than": ("RR",)})
    assert cell_of(found, double).effect.mean == pytest.approx(0.3 - 0.1)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.01, 0.5))
def test_rules(mean, reach, smallest):
    effect = Effect(mean, mean - reach, mean + reach, 5)
    greater = verdict(claim(smallest=smallest), effect)
    no_worse = verdict(claim(Rule.NO_WORSE, smallest=smallest), effect)
    assert (greater is Mark.SUPPORTED) == (mean - reach > 0)
    assert (greater is Mark.CONTRADICTED) == (mean - reach <= 0 and mean + reach < smallest)
    assert (no_worse is Mark.SUPPORTED) == (mean - reach >= -smallest)
    if greater is Mark.SUPPORTED:
        assert no_worse is Mark.SUPPORTED
    if no_worse is Mark.CONTRADICTED:
        assert mean + reach < 0
        assert greater is Mark.CONTRADICTED


@pytest.mark.parametrize(
    ("rule", "low", "high", "mark", "expected"),
    [
        (Rule.GREATER, 0.05, 0.2, Mark.SUPPORTED, None),
        (Rule.GREATER, 0.01, 0.09, Mark.SUPPORTED, Remark.SMALL),
        (Rule.GREATER, -0.05, 0.0, Mark.CONTRADICTED, Remark.TOO_SMALL),
        (Rule.GREATER, -0.2, -0.01, Mark.CONTRADICTED, None),
        (Rule.GREATER, -0.2, 0.2, Mark.OPEN, None),
        (Rule.NO_WORSE, -0.1, 0.0, Mark.SUPPORTED, None),
        (Rule.NO_WORSE, -0.1, -0.01, Mark.SUPPORTED, Remark.SLIGHTLY_WORSE),
        (Rule.NO_WORSE, -0.2, -0.1, Mark.CONTRADICTED, Remark.PERHAPS_SLIGHTLY_WORSE),
        (Rule.NO_WORSE, -0.3, -0.11, Mark.CONTRADICTED, None),
    ],
)
def test_remarks(rule, low, high, mark, expected):
    effect = Effect((low + high) / 2, low, high, 5)
    assert verdict(claim(rule), effect) is mark
    assert remark(claim(rule), mark, effect) is expected


def test_the_extra_cost_of_what_should_be_better():
    losses = {**BASE, "CT": 1.3, "ETH": 1.2, "match(CT, mixed)": 1.6, "RR": 1.4}
    assert cell_of(figures(losses)).extra_cost == 0
    both = claim(better=("CT", "ETH"), than=("RR",))
    assert cell_of(figures(losses), both).extra_cost == pytest.approx(725 / 400 - 1)
    assert cell_of(figures(losses), claim(beyond={"better": ("CT",), "than": ("RR",)})).extra_cost is None
    assert cell_of(figures(losses), SLOPE).extra_cost is None


def test_a_gap_of_another_domain_needs_all_of_its_seeds():
    losses = {**BASE, "CT": 1.3, "match(CT, mixed)": 1.6}
    both = design(claim(), domains=(domain(seeds=8), domain(id="e", seeds=5, gap_of="d")))
    of_gap = {("d", "schedules"): figures(losses, seeds=range(100, 107))["d", "schedules"]}
    own = {("e", "schedules"): figures(losses, seeds=range(100, 105))["d", "schedules"]}
    assert [cell.reason for cell in judge(both, of_gap | own)] == [OpenReason.INCOMPLETE] * 2
    complete = {("d", "schedules"): figures(losses, seeds=range(100, 108))["d", "schedules"]}
    assert [cell.mark for cell in judge(both, complete | own)] == [Mark.SUPPORTED] * 2


@pytest.mark.parametrize(("first", "last", "seeds"), [(0, 10, 0), (95, 105, 5), (95, 115, 10)])
def test_only_the_seeds_of_the_design_count(tmp_path, first, last, seeds):
    [study] = figures({**BASE, "CT": 1.3}, seeds=range(first, last)).values()
    write(path_of(tmp_path, domain(), "schedules", Role.JUDGING), study)
    [read] = all_figures(tmp_path, design(), Role.JUDGING).values()
    assert {each.seed for each in read.figures} == set(range(100, 100 + seeds))


def test_what_leaves_a_claim_open():
    settings = {"CT": 1.3, "match(CT, mixed)": 1.3}
    assert cell_of({}).reason is OpenReason.NO_FIGURES
    assert cell_of(figures({**BASE, "CT": 1.3})).mark is Mark.NOT_RUN
    incomplete = cell_of(figures({**BASE, **settings}, seeds=range(100, 104)))
    assert (incomplete.mark, incomplete.reason) == (Mark.NOT_RUN, OpenReason.INCOMPLETE)
    no_gap = {"static q_min": 1.0, "static q_max": 1.0, **settings}
    assert cell_of(figures(no_gap)).reason is OpenReason.NO_GAP
    assert cell_of(figures({**BASE, **settings}, noise=1.0)).reason is OpenReason.UNDECIDED
    assert cell_of(figures({**BASE, **settings, "CT": math.nan})).reason is OpenReason.DIVERGED
    accurate = {"static q_min": 0.1, "static q_max": 0.9, "CT": math.nan, "match(CT, mixed)": 0.8}
    by_the_other = cell_of(figures({**BASE, "CT": 1.1, "match(CT, mixed)": 1.6}, accuracies=accurate))
    assert (by_the_other.mark, by_the_other.reason) == (Mark.OPEN, OpenReason.DIVERGED)
    accuracies = {"static q_min": 0.1, "static q_max": 0.9, "CT": 0.2, "match(CT, mixed)": 0.8}
    disagree = cell_of(figures({**BASE, "CT": 1.1, "match(CT, mixed)": 1.6}, accuracies=accuracies))
    assert (disagree.mark, disagree.reason) == (Mark.OPEN, OpenReason.MEASURES_DISAGREE)


def test_a_claim_that_builds_on_another():
    found = figures({**BASE, "CT": 1.3, "match(CT, mixed)": 1.1})
    first = claim(id="first")
    second = replace(claim(Rule.NO_WORSE), id="second", given="first")
    cells = judge(design(first, second), found)
    assert [cell.mark for cell in cells] == [Mark.CONTRADICTED, Mark.NOT_APPLICABLE]
