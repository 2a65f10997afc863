"""Weights, activations, gradients and strength, each on a schedule: scheduler, cost, compiled graph, resume."""

import copy
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import lr_scheduler

import bitcycle as bc
from bitcycle._cost import Meter
from bitcycle.conversion.sites import sites
from bitcycle.schedules.operands import OperandSchedules

OVERRIDES = {
    "weights": "join(static:4, 0.5, static:8)",
    "activations": "LR:3-8:cycles=2",
    "backward_bits": "join(static:8, 0.75, full)",
    "strength": "join(linear-rise, 0.5, 1)",
}


RECIPES = {
    "integer": bc.Recipe(),
    "symmetric": bc.Recipe(grid="symmetric"),
    "float": bc.Recipe(grid="float"),
    "mx": bc.Recipe(grid="mx"),
    "nvfp4": bc.Recipe(grid="nvfp4", hadamard=True),
}


def model_of_two(seed=0, recipe=None):
    torch.manual_seed(seed)
    return bc.quantize(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), recipe, execute="simulated")


X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def trained(model, p, steps, run=None):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        (run or model)(X).square().mean().backward()
        optimizer.step()
        p.step()


def test_every_operand_follows_its_own_schedule():
    model = model_of_two()
    p = bc.PrecisionScheduler(model, "static:8", total_steps=16, **OVERRIDES)
    expected = {name: bc.schedule(OVERRIDES[name]) for name in ("weights", "activations", "backward_bits")}
    for step in range(16):
        [now] = {(s.weight_bits, s.activation_bits, s.backward_bits, s.strength) for s in sites(model).values()}
        assert now[:3] == tuple(expected[name](step, 16) for name in ("weights", "activations", "backward_bits"))
        assert now == p.current
        assert now[3] == min(1, step / 8)
        assert {s.evaluation for s in sites(model).values()} == {(8, 8, 1.0)}
        p.step()


@pytest.mark.parametrize(
    ("spec", "options", "step", "expected"),
    [
        ("join(RTH:3-8, 0.8, full)", {}, 0, (8, 8, 8)),
        ("join(RTH:3-8, 0.8, full)", {}, 99, (None, None, None)),
        ("static:4", {"activations": "join(full, 0.5, static:8)"}, 0, (4, None, 8)),
        ("static:4", {"strength": 0}, 0, (4, 4, None)),
        ("full", {}, 0, (None, None, None)),
        ("join(static:4, 0.5, full)", {"backward_bits": 6}, 99, (None, None, 6)),
    ],
)
def test_the_default_of_gradients_is_full_only_where_the_forward_pass_is(spec, options, step, expected):
    model = model_of_two()
    p = bc.PrecisionScheduler(model, spec, total_steps=100, **options)
    for _ in range(step):
        p.step()
    assert p.current[:3] == expected


