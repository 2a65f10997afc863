"""The paper's recommendations, one by one, come out for the matching question, if no evidence contradicts them."""

from types import SimpleNamespace

import pytest

from bitcycle.lab.advice import advise
from bitcycle.schedules import schedule

DOMAINS = ["image", "detection", "graph", "language", "entailment"]
ANY_DOMAIN = pytest.mark.parametrize("domain", [None, *DOMAINS])


def said(advice, *words):
    return any(all(word in str(reason) for word in words) for reason in advice.reasons)


@ANY_DOMAIN
@pytest.mark.parametrize(("goal", "group"), [("cost", "large"), ("balance", "medium"), ("quality", "small")])
def test_the_goal_decides_the_group(goal, group, domain):
    advice = advise(goal, domain)
    assert advice.schedule.group(64_000) == group
    assert said(advice, "paper: ", f"{group} group")


def test_graph_networks_tolerate_the_large_group():
    assert advise("cost", "graph").spec == "RTH:3-8:cycles=8"
    assert said(advise("cost", "graph"), "the large group for the lowest cost, with graph networks")


@pytest.mark.parametrize("domain", ["image", "detection", "language", "entailment"])
def test_where_the_large_group_may_hurt_it_is_delayed(domain):
    advice = advise("cost", domain)
    assert advice.spec.startswith("delay(0.1, RTH")
    assert advice.cheaper.spec.startswith("RTH")
    assert said(advice, "hard tasks suffer")


@ANY_DOMAIN
@pytest.mark.parametrize("goal", ["cost", "balance", "quality"])
@pytest.mark.parametrize("fine_tuning", [False, True])
def test_no_long_low_precision_at_the_start(goal, domain, fine_tuning):
    advice = advise(goal, domain, fine_tuning=fine_tuning)
    assert advice.schedule(0, 64_000) == 8
    assert said(advice, "no long period of low precision at the start")


def test_the_lowest_cost_has_a_delay_on_the_side_of_quality():
    assert advise("cost").better.spec == "delay(0.1, RTH:4-8:cycles=8)"


def test_eight_cycles_and_two_for_fine_tuning():
    assert advise().schedule.cycles == 8
    assert advise(fine_tuning=True).schedule.cycles == 2
    assert said(advise(fine_tuning=True), "2 cycles for short fine-tuning")


def test_two_cycles_where_eight_do_not_fit():
    assert advise(steps=80).schedule.cycles == 8
    assert advise(steps=79).schedule.cycles == 2
    assert said(advise(steps=79), "fewer than 10 steps")


@pytest.mark.parametrize(
    ("domain", "q_min"), [("image", 3), ("detection", 5), ("graph", 3), ("language", 5), ("entailment", 5), (None, 4)]
)
def test_q_min_by_domain_and_the_range_test_recommended(domain, q_min):
    advice = advise(domain=domain)
    assert advice.schedule.q_min == q_min
    assert said(advice, f"q_min is {q_min} bits", "range test")


def test_q_min_by_the_range_test():
    advice = advise(domain="language", range_test=SimpleNamespace(q_min=4, reason="It learns from 4 bits on."))
    assert advice.schedule.q_min == 4
    assert said(advice, "range test: q_min is 4 bits. It learns from 4 bits on.")


def test_q_max_is_the_static_width():
    advice = advise(domain="graph", q_max=6)
    assert (advice.schedule.q_min, advice.schedule.q_max) == (3, 6)
    assert said(advice, "static width", "6 bits")
    assert "backward_bits=6" in advice.code


def test_of_equal_cost_the_one_that_starts_high():
    for goal, others in {"cost": ["RR"], "balance": ["CR", "LR", "LT", "ETV"], "quality": ["ER"]}.items():
        chosen = advise(goal, "graph")
        for other in others:
            s = schedule(other, (3, 8))
            assert s.saving(64_000) == pytest.approx(chosen.saving, abs=0.006)
            assert s.mean_bits(64_000, 0.1) < chosen.schedule.mean_bits(64_000, 0.1)


def test_the_medium_choice_is_high_at_both_ends():
    ends = {name: schedule(name, (3, 8)).over(64_000)[[0, -1]].min() for name in ("CT", "RTV", "CR", "ETV")}
    assert ends == {"CT": 8, "RTV": 8, "CR": 3, "ETV": 8}
    late = {name: schedule(name, (3, 8)).over(64_000)[-6400:].mean() for name in ("CT", "RTV")}
    assert late["RTV"] < late["CT"]
