"""A short run of the fuzzers. A long one is `make fuzz`."""

from tests.fuzz.plans import check_plan, draw_plan
from tests.fuzz.running import fuzz
from tests.fuzz.specs import check_spec, draw_spec


def test_specs():
    outcome = fuzz(draw_spec, check_spec, seed=1, number=10_000)
    assert outcome.valid > outcome.inputs / 3


def test_plans():
    outcome = fuzz(draw_plan, check_plan, seed=1, number=500)
    assert outcome.valid > outcome.inputs / 3