def test_evaluation_is_at_the_largest_width_of_each_operand_or_at_the_given_one():
    for spec, options, expected in (
        ("join(static:4, 0.9, full)", {}, (None, None, 1.0)),
        ("CR:3-8", {"weights": 4}, (4, 8, 1.0)),
        ("join(static:4, 0.9, full)", {"evaluate_bits": 4}, (4, 4, 1.0)),
        ("static:4", {"evaluate_bits": None}, (None, None, 1.0)),
    ):
        model = model_of_two()
        p = bc.PrecisionScheduler(model, spec, total_steps=10, **options)
        assert {site.evaluation for site in sites(model).values()} == {expected}
        del p


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_one_compiled_graph_when_every_operand_has_a_schedule(recipe):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager, model = model_of_two(recipe=recipe), model_of_two(recipe=recipe)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for own, run in ((eager, eager), (model, compiled)):
        trained(own, bc.PrecisionScheduler(own, "static:8", total_steps=12, **OVERRIDES), 12, run)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_resumed_training_is_the_same_bit_for_bit(recipe):
    whole, first, second = (model_of_two(recipe=recipe) for _ in range(3))
    trained(whole, bc.PrecisionScheduler(whole, "static:8", total_steps=12, **OVERRIDES), 12)
    p = bc.PrecisionScheduler(first, "static:8", total_steps=12, **OVERRIDES)
    trained(first, p, 7)
    state = json.loads(json.dumps(p.state_dict()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    resumed = bc.PrecisionScheduler(second, "static:8", total_steps=12, **OVERRIDES)
    resumed.load_state_dict(state)
    trained(second, resumed, 5)
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_state_of_another_schedule_warns_and_names_what_differs():
    p = bc.PrecisionScheduler(model_of_two(), "static:8", total_steps=12, **OVERRIDES)
    other = bc.PrecisionScheduler(model_of_two(), "static:8", total_steps=12)
    with pytest.warns(UserWarning, match="weights is 'not given' here and 'join.*strength is 'not given' here"):
        other.load_state_dict(p.state_dict())
    assert "weights='join(static:4, 0.5, static:8)'" in repr(p)
    assert "strength='join(linear-rise, 0.5, 1)'" in repr(p)


def test_a_combination_costs_what_a_hand_computation_says():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4, bias=False)

        def forward(self, x):
            h = self.linear(x)
            return h @ h.mT

    model = bc.quantize(Attends(), execute="simulated")
    x = torch.randn(2, 5, 6)
    c = bc.cost(model, x)
    linear, scores = 2 * 5 * 6 * 4, 2 * 5 * 4 * 5
    one_step = linear * (4 * 8) + linear * (6 * 8) + 2 * scores * (6 * 8) + scores * (8 * 8)
    assert c.bitops(weights=4, activations=8, backward=6) == one_step
    assert c.training("static:4", 10, 6, activations=8) == 10 * one_step
    full = linear * 32 * 32 + linear * 6 * 32 + 2 * scores * 6 * 32 + scores * 32 * 32
    half = c.training("static:4", 10, 6, activations=8, strength="join(0.5, 0.5, 1)")
    assert half == 5 * one_step + 5 * full
    assert c.where("linear").bitops(weights=4, activations=8, backward=6) == linear * 4 * 8 + linear * 6 * 8
    baseline = 10 * c.bitops(forward=8, backward=6)
    assert c.saving("static:4", 10, 6, activations=8) == 1 - 10 * one_step / baseline
    p = bc.PrecisionScheduler(model, "static:4", 10, 6, activations=8, strength="join(0.5, 0.5, 1)")
    with Meter(model) as meter:
        for _ in range(10):
            model(x).sum().backward()
            p.step()
    assert meter.bitops == half


specs = st.sampled_from(["static:4", "full", "CR:3-8:cycles=2", "join(static:4, 0.5, full)", "linear-fall:2-6"])
strengths = st.sampled_from([None, "0", "0.5", "linear-rise", "join(0, 0.3, cosine-rise:0.5-1.0, 0.6, 1)"])


@settings(deadline=None)
@given(specs, specs, st.sampled_from(["max", 5, None, "join(static:8, 0.5, full)"]), strengths, st.integers(1, 40))
def test_the_histogram_counts_every_step(weights, activations, backward, strength, total):
    operands = OperandSchedules.of(None, backward, weights, activations, strength)
    counts = {}
    for step in range(total):
        widths = operands.at(step, total).counted()
        counts[widths] = counts.get(widths, 0) + 1
    assert operands.histogram(total) == counts
    same = OperandSchedules.of(weights, backward, strength=strength)
    assert sum(same.histogram(total).values()) == total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strength": 1.5}, "strength must be a number from 0 .* to 1 .*, got 1.5"),
        ({"strength": float("nan")}, "strength must be a number from 0 .*, got nan"),
        ({"strength": "linear-rise:0.5-1.5"}, "the highest strength must be a number from 0 .*, got 1.5"),
        ({"strength": "linear-rise:1-0"}, "the lowest strength 1.0 is above the highest strength 0.0"),
        ({"strength": "delay(0.5, linear-rise)"}, "unknown combinator 'delay'; known names: join"),
        ({"strength": "wobble"}, "unknown strength 'wobble': write a number from 0 to 1"),
        ({"strength": "linear-rise:cycles=2"}, "a single rise or fall has no cycles to set"),
        ({"strength": "join(0, 0.5)"}, "one boundary between every two"),
        ({"weights": 17}, "weights must be from 1 to 16"),
        ({"weights": True}, "must be .* got True"),
        ({"backward_bits": np.bool_(True)}, "must be .* got (True|np.True_)"),
        ({"activations": "CR"}, "CR needs bits"),
        ({"backward_bits": 0}, "backward_bits must be an integer from 1 to 16"),
        ({"backward_bits": "high"}, "backward_bits must be an integer.*, got 'high'"),
        ({"evaluate_bits": 0}, "evaluate_bits must be an integer from 1 to 16"),
        ({"schedule": None, "weights": 4}, "give a schedule, or a schedule for weights and one for activations"),
    ],
)
def test_misuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        bc.PrecisionScheduler(model_of_two(), **{"schedule": "static:8", "total_steps": 10, **arguments})


