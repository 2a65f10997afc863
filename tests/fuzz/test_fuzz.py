"""A short run of the fuzzers. A long one is `make fuzz`."""

import pytest

from tests.fuzz.plans import check_plan, draw_plan
from tests.fuzz.running import fuzz
from tests.fuzz.specs import check_spec, draw_spec
from tests.fuzz.strengths import check_control, check_strength, draw_control, draw_strength

pytestmark = pytest.mark.slow


def test_specs():
    outcome = fuzz(draw_spec, check_spec, seed=1, number=10_000)
    assert outcome.valid > outcome.inputs / 3


def test_strengths():
    outcome = fuzz(draw_strength, check_strength, seed=1, number=2_000)
    assert outcome.valid > outcome.inputs / 3


def test_controls():
    outcome = fuzz(draw_control, check_control, seed=1, number=300)
    assert outcome.valid > outcome.inputs / 3


def test_plans():
    outcome = fuzz(draw_plan, check_plan, seed=1, number=500)
    assert outcome.valid > outcome.inputs / 3
