"""Hints for misspelt names."""

import pytest

from bitcycle._support.names import MAX_NAMES, nearest
from bitcycle.schedules import PROFILES, TEN

TASKS = ["detection", "entailment", "graph", "image", "language"]


@pytest.mark.parametrize(
    ("name", "known", "suggestion"),
    [
        ("RHT", TEN, "RTH"),
        ("rtv", TEN, "RTV"),
        ("cosin", PROFILES, "cosine"),
        ("imge", TASKS, "image"),
        ("Graphs", TASKS, "graph"),
        ("'grahp'", TASKS, "graph"),
        ("resnet-20", ["cifar-resnet-20", "cifar-resnet-200"], "cifar-resnet-20"),
    ],
)
def test_the_nearest_name_is_suggested(name, known, suggestion):
    assert nearest(name, known) == f"did you mean {suggestion!r}?"


@pytest.mark.parametrize("name", ["XYZ", "", "CX", "abacus"])
def test_without_a_near_name_the_known_names_are_listed(name):
    assert nearest(name, TEN) == f"known names: {', '.join(TEN)}"
    assert nearest(name, TEN, otherwise="see the manual") == "see the manual"


def test_at_most_a_dozen_names_are_listed():
    hint = nearest("?", [f"name{i}" for i in range(100)])
    assert hint.endswith("name11 and 88 more")
    assert hint.count("name") == MAX_NAMES + 1
    assert nearest("?", []) == "no names are known"
