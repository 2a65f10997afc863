"""Controls at equal cost in plans: solved for the cost that a run of the task is metered at."""

import tomllib

import pytest

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.studies.estimate import estimate, training_cost
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.schedules import schedule


@pytest.mark.slow
def test_a_control_is_metered_at_the_cost_of_its_reference():
    """The first layer of a graph network has no gradient of its input, and most of the cost."""
    plan = plan_of({"task": "graph", "schedules": ["RTH", "match(RTH)"], "steps": 100, "seeds": 1}, "controls")
    reference, *controls = [train(run)[0].bitops for run in plan.runs()]
    assert controls == pytest.approx([reference] * 4, rel=1e-3)


@pytest.mark.parametrize(
    "overrides",
    [
        {"activations": 8},
        {"weights": "CR:4-8:cycles=2"},
        {"strength": "join(0.5, 0.3, 1)"},
        {"activations": 12, "backward_bits": 8},
    ],
)
def test_controls_follow_separate_schedules(overrides):
    values = {"task": "graph", "schedules": ["CT", "match(CT)"], "bits": [3, 8], "steps": 150, "seeds": 1}
    reference, *controls = [each.bitops for each in estimate(plan_of({**values, **overrides}, "controls").runs())]
    assert controls == pytest.approx([reference] * 4, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [{}, {"activations": "static:8", "strength": "join(1, 0.3, 0.5, 0.7, 1)"}])
def test_the_cost_of_a_training_whose_steps_differ_in_size(overrides):
    """The last segment of a text is shorter than the others."""
    run = RunConfig("language", "CR:2-8:cycles=2", 8, batch_size=200, backward_bits=8, **overrides)
    cost = training_cost(run)
    assert cost(schedule(run.schedule), 8) == pytest.approx(train(run)[0].bitops, rel=1e-3)
    assert cost(schedule("deficit(2@6..7, static:8)"), 8) > cost(schedule("deficit(2@0..1, static:8)"), 8)


def test_a_stored_plan_has_the_solved_specs():
    plan = plan_of({"task": "graph", "schedules": ["CT", "match(CT, mixed)"], "bits": [3, 8], "seeds": 1}, "controls")
    assert "match" not in plan.as_toml()
    assert plan_of(tomllib.loads(plan.as_toml())) == plan
    mixed = plan.runs()[1]
    assert mixed.schedule.startswith("static:5.")
    assert mixed.backward_bits == 8


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schedules": ["match(CT, wave)"]}, "unknown control 'wave'"),
        ({"schedules": ["match(CT"]}, "a control is written match\\(CT\\) or match\\(CT, mixed\\)"),
        (
            {"schedules": ["match(" + " " * 9000]},
            "a control is written match",
        ),  # must not take minutes
        ({"schedules": ["match(CX)"]}, "unknown schedule 'CX'"),
        ({"schedules": ["match(CT)"], "cycles": [2, 8]}, "one number of cycles"),
        (
            {"schedules": ["match(CT)"], "activations": [6, 8]},
            "of backward_bits, weights, activations",
        ),
        ({"schedules": ["match(CT)"], "bits": [3, 6], "activations": 8}, "not at q_max = 6 bits .* set backward_bits"),
        ({"schedules": ["match(CT)"], "strength": "join(0, 0.5, 1)"}, "set backward_bits"),
        ({"schedules": ["match(CT)"], "steps": 17}, "costs as much as .* in 17 steps, to 0.1 %: use more steps"),
    ],
)
def test_misuse(changed, message):
    with pytest.raises(ValueError, match=message):
        plan_of({"task": "graph", "seeds": 1, **changed}, "controls")
