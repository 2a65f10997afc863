"""The precision scheduler."""

import copy
import pickle

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.conversion.sites import sites


def model_of_two():
    torch.manual_seed(0)
    return bc.quantize(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)))


def train(model, scheduler, optimizer, steps, start=0):
    """Train on batches that depend on the step alone."""
    for step in range(start, start + steps):
        x = torch.randn(16, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("name", ["CR", "RTH", "LT", "ETV", "linear-fall", "delay(0.2, CR)", "deficit(2@0.0..0.1, CR)"])
@pytest.mark.filterwarnings("ignore:PrecisionScheduler.step.* was called more than total_steps=40 times:UserWarning")
def test_it_follows_the_schedule(name):
    s = bc.schedule(name, bits=(3, 8))
    model = model_of_two()
    p = bc.PrecisionScheduler(model, s, total_steps=40, backward_bits=6)
    for step in range(45):
        assert p.bits == s(step, 40)
        assert {site.forward_bits for site in sites(model).values()} == {s(step, 40)}
        assert {site.backward_bits for site in sites(model).values()} == {6}
        assert {site.evaluate_bits for site in sites(model).values()} == {8}
        p.step()


def test_steps_past_the_end_keep_the_last_bits_and_warn_once():
    p = bc.PrecisionScheduler(model_of_two(), "linear-rise:3-8", total_steps=4)
    for _ in range(4):
        p.step()
    last = p.bits
    with pytest.warns(UserWarning, match="called more than total_steps=4 times"):
        p.step()
    p.step()  # a second warning would be an error
    assert p.bits == last == bc.schedule("linear-rise:3-8")(3, 4)
    p.total_steps = 7
    p.step()
    with pytest.warns(UserWarning, match="total_steps=7"):
        p.step()


def test_backward_bits_default_to_q_max():
    p = bc.PrecisionScheduler(model_of_two(), "CR:3-6", total_steps=10)
    assert p.backward_bits == 6
    assert bc.PrecisionScheduler(model_of_two(), "CR:3-6", total_steps=10, backward_bits=None).backward_bits is None
    assert bc.PrecisionScheduler(model_of_two(), "full", total_steps=10).backward_bits is None


def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit():
    def begin():
        model = model_of_two()
        return model, bc.PrecisionScheduler(model, "CR:3-8:cycles=2", 20, 4), torch.optim.Adam(model.parameters(), 0.01)

    model, scheduler, optimizer = begin()
    train(model, scheduler, optimizer, 20)

    first, first_scheduler, first_optimizer = begin()
    train(first, first_scheduler, first_optimizer, 9)
    saved = [part.state_dict() for part in (first, first_scheduler, first_optimizer)]
    second, second_scheduler, second_optimizer = begin()
    torch.manual_seed(99)
    for part, state in zip((second, second_scheduler, second_optimizer), saved, strict=True):
        part.load_state_dict(state)
    assert second_scheduler.bits == first_scheduler.bits
    train(second, second_scheduler, second_optimizer, 11, start=9)
    for a, b in zip(model.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_its_state_is_plain_and_loads_safely(tmp_path):
    p = bc.PrecisionScheduler(model_of_two(), "CR:3-8", total_steps=10)
    torch.save(p.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == p.state_dict()
    with pytest.raises(ValueError, match="it has no 'step'"):
        p.load_state_dict({})


def test_several_schedules_for_several_parts():
    model = model_of_two()
    first = bc.PrecisionScheduler(model, "static:3", total_steps=10, where="0")
    second = bc.PrecisionScheduler(model, "linear-rise:4-8", total_steps=10, where="2")
    for step in range(10):
        by_name = {name: site.forward_bits for name, site in sites(model).items()}
        assert by_name == {"0": 3, "2": bc.schedule("linear-rise:4-8")(step, 10)}
        first.step()
        second.step()


def test_every_site_follows_the_schedule_on_its_own_grid():
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    bc.quantize(model[0], bc.Recipe(grid="float"))
    bc.quantize(model[1])
    p = bc.PrecisionScheduler(model, "linear-rise:3-8", total_steps=6, backward_bits="linear-rise:3-8")
    widths = []
    for _ in range(6):
        widths.append([(site.forward_bits, site.backward_bits) for site in sites(model).values()])
        p.step()
    floats, integers = zip(*widths, strict=True)
    assert floats == tuple((q, q) for q in (4, 4, 6, 6, 6, 8))
    assert integers == tuple((q, q) for q in (3, 4, 5, 6, 6, 7))


def test_two_schedulers_on_one_site_warn_once():
    model = model_of_two()
    first = bc.PrecisionScheduler(model, "static:3", total_steps=10, where="0")
    with pytest.warns(UserWarning, match="another PrecisionScheduler controls 1 of these 2 sites") as caught:
        second = bc.PrecisionScheduler(model, "static:4", total_steps=10)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    first.step()
    second.step()
    copied = copy.deepcopy(model)
    bc.PrecisionScheduler(copied, "static:5", total_steps=10)  # nothing drives a copy
    del first, second
    bc.PrecisionScheduler(model, "static:4", total_steps=10)


def test_a_scheduler_and_its_model_are_copied_together():
    model = model_of_two()
    p = bc.PrecisionScheduler(model, "linear-rise:3-8", total_steps=2)
    for copied_model, copied in (copy.deepcopy((model, p)), pickle.loads(pickle.dumps((model, p)))):
        copied.step()
        assert {site.forward_bits for site in sites(copied_model).values()} == {copied.bits}
    assert {site.forward_bits for site in sites(model).values()} == {p.bits}


def test_the_state_of_another_schedule_is_loaded_with_a_warning():
    state = bc.PrecisionScheduler(model_of_two(), "CR:3-8", total_steps=10, backward_bits=8).state_dict()
    p = bc.PrecisionScheduler(model_of_two(), "CT:3-8", total_steps=10, backward_bits=6)
    with pytest.warns(UserWarning, match="another precision schedule") as caught:
        p.load_state_dict(state)
    message = str(caught[0].message)
    assert "schedule is 'CT" in message
    assert "'CR" in message
    assert "backward_bits is 6 here and 8 in the checkpoint" in message
    assert "total_steps" not in message
    p.load_state_dict(p.state_dict())


def test_a_cut_short_or_extended_training():
    model = model_of_two()
    p = bc.PrecisionScheduler(model, "linear-rise:3-8", total_steps=10)
    for _ in range(9):
        p.step()
    assert p.bits == bc.schedule("linear-rise:3-8")(9, 10)
    p.total_steps = 20
    assert p.bits == bc.schedule("linear-rise:3-8")(9, 20)
    assert {site.forward_bits for site in sites(model).values()} == {p.bits}  # at once
    state = p.state_dict()
    del p
    longer = bc.PrecisionScheduler(model, "linear-rise:3-8", total_steps=40)
    with pytest.warns(UserWarning, match="total_steps is 40 here and 20 in the checkpoint"):
        longer.load_state_dict(state)
    assert longer.bits == bc.schedule("linear-rise:3-8")(9, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total_steps": 0}, "total_steps must be 1 or more"),
        ({"where": "layer9.*"}, "no site matches 'layer9.\\*'"),
        ({"schedule": "CR:3-24"}, "from 1 to 16"),
        ({"schedule": "deficit(3@0..100, static:8)"}, "is outside a run of 10 steps"),
        ({"model": nn.Linear(2, 2)}, "convert it first with bc.quantize"),
    ],
)
def test_misuse(arguments, message):
    valid = {"model": model_of_two(), "schedule": "CR:3-8", "total_steps": 10}
    with pytest.raises(ValueError, match=message):
        bc.PrecisionScheduler(**{**valid, **arguments})
