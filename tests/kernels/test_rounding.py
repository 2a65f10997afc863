"""Laws of the affine grid beyond those of every grid, which are in tests/grids/test_contract.py."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bitcycle.kernels.rounding import decode, encode, round_to_grid
from tests.kernels.uniform_noise import uniform

pytestmark = pytest.mark.usefixtures("kernels")

widths = st.integers(1, 16)
shapes = hnp.array_shapes(max_dims=4, max_side=6)
values = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


@st.composite
def arrays(draw, dtype="float32"):
    return torch.from_numpy(draw(hnp.arrays(dtype, draw(shapes), elements=values)).copy())


@st.composite
def with_dims(draw):
    x = draw(arrays())
    dims = draw(st.one_of(st.none(), st.sets(st.integers(0, x.dim() - 1), min_size=1).map(sorted).map(tuple)))
    return x, dims


def step_of(x, bits, dims):
    low, high = (x.amin(), x.amax()) if dims is None else (x.amin(dims, keepdim=True), x.amax(dims, keepdim=True))
    return (high - low) / (2**bits - 1)


@given(with_dims(), widths)
def test_rounding_moves_a_value_by_half_a_step_at_most(x_dims, bits):
    x, dims = x_dims
    step = step_of(x.double(), bits, dims)
    moved = (round_to_grid(x, bits, dims).double() - x.double()).abs()
    assert (moved <= step / 2 * (1 + 1e-3) + 1e-5 * x.double().abs().max()).all()


@given(with_dims(), widths)
def test_values_stay_in_their_range(x_dims, bits):
    x, dims = x_dims
    q = round_to_grid(x, bits, dims)
    slack = 1e-5 * x.abs().max()
    assert q.min() >= x.min() - slack
    assert q.max() <= x.max() + slack


@given(arrays(), st.integers(1, 6))
def test_a_grid_of_b_bits_has_at_most_two_to_the_b_values(x, bits):
    assert len(round_to_grid(x, bits).unique()) <= 2**bits


@given(arrays(), widths)
def test_the_smallest_value_is_on_the_grid_exactly(x, bits):
    assert round_to_grid(x, bits).view(-1)[x.argmin()] == x.min()


@given(with_dims(), widths)
def test_decode_recovers_the_values(x_dims, bits):
    x, dims = x_dims
    encoded = encode(x, bits, dims)
    assert torch.equal(encoded.values, round_to_grid(x, bits, dims))
    assert torch.equal(decode(encoded.codes, encoded.scale, encoded.zero, x.dtype), encoded.values)
    assert encoded.codes.dtype is (torch.int8 if bits <= 8 else x.dtype)


@given(arrays("float64"), st.integers(1, 12), st.integers(0, 2**40))
def test_stochastic_rounding_goes_to_a_neighbour_on_the_grid(x, bits, key):
    rounded = round_to_grid(x, bits, None, uniform(x, key))
    step = step_of(x, bits, None)
    assert ((rounded - x).abs() <= step * (1 + 1e-6) + 1e-9).all()
    assert rounded.min() >= x.min() - 1e-9
    assert rounded.max() <= x.max() + 1e-9 * (1 + x.abs().max())


@given(st.integers(1, 8), st.integers(0, 2**40))
def test_stochastic_rounding_does_not_change_values_on_the_grid(bits, key):
    x = torch.arange(2**bits, dtype=torch.float64).repeat(50)
    assert torch.equal(round_to_grid(x, bits, None, uniform(x, key)), x)


@given(values, widths, shapes)
def test_a_constant_tensor_stays_what_it_is(value, bits, shape):
    x = torch.full(shape, value)
    assert torch.equal(round_to_grid(x, bits), x)
    assert torch.equal(round_to_grid(x, bits, None, uniform(x, 1)), x)


@pytest.mark.parametrize("x", [[0.0, math.inf, 2.0], [3e38, -3e38, 1.0], [0.0, 1e-44, 5e-44]])
def test_what_has_no_grid_is_unchanged(x):
    """Not finite, a range that overflows, and one that cannot be divided."""
    x = torch.tensor(x)
    encoded = encode(x, 4)
    assert torch.equal(encoded.values, x)
    assert torch.equal(decode(encoded.codes, encoded.scale, encoded.zero, torch.float32), x)


def test_rows_are_independent_of_one_another():
    x = torch.tensor([[0.0, 0.4, 1.0], [0.0, 40.0, 100.0], [math.nan, 1.0, 2.0]])
    q = round_to_grid(x, 1, (-1,))
    assert q[:2].tolist() == [[0, 0, 1], [0, 0, 100]]
    assert q[2].isnan().tolist() == [True, False, False]


def test_half_rounds_to_even():
    assert round_to_grid(torch.tensor([0.0, 0.5, 1.5, 2.5, 3.0]), 2).tolist() == [0, 0, 2, 2, 3]
