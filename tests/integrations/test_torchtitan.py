"""The model converter: bits after each step, stages of a pipeline, exact resume."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.conversion.sites import sites
from bitcycle.integrations.torchtitan import PrecisionConverter

SCHEDULE = "CR:2-8:cycles=2"


def converted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    converter = PrecisionConverter(SCHEDULE, total_steps=8, backward_bits=2)
    converter.convert(model)
    return model, converter


def train(model, converter, optimizer, steps):
    bits = []
    for step in steps:
        bits.append(bc.summary(model).sites[0].forward)
        model(torch.randn(5, 4, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        converter.post_optimizer_hook([model])
    return bits


def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit():
    (whole, converter), (first, before), (second, after) = converted(), converted(), converted()
    make = lambda model: torch.optim.SGD(model.parameters(), 0.1)  # noqa: E731
    assert train(whole, converter, make(whole), range(8)) == list(bc.schedule(SCHEDULE).over(8))
    train(first, before, make(first), range(3))
    second.load_state_dict(first.state_dict())
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    train(second, after, make(second), range(3, 8))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), second.parameters(), strict=True))


def test_stages_that_are_copies_of_the_model_follow():
    model, converter = converted()
    stages = [copy.deepcopy(model)[:1], copy.deepcopy(model)[2:]]
    for step in range(1, 4):
        converter.post_optimizer_hook(stages)
        expected = bc.schedule(SCHEDULE)(step, 8)
        assert [bc.summary(stage).sites[0].forward for stage in stages] == [expected] * 2
    assert converter.state_dict()["step"] == 3


@pytest.mark.parametrize("attach_first", [False, True])
def test_the_first_step_of_resumed_stages_has_the_bits_and_the_noise_of_that_step(attach_first):
    model, converter = converted()
    for _ in range(3):
        converter.post_optimizer_hook(model)
    expected = [site.control.clone() for site in sites(model).values()]

    resumed, after = converted()
    stages = [copy.deepcopy(resumed)[:1], copy.deepcopy(resumed)[2:]]
    if attach_first:
        after.attach(stages)
    after.load_state_dict(converter.state_dict())
    after.attach(stages)
    found = [site.control for stage in stages for site in sites(stage).values()]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    after.post_optimizer_hook(stages)
    assert after.state_dict()["step"] == 4


def test_resumed_stages_that_were_not_attached_are_an_error():
    model, converter = converted()
    stages = [copy.deepcopy(model)]
    converter.load_state_dict({"step": 3})
    with pytest.raises(ValueError, match=r"not at the bits of step 3.*call attach\(model_parts\)"):
        converter.post_optimizer_hook(stages)
    converter.post_optimizer_hook(nn.Sequential(model))  # a wrapper of the converted model, with the same sites
    assert converter.state_dict()["step"] == 4


def test_misuse_is_one_line():
    converter = PrecisionConverter(SCHEDULE, total_steps=8)
    with pytest.raises(ValueError, match=r"call convert\(model\) first"):
        converter.state_dict()
    with pytest.raises(ValueError, match="convert it first with bc.quantize"):
        converter.post_optimizer_hook(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="backwards_bits"):
        PrecisionConverter(SCHEDULE, total_steps=8, backwards_bits=8)
