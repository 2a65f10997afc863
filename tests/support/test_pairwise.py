"""Samples of combinations hold every pair."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.support.pairwise import combinations, pairwise


@given(st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_every_pair_is_in_a_row(sizes):
    rows = pairwise(*map(range, sizes))
    for i, j in itertools.combinations(range(len(sizes)), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(range(sizes[i]), range(sizes[j])))
    assert len(rows) == len(set(rows))
    assert rows == pairwise(*map(range, sizes))


def test_combinations_that_are_not_sampled_are_slow():
    parameters = combinations(a=[1, 2], b={"x": 3, "y": 4}, c=["p", "q"]).args[1]
    assert [parameter.id for parameter in parameters if not parameter.marks] == ["1-x-p", "1-y-q", "2-x-q", "2-y-p"]
    assert [mark.name for parameter in parameters for mark in parameter.marks] == ["slow"] * 4
