"""Advice quotes the verdicts of the evidence, and follows them where they contradict the paper."""

import json
from importlib.resources import files

import pytest

from bitcycle.lab.advice import advise
from bitcycle.lab.advice.rules import CHEAPER_STATIC, DOMAINS, GOALS, LARGE_MIXTURE, MEDIUM_MIXTURE, RULES, cite
from bitcycle.lab.advice.verdicts import FILE, verdict
from bitcycle.schedules import Constant, Mixed, schedule

EVERY_QUESTION = [(goal, domain, tuning) for goal in GOALS for domain in (None, *DOMAINS) for tuning in (False, True)]


def test_every_claim_that_advice_quotes_is_in_the_file():
    assert RULES.keys() <= json.loads((files("bitcycle.lab.advice") / FILE).read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_advice_says_and_follows_the_evidence(question):
    """Nothing of the paper is said without the evidence, and no recommendation is contradicted by it."""
    goal, domain, fine_tuning = question
    advice = advise(goal, domain, fine_tuning=fine_tuning)
    of_paper = [reason for reason in advice.reasons if reason.source == "paper"]
    known = {cite(claim, domain) for claim in RULES}
    assert all(reason in known or reason.rule.startswith("q_min is") for reason in of_paper)
    assert any(reason.verdict for reason in of_paper)

    offered = [advice.schedule, *(each.schedule for each in (advice.cheaper, advice.better) if each)]
    groups = {s.group(64_000) for s in offered if not isinstance(s, (Constant, Mixed))}
    assert "medium" not in groups or not verdict(CHEAPER_STATIC, domain).is_contradicted
    assert "large" not in groups or not verdict(LARGE_MIXTURE, domain).is_contradicted
    if verdict("small-matches-static", domain).is_contradicted:
        assert goal != "quality" or advice.spec == "static:8"


@pytest.mark.parametrize("save", [0.1, 0.25, 0.4, 0.6])
@pytest.mark.parametrize("domain", [None, *DOMAINS])
def test_no_budget_is_met_by_cycles_that_a_mixture_matches(save, domain):
    advice = advise(save=save, domain=domain, q_min=3)
    if all(verdict(claim, domain).is_contradicted for claim in (MEDIUM_MIXTURE, LARGE_MIXTURE)):
        assert isinstance(advice.schedule, Mixed)
    assert sum("a mixture of two widths of equal cost" in reason.rule for reason in advice.reasons) == 2


def test_a_cheaper_static_width_that_is_as_good_is_recommended(judged):
    judged("contradicted", [CHEAPER_STATIC])
    advice = advise("balance", "image")
    assert advice.spec == "static:5"
    assert advice.saving == pytest.approx(1 - (5 * 5 + 2 * 5 * 8) / (3 * 8 * 8))
    assert advice.better.spec == "ETH:3-8:cycles=8"  # CT costs more and is shown not to be better
    assert any(reason.verdict == "contradicted on 1 of 1 domain (d)" for reason in advice.reasons)
    assert not any(reason.rule == "8 cycles" for reason in advice.reasons)
    judged("supported", [CHEAPER_STATIC])
    assert advise("balance", "image").spec == "CT:3-8:cycles=8"


def test_the_lowest_cost_is_a_mixture_where_cycles_do_not_beat_it(judged):
    judged("contradicted", [LARGE_MIXTURE])
    advice = advise("cost", "image")
    assert isinstance(advice.schedule, Mixed)
    assert advice.saving == pytest.approx(schedule("RTH:3-8").saving(64_000), abs=1e-3)
    assert advice.cheaper is None


def test_the_highest_quality_is_static_where_the_small_group_loses(judged):
    judged("contradicted", ["small-matches-static"])
    advice = advise("quality", "image")
    assert (advice.spec, advice.better, advice.cheaper.spec) == ("static:8", None, "ETH:3-8:cycles=8")


def test_a_delay_is_not_recommended_where_it_is_shown_not_to_help(judged):
    judged("supported", ["others-suffer-from-large"])
    assert advise("cost").spec.startswith("delay(0.1, RTH")  # without a domain, too
    judged("contradicted", ["delay-avoids-damage"])
    assert advise("cost", "image").spec.startswith("RTH")


def test_a_rule_is_cited_with_the_verdict_on_its_claim(judged):
    judged("supported", ["small-matches-static"])
    assert cite("small-matches-static", "image").verdict == "supported on 1 of 1 domain (d)"
    assert cite("small-matches-static", None).verdict == "supported on 1 of 1 domain"
    assert cite("high-start", None).verdict == "not tested yet"


def test_a_domain_that_was_tested_counts_before_the_others(judged):
    judged("contradicted", [CHEAPER_STATIC], task="image")
    assert verdict(CHEAPER_STATIC, "image").contradicted == ("d",)
    assert verdict(CHEAPER_STATIC, "graph") == verdict(CHEAPER_STATIC)  # not tested: all others count
    assert verdict("high-start").describe() == "not tested yet"
    assert not verdict("high-start").is_supported
