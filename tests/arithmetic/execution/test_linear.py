"""Linear layers: simulated and integer execution agree to 1e-5 of the largest value, noise included."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.backends.integer_cpu import convolution as integer_convolution
from bitcycle.arithmetic.backends.integer_cpu import linear as integer_linear
from bitcycle.arithmetic.execution import ExecutionPlan, Reason
from bitcycle.kernels.integer_sums import multiply_codes
from tests.kernels.layouts import in_layout
from tests.support.executions import (
    NEEDS_INTEGERS,
    TENSOR,
    VALUES,
    WHOLE,
    assert_agree,
    assert_close,
    backward_widths,
    executed,
    magnitudes,
    randn,
    recipes,
    seeded,
    widths,
)

pytestmark = NEEDS_INTEGERS


@settings(max_examples=2 * settings.default.max_examples)
@given(
    shape=st.lists(st.integers(1, 5), max_size=2),
    features=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    bias=st.booleans(),
    values=st.sampled_from(sorted(VALUES)),
    layout=st.sampled_from(["contiguous", "sliced", "strided", "permuted", "expanded", "offset"]),
    recipe=recipes,
    forward=widths,
    backward=backward_widths,
    seed=st.integers(0, 2**16),
)
def test_linear(shape, features, bias, values, layout, recipe, forward, backward, seed):
    layer = seeded(lambda: nn.Linear(*features, bias=bias), seed)
    x = VALUES[values](randn(*shape, features[0], seed=seed))
    x = in_layout(x, layout, list(reversed(range(x.dim()))))
    means = assert_agree(layer, (x,), recipe, forward, backward, magnitudes=magnitudes(layer, (x,)))[""]
    assert means.output is (Reason.GRANULARITY if recipe.activations == "channel" and x.dim() > 1 else None)
    of_one_grid = recipe.weights == recipe.activations == "tensor" and recipe.grad_output == "tensor"
    if means.output is None and (recipe.grad_output == "row and column" or of_one_grid):
        assert means == WHOLE


@pytest.mark.parametrize("forward", [9, 16, None])
@pytest.mark.parametrize("backward", [3, None])
def test_wide_and_full_precision_forward(forward, backward):
    layer = seeded(lambda: nn.Linear(9, 7))
    means = assert_agree(layer, (randn(5, 9),), TENSOR, forward, backward)[""]
    if (forward, backward) != (None, None):
        assert means == ExecutionPlan.simulated(Reason.WIDTH if forward else Reason.FULL_PRECISION)


def test_sums_that_leave_32_bits_are_split(monkeypatch):
    """As if 32 bits could hold five terms only."""
    x = randn(3, 4, 13)
    layer = seeded(lambda: nn.Linear(13, 11))
    whole, _ = executed(layer, (x,), TENSOR, 8, 8, "integer")
    for module in (integer_linear, integer_convolution):
        monkeypatch.setattr(module, "MAX_TERMS", 5)
    for recipe in (TENSOR, bc.Recipe()):
        assert_agree(layer, (x,), recipe, 8, 8)
    split, _ = executed(layer, (x,), TENSOR, 8, 8, "integer")
    assert_close(split, whole)
    convolution = seeded(lambda: nn.Conv2d(1, 3, 2, padding=1))
    images = randn(7, 1, 1, 1)
    means = assert_agree(convolution, (images,), TENSOR, 8, 8)[""]
    assert means.weight_gradient is None  # four positions a window: an image at a time
    wide = seeded(lambda: nn.Conv2d(2, 3, 2))
    assert assert_agree(wide, (randn(2, 2, 4, 4),), TENSOR, 8, 8)[""] == ExecutionPlan.simulated(Reason.GEOMETRY)


def test_products_of_codes_of_any_size():
    """Also with one row, column or term, for which torch misreads the strides of a transposed matrix."""
    generator = torch.Generator().manual_seed(0)
    for rows, terms, columns in itertools.product((1, 2, 3, 17), repeat=3):
        p = torch.randint(-128, 128, (rows, terms), generator=generator, dtype=torch.int8)
        q = torch.randint(-128, 128, (terms, columns), generator=generator, dtype=torch.int8)
        expected = (p.double() @ q.double()).int()
        for first in (p, p.t().contiguous().t()):
            for second in (q, q.t().contiguous().t()):
                assert torch.equal(multiply_codes(first, second), expected)
