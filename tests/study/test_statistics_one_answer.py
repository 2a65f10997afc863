"""Report and advisor give one answer: the same cheapest acceptable setting, or both say that there is none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle._study.claims import CheapestAcceptable
from bitcycle._study.evidence import evidence_of
from bitcycle._study.wording import headline, recommendations
from bitcycle.advice import advise
from tests.study.statistics_records import claim, noise, only, record, setting, study

SPECS = ["static:8", "static:3", "CR:3-8:cycles=8", "RR:3-8:cycles=8", "ETH:3-8:cycles=8", "CT:3-8:cycles=8", "full"]
QUALITIES = st.one_of(
    st.floats(0.85, 0.95), st.sampled_from([0.9, 0.9, 0.91]), st.sampled_from([0.0, float("nan"), float("inf")])
)
MOSTLY_CLOSE = st.one_of(*[st.floats(0.899, 0.901)] * 12, QUALITIES)
RUNS = st.dictionaries(
    st.tuples(st.sampled_from(SPECS), st.integers(0, 6)),
    st.tuples(MOSTLY_CLOSE, st.sampled_from([None, None, None, 500, 500, 10**15])),
    min_size=12,
    max_size=49,
)


def by_the_report(records, margin):
    found = only(records, margin)
    cheapest = found.cheapest_acceptable
    assert claimed(found) == (None if cheapest is None else cheapest.label)
    return None if cheapest is None else cheapest.run.schedule


def claimed(analysis):
    claims = [each for each in analysis.claims if isinstance(each, CheapestAcceptable)]
    return claims[0].label if claims else None


def by_the_advisor(records, margin):
    try:
        advice = advise(records=map(evidence_of, records), margin=margin)
    except ValueError as refusal:
        if not any(words in str(refusal) for words in ("needs at least 3 seeds", "diverged")):
            raise
        return None
    return None if advice.spec == "static:8" else advice.spec


@given(RUNS, st.booleans(), st.sampled_from([None, None, 0.0, 0.001, 0.02]))
def test_report_and_advisor_agree(runs, higher_is_better, margin):
    runs.setdefault(("static:8", 0), (0.9, None))
    records = [record(spec, seed, q, cost, higher_is_better) for (spec, seed), (q, cost) in runs.items()]
    assert by_the_report(records, margin) == by_the_advisor(records, margin)


@pytest.mark.parametrize("noise_seed", range(8))
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_they_agree_on_noisy_studies(noise_seed, higher_is_better):
    noisy = noise(0.006, noise_seed)
    sign = 1 if higher_is_better else -1
    records = study(lambda s, cost, seed: 0.9 + sign * 0.02 * cost + noisy(), higher_is_better=higher_is_better)
    answer = by_the_report(records, None)
    assert answer == by_the_advisor(records, None)
    assert answer in (None, *(r.run.schedule for r in records))


def test_the_claim_in_one_line():
    noisy = noise(0.001)
    records = study(lambda s, cost, seed: 0.98 - (0.005 if cost < 0.7 else 0) - (0.1 if cost < 0.6 else 0) + noisy())
    found = only(records)
    chosen = found.cheapest_acceptable
    assert chosen.label == "LR"
    text = headline(claim(found, CheapestAcceptable), found)
    assert text.startswith(
        "Cheapest acceptable schedule: LR, 39 % less cost, accuracy 0.975 against 0.980 (difference -0.0"
    )
    assert only(records, margin=0.002).cheapest_acceptable.relative_cost > chosen.relative_cost


def test_perplexity_is_shown_with_its_own_sign():
    noisy = noise(0.1)
    records = study(lambda s, cost, seed: 90 + (0.4 if cost < 1 else 0) + noisy(), higher_is_better=False)
    found = only(records)
    assert setting(found, "static 3").acceptable.difference < 0
    text = headline(claim(found, CheapestAcceptable), found)
    assert "static 3, 70 % less cost" in text
    assert "(difference +0." in text


def test_the_margin_is_checked():
    with pytest.raises(ValueError, match="margin must be a finite number from 0 up"):
        only([replace(r) for r in study(lambda s, cost, seed: 0.9)], margin=-1)


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_give_no_recommendation(seeds):
    """The advisor refuses them as well."""
    records = [
        record(spec, seed, quality + 0.01 * seed, bitops)
        for spec, quality, bitops in (("static:2", 0.4, 100), ("CR:2-8:cycles=8", 0.8, 500), ("static:8", 0.9, 1000))
        for seed in range(seeds)
    ]
    assert recommendations(only(records))[0] == "Fewer than 3 seeds cannot support a recommendation."
    assert by_the_advisor(records, None) is None