@pytest.mark.parametrize("integer", [np.int64, np.uint8, torch.tensor])
def test_any_integer_is_a_width(integer):
    plain = {"weights": 4, "activations": 8, "backward_bits": 6, "evaluate_bits": 7}
    states = []
    for widths in (plain, {name: integer(bits) for name, bits in plain.items()}):
        model = bc.quantize(nn.Linear(4, 4))
        p = bc.PrecisionScheduler(model, None, total_steps=10, **widths)
        states.append((p.state_dict(), [site.control.tolist() for site in sites(model).values()]))
        del widths["evaluate_bits"]
        states.append(bc.cost(model, torch.zeros(2, 4)).training(None, 10, **widths))
    assert states[:2] == states[2:]
    assert type(states[2][0]["backward_bits"]) is int


def optimizer(rates=(0.1,)):
    return torch.optim.SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates], momentum=0.9)


def linear_rise(o):
    return lr_scheduler.LinearLR(o, 0.1, 1.0, total_iters=20)


def linear_decay(o):
    return lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=20)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 100), 1),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 if step < 80 else (100 - step) / 20), 81),
        (lambda o: lr_scheduler.MultiStepLR(o, [30, 60]), 30),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=100, pct_start=0.4), 40),
        (lambda o: lr_scheduler.ConstantLR(o, 0.5, total_iters=10), None),
        (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.MultiStepLR(o, [30]), linear_rise(o)]), 30),
        (
            lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.ConstantLR(o, 1.0, 1), linear_decay(o)], milestones=[70]
            ),
            71,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*epoch parameter:UserWarning")
def test_where_a_learning_rate_begins_to_fall(make, expected):
    o = optimizer((0.1, 0.2))
    s = make(o)
    before = copy.deepcopy((o.state_dict(), {k: v for k, v in s.state_dict().items() if not k.startswith("_sched")}))
    found = bc.decay_begins(s, 100)
    assert (o.state_dict(), {k: v for k, v in s.state_dict().items() if not k.startswith("_sched")}) == before
    rates = []
    for _ in range(100):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    falls = [step for step in range(1, 100) if rates[step] < rates[step - 1] * (1 - 1e-9)]
    assert found == (falls[0] if falls else None)
    assert expected is None or found == pytest.approx(expected, abs=1)


def test_decay_of_functions_and_of_transformers():
    transformers = pytest.importorskip("transformers")
    o = optimizer()
    assert bc.decay_begins(transformers.get_linear_schedule_with_warmup(o, 10, 100), 100) == 11
    assert bc.decay_begins(lambda step: 1.0, 100) is None
    assert bc.decay_begins(lambda step: 1.0 - (step >= 60) * 0.5, 100) == 60
    with pytest.raises(ValueError, match="ReduceLROnPlateau depends on the metric"):
        bc.decay_begins(lr_scheduler.ReduceLROnPlateau(o), 100)
    with pytest.raises(ValueError, match="must be a torch.optim.lr_scheduler.LRScheduler or a function"):
        bc.decay_begins(0.1, 100)
