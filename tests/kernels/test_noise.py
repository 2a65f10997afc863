"""Noise: reproducible, whatever the layout, the type and the kernels. Its quality: test_noise_quality.py."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle.kernels.noise import mix, noise_key, noise_of, site_key
from tests.kernels.layouts import LAYOUTS, in_layout
from tests.kernels.uniform_noise import hashed, uniform

pytestmark = pytest.mark.usefixtures("kernels")


def test_keys_of_sites():
    assert len({site_key(seed, name) for seed in range(10) for name in ("a", "b", "layer1.0")}) == 30
    assert site_key(0, "fc") == site_key(0, "fc") < 2**63


def test_the_rank_enters_the_key_except_rank_0(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for rank, added in ((0, ()), (1, (1,)), (7, (7,))):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        mixed = mix(5, 6, *added)
        assert noise_key(5, 6) == (mixed % 2**32, mixed >> 32)


def test_mixing_spreads_neighbours():
    mixed = [mix(5, step, 0) for step in range(1000)]
    assert len(set(mixed)) == 1000
    assert 0.45 < np.mean([bin(number).count("1") / 64 for number in mixed]) < 0.55


def test_channels_last_noise_has_the_layout_of_its_tensor():
    like = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert uniform(like, 1).stride() == like.stride()
    assert uniform(torch.empty(1).expand(3, 4), 1).shape == (3, 4)


def gradients(model, x, repeat=1):
    model.zero_grad()
    for _ in range(repeat):
        model(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def small_model(seed=0):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    return bc.quantize(model, bc.Recipe(seed=seed))


def test_noise_follows_seed_and_step():
    x = torch.randn(5, 6)

    def at(step, seed=0):
        model = small_model(seed)
        p = bc.PrecisionScheduler(model, "static:4", total_steps=10, backward_bits=3)
        p.load_state_dict({"step": step})
        return gradients(model, x)

    same, other_step, other_seed = at(2), at(3), at(2, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(at(2), same, strict=True))
    assert not torch.equal(same[0], other_step[0])
    assert not torch.equal(same[0], other_seed[0])


def test_micro_batches_of_a_step_draw_independent_noise():
    model, x = small_model(), torch.randn(5, 6)
    bc.PrecisionScheduler(model, "static:4", total_steps=10, backward_bits=3)
    assert not torch.equal(gradients(model, x)[0], gradients(model, x)[0])


def test_nearest_rounding_draws_nothing():
    torch.manual_seed(3)
    model = bc.quantize(torch.nn.Linear(6, 8), bc.Recipe(gradients="nearest"))
    bc.set_bits(model, forward=4, backward=3)
    x = torch.randn(5, 6)
    assert torch.equal(gradients(model, x)[0], gradients(model, x)[0])


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_any_slice_of_the_noise_follows_from_its_indices(shape, data):
    """Also if the tensor is split over threads, ranks or devices."""
    key = data.draw(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
    noise = noise_of(torch.empty(shape), key)
    indices = np.arange(noise.numel()).reshape(shape)
    part = tuple(slice(data.draw(st.integers(0, n - 1)), None, data.draw(st.integers(1, 3))) for n in shape)
    assert (noise[part].numpy() == hashed(indices[part], key)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_noise_does_not_depend_on_the_memory_layout(layout):
    x, state = torch.zeros(3, 5, 7, 4), torch.get_rng_state()
    expected = noise_of(x, (11, 12))
    assert torch.equal(torch.get_rng_state(), state), "torch's own random state is unchanged"
    for order in itertools.permutations(range(4)):
        assert torch.equal(noise_of(in_layout(x, layout, list(order)), (11, 12)), expected)


def test_noise_is_the_same_in_every_type_and_on_every_release():
    """Fixed numbers: a training that goes on with another release draws the noise that it would have drawn."""
    expected = hashed(np.arange(5), noise_key(1, 2, 3)).tolist()
    assert noise_key(1, 2, 3) == (1671398724, 144828724)
    assert expected == [-4914, 8110, -25982, -8903, -3745]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert uniform(torch.empty(5, dtype=dtype), 1, 2, 3).tolist() == expected
