"""The paper's recommendations, one by one, come out for the matching question, if no evidence contradicts them."""

from types import SimpleNamespace

import pytest

from bitcycle.lab.advice import advise
from bitcycle.schedules import schedule

DOMAINS = ["image", "detection", "graph", "language", "entailment"]
ANY_DOMAIN = pytest.mark.parametrize("domain", [None, *DOMAINS])


def has_reason(advice, *words):
    return any(all(word in str(reason) for word in words) for reason in advice.reasons)


@ANY_DOMAIN
@pytest.mark.parametrize(("goal", "group"), [("cost", "large"), ("balance", "medium"), ("quality", "small")])
def test_the_goal_decides_the_group(goal, group, domain):
    advice = advise(goal, domain)
    assert advice.schedule.group(64_000) == group
    assert has_reason(advice, "paper: ", f"{group} group")
    for each in (advice, advise(goal, domain, fine_tuning=True)):
        assert each.schedule(0, 64_000) == 8
        assert has_reason(each, "no long period of low precision at the start")


def test_where_the_large_group_may_hurt_it_is_delayed():
    assert advise("cost", "graph").spec == "RTH:3-8:cycles=8"
    assert has_reason(advise("cost", "graph"), "the large group for the lowest cost, with graph networks")
    for domain in set(DOMAINS) - {"graph"}:
        advice = advise("cost", domain)
        assert advice.spec.startswith("delay(0.1, RTH")
        assert advice.cheaper.spec.startswith("RTH")
        assert has_reason(advice, "hard tasks suffer")
    assert advise("cost").better.spec == "delay(0.1, RTH:4-8:cycles=8)"


@pytest.mark.parametrize(
    ("question", "cycles", "reason"),
    [
        ({}, 8, "paper: 8 cycles"),
        ({"fine_tuning": True}, 2, "2 cycles for short fine-tuning"),
        ({"steps": 80}, 8, "paper: 8 cycles"),
        ({"steps": 79}, 2, "fewer than 10 steps"),
    ],
)
def test_eight_cycles_or_two(question, cycles, reason):
    assert advise(**question).schedule.cycles == cycles
    assert has_reason(advise(**question), reason)


@pytest.mark.parametrize(
    ("domain", "q_min"), [("image", 3), ("detection", 5), ("graph", 3), ("language", 5), ("entailment", 5), (None, 4)]
)
def test_q_min_by_domain_and_the_range_test_recommended(domain, q_min):
    advice = advise(domain=domain)
    assert advice.schedule.q_min == q_min
    assert has_reason(advice, f"q_min is {q_min} bits", "range test")


def test_q_min_by_the_range_test():
    advice = advise(domain="language", range_test=SimpleNamespace(q_min=4, reason="It learns from 4 bits on."))
    assert advice.schedule.q_min == 4
    assert has_reason(advice, "range test: q_min is 4 bits. It learns from 4 bits on.")


def test_q_max_is_the_static_width():
    advice = advise(domain="graph", q_max=6)
    assert (advice.schedule.q_min, advice.schedule.q_max) == (3, 6)
    assert has_reason(advice, "static width", "6 bits")
    assert "backward_bits=6" in advice.code


def test_of_equal_cost_the_one_that_starts_high():
    for goal, others in {"cost": ["RR"], "balance": ["CR", "LR", "LT", "ETV"], "quality": ["ER"]}.items():
        chosen = advise(goal, "graph")
        for other in others:
            s = schedule(other, (3, 8))
            assert s.saving(64_000) == pytest.approx(chosen.saving, abs=0.006)
            assert s.mean_bits(64_000, 0.1) < chosen.schedule.mean_bits(64_000, 0.1)
    late = {name: schedule(name, (3, 8)).over(64_000)[-6400:].mean() for name in ("CT", "RTV")}
    assert late["RTV"] < late["CT"], "the one of the medium group that starts high as well ends lower"
