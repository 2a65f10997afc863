"""Power by simulation, against formulas."""

import math

import numpy as np
import pytest
from scipy import stats

from bitcycle.lab.judging import Effect
from evidence.design import Measure, Rule
from evidence.judging import Mark, detectable, seeds_to_settle, verdict
from evidence.power import Power, powers
from tests.evidence.made_up import claim, design, domain, figures

MANY = 10**6  # pilot seeds, whose scatter is as good as known


def power_of(each, scatter, pilot_seeds):
    return Power(each, domain(), Measure.LOSS, pilot_seeds, 0.0, scatter)


@pytest.mark.parametrize("seeds", [5, 20])
def test_the_detectable_effect_is_that_of_the_t_test(seeds):
    effect = power_of(claim(), 0.3, MANY).detectable(seeds)
    critical = stats.t.ppf(0.95, seeds - 1)
    expected = 1 - stats.nct.cdf(critical, seeds - 1, effect / (0.3 / math.sqrt(seeds)))
    assert expected == pytest.approx(0.8, abs=0.02)


def test_more_seeds_decide_more_often():
    shares = [power_of(claim(), 0.2, MANY).decided(seeds) for seeds in (5, 10, 20, 40)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert power_of(claim(Rule.NO_WORSE), 0.2, MANY).decided(10) == pytest.approx(
        power_of(claim(), 0.2, MANY).decided(10), abs=0.03
    )


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("scatter", [0.01, 0.1])
def test_a_claim_is_decided_by_the_rule_of_verdicts(rule, scatter):
    """With little scatter, one study in twenty without an effect has a lower bound above zero: a wrong verdict."""
    seeds = 10
    draws = np.random.default_rng(0).normal(0, scatter, (4_000, seeds))
    reach = stats.t.ppf(0.95, seeds - 1) * draws.std(1, ddof=1) / seeds**0.5
    right = {Rule.GREATER: Mark.CONTRADICTED, Rule.NO_WORSE: Mark.SUPPORTED}[rule]
    effects = [Effect(m, m - r, m + r, seeds) for m, r in zip(draws.mean(1), reach, strict=True)]
    expected = sum(verdict(claim(rule), effect) is right for effect in effects) / len(effects)
    assert power_of(claim(rule), scatter, MANY).decided(seeds) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("reach", [30.0, math.inf, math.nan])
def test_no_number_of_seeds_settles_what_scatters_too_much(reach):
    assert seeds_to_settle(claim(Rule.NO_WORSE), Effect(-0.05, -0.05 - reach, -0.05 + reach, 5)) is None


def test_a_scatter_from_few_pilots_costs_power():
    assert power_of(claim(), 0.3, 2).detectable(10) > power_of(claim(), 0.3, MANY).detectable(10)


def test_pilots_without_a_gap_or_settings_have_no_power():
    base = {"static q_min": 2.0, "static q_max": 1.0}
    complete = figures({**base, "CT": 1.2, "match(CT, mixed)": 1.3}, seeds=range(4))
    found = {each.measure: each for each in powers(design(claim()), complete)}[Measure.LOSS]
    assert found.pilot_seeds == 4
    assert found.effect == pytest.approx(0.1, abs=0.03)
    assert powers(design(claim()), figures(base, seeds=range(4))) == []
    reverse = figures({**base, "static q_min": 0.5, "CT": 1.2, "match(CT, mixed)": 1.3}, seeds=range(4))
    assert powers(design(claim()), reverse) == []


def test_the_detectable_effect_of_judged_seeds_is_that_of_a_simulation():
    """With a known scatter, 80 % of simulated studies around the detectable effect have a bound above zero."""
    seeds, scatter = 10, 0.3
    t = stats.t.ppf(0.95, seeds - 1)
    reach = t * scatter / seeds**0.5
    effect = detectable(Effect(0.5, 0.5 - reach, 0.5 + reach, seeds))
    draws = np.random.default_rng(0).normal(effect, scatter, (20_000, seeds))
    lower = draws.mean(1) - t * draws.std(1, ddof=1) / seeds**0.5
    assert (lower > 0).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("rule", "mean", "expected"),
    [
        (Rule.GREATER, 0.08, Mark.SUPPORTED),
        (Rule.GREATER, 0.01, Mark.CONTRADICTED),
        (Rule.NO_WORSE, -0.01, Mark.SUPPORTED),
        (Rule.NO_WORSE, -0.09, Mark.CONTRADICTED),
    ],
)
def test_so_many_seeds_settle_an_open_claim(rule, mean, expected):
    """In 80 % of simulated studies with that many seeds, and more rarely with half of them."""
    scatter, seeds = 0.2, 6
    reach = stats.t.ppf(0.95, seeds - 1) * scatter / seeds**0.5
    needed = seeds_to_settle(claim(rule), Effect(mean, mean - reach, mean + reach, seeds))

    def share(number):
        draws = np.random.default_rng(0).normal(mean, scatter, (4_000, number))
        reach = stats.t.ppf(0.95, number - 1) * draws.std(1, ddof=1) / number**0.5
        effects = [Effect(m, m - r, m + r, number) for m, r in zip(draws.mean(1), reach, strict=True)]
        return sum(verdict(claim(rule), effect) is expected for effect in effects) / len(effects)

    assert share(needed) == pytest.approx(0.8, abs=0.03)
    assert share(needed // 2) < 0.7
