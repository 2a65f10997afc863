"""Advice quotes the verdicts of the evidence, and follows them where they contradict the paper."""

import json
from importlib.resources import files

import pytest

from bitcycle.advice import advise
from bitcycle.advice.rules import DOMAINS, GOALS, PAPER, told
from bitcycle.advice.verdicts import FILE, verdict

EVERY_QUESTION = [(goal, domain, tuning) for goal in GOALS for domain in (None, *DOMAINS) for tuning in (False, True)]
CHEAPER = "medium-beats-cheaper-static"


def test_every_claim_that_advice_quotes_is_in_the_file():
    assert {*PAPER, CHEAPER} <= json.loads((files("bitcycle.advice") / FILE).read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_nothing_of_the_paper_is_said_without_the_evidence(question):
    goal, domain, fine_tuning = question
    reasons = advise(goal, domain, fine_tuning=fine_tuning).reasons
    known = {told(claim, domain) for claim in PAPER}
    assert all(reason in known for reason in reasons if reason.startswith("paper"))
    assert any(reason.startswith("paper") for reason in reasons)


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_no_recommendation_is_contradicted_by_the_evidence(question):
    goal, domain, fine_tuning = question
    advice = advise(goal, domain, fine_tuning=fine_tuning)
    group = advice.schedule.group(64_000)
    if group == "medium":
        assert not verdict(CHEAPER, domain).is_contradicted
    if group == "large" and not advice.spec.startswith("delay"):
        assert domain != "graph" or not verdict("graphs-tolerate-large", domain).is_contradicted


def test_a_cheaper_static_width_that_is_as_good_is_recommended(judged):
    judged("contradicted", [CHEAPER])
    advice = advise("balance", "image")
    assert advice.spec == "static:5"
    assert advice.saving == pytest.approx(1 - (5 * 5 + 2 * 5 * 8) / (3 * 8 * 8))
    assert advice.better.spec == "CT:3-8:cycles=8"
    assert any("contradicted on 1 of 1 domain (d)" in reason for reason in advice.reasons)
    judged("supported", [CHEAPER])
    assert advise("balance", "image").spec == "CT:3-8:cycles=8"


def test_the_large_group_is_delayed_where_it_is_shown_to_hurt(judged):
    judged("contradicted", ["graphs-tolerate-large"], task="graph")
    assert advise("cost", "graph").spec.startswith("delay(0.1, RTH")
    judged("contradicted", ["others-suffer-from-large"])
    assert advise("cost", "image").spec.startswith("RTH")


def test_a_domain_that_was_tested_counts_before_the_others(judged):
    judged("contradicted", [CHEAPER], task="image")
    assert verdict(CHEAPER, "image").contradicted == ("d",)
    assert verdict(CHEAPER, "graph") == verdict(CHEAPER)  # not tested: all others count
    assert verdict("high-start").finding == "not tested yet"
    assert not verdict("high-start").is_supported
