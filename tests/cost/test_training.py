"""The cost of whole trainings: predicted, and metered while they run."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle._cost import DEVICES, Cost, Meter, Row
from bitcycle._cost.meter import MAX_SHAPES
from bitcycle.schedules import Constant
from bitcycle.schedules.operands import OperandSchedules
from tests.schedules.strategies import schedules
from tests.support.pairwise import combinations

ROWS = (
    Row("a", "Linear", "Linear", 100, 0, 100, True),
    Row("b", "Linear", "Linear", 50, 50, 50, True),
    Row("c", "Linear", "Linear", 7, 7, 7, False),
)
COST = Cost(ROWS)


@given(schedules, st.integers(1, 200), st.one_of(st.none(), st.integers(1, 16)))
def test_a_training_is_the_sum_of_its_steps(s, steps, backward):
    expected = sum(COST.bitops(s(step, steps), backward) for step in range(steps))
    assert COST.training(s, steps, backward) == expected


@given(schedules, st.integers(1, 200))
def test_savings_are_shares_of_the_baselines(s, steps):
    baseline = OperandSchedules.of(s).largest(steps)
    spent = COST.training(s, steps)
    assert COST.saving(s, steps) == pytest.approx(1 - spent / (steps * COST.bitops(baseline, baseline)))
    full = steps * COST.bitops(None, None)
    assert COST.saving(s, steps, against="full") == pytest.approx(1 - spent / full)
    assert COST.saving("full", steps) == 0


@given(schedules, st.integers(1, 200), st.one_of(st.just("max"), st.none(), st.integers(1, 16)))
def test_the_papers_convention_gives_the_schedules_own_saving(s, steps, backward):
    spent = COST.training(s, steps, backward, convention="paper")
    static = COST.training(Constant(OperandSchedules.of(s).largest(steps)), steps, backward, convention="paper")
    assert 1 - spent / static == pytest.approx(s.saving(steps, backward), abs=1e-12)
    assert COST.saving(s, steps, backward, convention="paper") == pytest.approx(1 - spent / static, abs=1e-12)


def test_full_precision_saves_nothing_against_itself_and_its_gradients_against_full_training():
    for backward in ("max", 8, None):
        assert COST.saving("full", 10, backward) == 0
    assert COST.saving("full", 10, 8, against="full") == pytest.approx(1 - COST.bitops(None, 8) / COST.bitops(None))
    assert COST.saving("full", 10, None, against="full") == 0


def test_a_schedule_with_full_precision_compares_with_its_largest_integer_width():
    s = bc.schedule("deficit(full@0.0..0.5, static:4)")
    assert OperandSchedules.of(s).largest(100) == 4
    mixed = 50 * COST.bitops(None, 8) + 50 * COST.bitops(4, 8)
    assert COST.saving(s, 100, 8) == pytest.approx(1 - mixed / (100 * COST.bitops(4, 8)))
    assert COST.saving(s, 100, 8) < 0 < COST.saving(s, 100, 8, against="full")


def test_millions_of_steps():
    assert COST.training("static:4", 10**7, 8) == 10**7 * COST.bitops(4, 8)
    assert COST.saving("RTH:3-8", 10**7) == pytest.approx(COST.saving("RTH:3-8", 64_000), abs=1e-3)


def test_parts_add_up():
    parts = COST.where("a").training("CR:3-8", 100) + COST.where("b", "c").training("CR:3-8", 100)
    assert parts == COST.training("CR:3-8", 100)


@pytest.mark.parametrize("where", ["0", "0.1", "[01].1", "2*"])
def test_parts_have_the_names_that_set_bits_takes(where):
    block = lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))  # noqa: E731
    model = bc.quantize(nn.Sequential(block(), block(), nn.Linear(2, 2)))
    bc.set_bits(model, forward=3, where=where)
    expected = [site.name for site in bc.summary(model).sites if site.forward == 3]
    assert [row.name for row in bc.cost(model, torch.zeros(1, 2)).where(where).rows] == expected


@pytest.mark.parametrize("device", DEVICES)
def test_estimated_times(device):
    for s in ("CR:3-8", "RR:3-8", "static:8"):
        assert 0 < COST.time_ratio(s, 1000, device=device) <= 1 + 1e-9
    assert COST.time_ratio("static:8", 1000, device=device) == 1
    eights = COST.time_ratio("CR:5-8", 1000, backward_bits=8, device=device)
    serial = 1 - COST.saving("CR:5-8", 1000, 8)  # its time is BitOps
    assert eights == pytest.approx(serial if device == "bit-serial" else 1)


def small_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    return bc.quantize(model, keep="4")


def train(model, meter, scheduler, batches):
    for size in batches:
        model(torch.randn(size, 6)).sum().backward()
        for p in scheduler if isinstance(scheduler, list) else [scheduler]:
            p.step()


def test_several_schedules():
    model = small_model()
    c = bc.cost(model, torch.zeros(4, 6))
    plans = {"0": "static:3", "2": "CR:4-8:cycles=2"}
    schedulers = [bc.PrecisionScheduler(model, s, 20, 8, where=name) for name, s in plans.items()]
    with Meter(model) as meter:
        train(model, meter, schedulers, [4] * 20)
    predicted = sum(c.where(name).training(s, 20, 8) for name, s in plans.items())
    assert meter.bitops == predicted + c.where("4").training("full", 20, None)


def test_extra_passes_of_a_count_are_not_metered():
    model = bc.quantize(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)))
    bc.set_bits(model, forward=4, backward=8)
    c = bc.cost(model, torch.zeros(4, 6))
    with Meter(model) as meter, Meter(model) as second, Meter(model[0]) as inner:
        model(torch.zeros(4, 6)).sum().backward()
        bc.cost(model, torch.zeros(4, 6))
        bc.summary(model, torch.zeros(4, 6))
    assert meter.bitops == second.bitops == c.bitops(forward=4, backward=8)
    assert inner.bitops == c.where("0").bitops(forward=4, backward=8)
    assert meter.passes == second.passes == inner.passes == 1


def test_evaluation_is_not_counted():
    model = small_model()
    bc.set_bits(model, forward=4, backward=8)
    with Meter(model) as meter:
        model.eval()(torch.randn(3, 6))
        with torch.no_grad():
            model.train()(torch.randn(3, 6))
    assert meter.bitops == 0


def test_a_resumed_meter_goes_on_with_batches_of_any_size():
    sizes = [16, 16, 5, 16, 9, 4, 4, 4, 4, 4]

    def run(parts):
        state, total = None, []
        for start, stop in parts:
            model = small_model()
            p = bc.PrecisionScheduler(model, "CR:3-8", 10, 8)
            p.load_state_dict({"step": start})
            with Meter(model) as meter:
                if state is not None:
                    meter.load_state_dict(state)
                train(model, meter, p, sizes[start:stop])
            state = meter.state_dict()
            total.append(meter.bitops)
        return total[-1]

    costs = {size: bc.cost(small_model(), torch.zeros(size, 6)) for size in sizes}
    bits = bc.schedule("CR:3-8").over(10)
    expected = sum(costs[size].bitops(forward, 8) for size, forward in zip(sizes, bits, strict=True))
    assert run([(0, 10)]) == run([(0, 3), (3, 10)]) == expected


def test_a_float_model_is_metered_in_full_precision_and_left_alone():
    model = nn.Linear(6, 4)
    with Meter(model) as meter:
        model(torch.randn(3, 6)).sum().backward()
    assert meter.bitops == 2 * 72 * 1024
    assert type(model) is nn.Linear
    assert not model._forward_pre_hooks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_is_metered_from_outside():
    model, s = small_model(), "CR:3-8:cycles=2"
    predicted = bc.cost(model, torch.zeros(3, 6)).training(s, 6, 8)
    scheduler = bc.PrecisionScheduler(model, s, 6, 8)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with Meter(compiled) as meter:
        train(compiled, meter, scheduler, [3] * 6)
    assert meter.bitops == predicted


def test_keywords():
    model = bc.quantize(nn.TransformerDecoderLayer(8, 2, 16))
    bc.set_bits(model, forward=4, backward=8)
    inputs = {"tgt": torch.zeros(3, 1, 8), "memory": torch.zeros(5, 1, 8)}
    with Meter(model) as meter:
        model(**inputs)
    assert meter.bitops == bc.cost(model, inputs).bitops(4, 8)


SCHEDULES = {
    "full at the end": {"schedule": "join(CR:3-6:cycles=2, 0.5, full)"},
    "full at the end, gradients fixed": {"schedule": "join(static:4, 0.5, full)", "backward_bits": 8},
    "operands apart": {"schedule": "static:4", "activations": "join(full, 0.25, static:8)", "backward_bits": "LR:5-7"},
    "strength": {"schedule": "RR:3-8:cycles=2", "strength": "join(linear-rise, 0.5, 1)"},
    "full throughout": {"schedule": "full"},
}


@combinations(
    full=False,
    settings=SCHEDULES,
    grid=["integer", "symmetric", "float", "mx", "nvfp4"],
    evaluate_at=["max", "current"],
)
def test_the_meter_equals_the_prediction_exactly(settings, grid, evaluate_at):
    model, steps = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), 16
    bc.quantize(model, bc.Recipe(grid=grid, evaluate_at=evaluate_at), keep="2")
    counted = bc.cost(model, torch.zeros(5, 6))
    assert counted.grid == grid
    with Meter(model) as meter:
        assert meter.saving == 0
        train(model, meter, bc.PrecisionScheduler(model, total_steps=steps, **settings), [5] * steps)
    assert meter.bitops == counted.training(steps=steps, **settings)
    assert meter.saving == pytest.approx(counted.saving(steps=steps, **settings))
    assert meter.passes == steps


def test_bits_that_are_set_by_hand_have_the_evaluation_bits_as_baseline():
    model = nn.Sequential(nn.Linear(6, 8))
    bc.quantize(model)
    scheduler = bc.PrecisionScheduler(model, "join(static:4, 0.5, full)", total_steps=2)
    del scheduler
    bc.set_bits(model, forward=4, backward=8, evaluate=6)
    counted = bc.cost(model, torch.zeros(5, 6))
    with Meter(model) as meter:
        model(torch.randn(5, 6)).sum().backward()
    assert meter.baseline == counted.bitops(forward=6, backward=8)


class AtTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 8)

    def forward(self, x, t):
        return t * self.fc(x)


def test_an_argument_that_always_changes_does_not_fill_the_memory():
    model, steps = bc.quantize(AtTime()), MAX_SHAPES + 10
    bc.set_bits(model, forward=4, backward=8)
    with Meter(model) as meter:
        for step in range(steps):
            model(torch.randn(3, 6), step / steps).sum().backward()
    assert meter.bitops == 3 * steps * 48 * (4 * 4 + 8 * 4)
    assert len(meter._costs) == MAX_SHAPES


class Batch:
    """A batch as a small class of the user's own."""

    def __init__(self, x):
        self.x = x


class Unpicklable(Batch):
    def __reduce__(self):
        raise TypeError("no")


class OfBatches(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 8)

    def forward(self, batch):
        return self.fc(batch.x)


@pytest.mark.parametrize("kind", [Batch, Unpicklable])
def test_batches_of_any_class_are_counted_by_what_they_hold(kind):
    model, sizes = bc.quantize(OfBatches()), [1, 10, 100, 1000, 10, 1]
    bc.set_bits(model, forward=4, backward=8)
    with Meter(model) as meter:
        for size in sizes:
            model(kind(torch.randn(size, 6))).sum().backward()
    assert meter.bitops == sum(sizes) * 48 * (4 * 4 + 8 * 4)
    assert len(meter._costs) == (4 if kind is Batch else 0)
