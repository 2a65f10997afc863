"""The planted bugs still have their places in the code. ``python -m tests.planted_bugs`` plants them."""

from tests.planted_bugs import BUGS, gone


def test_every_bug_can_be_planted():
    assert gone() == []


def test_few_bugs_slip_through():
    assert len(BUGS) >= 40
    assert sum(bool(bug.slips) for bug in BUGS) <= 4
