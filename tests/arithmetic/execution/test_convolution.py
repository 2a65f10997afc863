"""Convolutions: simulated and integer execution agree to 1e-5 of the largest value, noise included."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.backends.integer_cpu import convolution as integer_convolution
from bitcycle.arithmetic.execution import ExecutionPlan, Reason
from bitcycle.conversion.sites import sites
from tests.kernels.layouts import in_layout
from tests.support.executions import (
    NEEDS_INTEGERS,
    TENSOR,
    VALUES,
    WHOLE,
    assert_agree,
    backward_widths,
    magnitudes,
    randn,
    recipes,
    seeded,
    widths,
)

pytestmark = NEEDS_INTEGERS


sides = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    images=st.integers(1, 3),
    channels=st.tuples(st.sampled_from([1, 2, 4, 16, 18]), st.sampled_from([1, 2, 4, 6, 16])),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=sides,
    stride=sides,
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    dilation=sides,
    grouped=st.booleans(),
    bias=st.booleans(),
    values=st.sampled_from(sorted(VALUES)),
    channels_last=st.booleans(),
    recipe=recipes,
    forward=widths,
    backward=backward_widths,
    seed=st.integers(0, 2**16),
)
def test_convolution(
    images, channels, size, kernel, stride, padding, dilation, grouped, bias, values, channels_last, recipe, forward,
    backward, seed,
):  # fmt: skip
    """Every geometry, also padding beyond the kernel and beyond the image."""
    sides = list(zip(size, kernel, padding, dilation, strict=True))
    assume(all(n + 2 * p > d * (k - 1) for n, k, p, d in sides))
    beyond = any(p > d * (k - 1) for _, k, p, d in sides)
    groups = 2 if grouped and channels[0] % 2 == channels[1] % 2 == 0 else 1
    build = lambda: nn.Conv2d(*channels, kernel, stride, padding, dilation, groups, bias)  # noqa: E731
    layer = seeded(build, seed)
    x = VALUES[values](randn(images, channels[0], *size, seed=seed))
    # torch itself can crash on windows of padding alone with the channels last.
    x = in_layout(x, "channels last" if channels_last and not beyond else "contiguous")
    means = assert_agree(layer, (x,), recipe, forward, backward, magnitudes=magnitudes(layer, (x,)))[""]
    if beyond or groups > 1:
        assert means == ExecutionPlan.simulated(Reason.GEOMETRY)
    elif recipe.activations == recipe.weights == "tensor" and recipe.grad_output != "row":
        assert means == WHOLE


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("of_weight", [False, True])
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_the_memory_layout_of_a_convolution_is_that_of_torch(channels_last, of_weight, execute):
    x = in_layout(randn(2, 16, 6, 6), "channels last" if channels_last else "contiguous").requires_grad_()
    layer = nn.Conv2d(16, 8, 3, padding=1)
    if of_weight:
        layer = layer.to(memory_format=torch.channels_last)
    expected = layer(x)
    bc.quantize(layer, TENSOR, execute=execute)
    bc.set_bits(layer, forward=4, backward=4)
    out = layer(x)
    assert out.stride() == expected.stride()
    out.sum().backward()
    assert x.grad.stride() == x.stride()


@pytest.mark.parametrize("padding", [0, 1])
def test_long_sums_of_a_convolution(padding):
    """As in the last blocks of a ResNet: 4608 terms, with sums beyond 24 bits."""
    layer = seeded(lambda: nn.Conv2d(512, 16, 3, padding=padding))
    x = randn(2, 512, 4, 4).relu()
    assert assert_agree(layer, (x,), TENSOR, 8, 8)[""] == WHOLE


def test_a_kernel_gradient_whose_codes_are_all_large():
    """More terms than 32 bits hold, if the codes of all images were summed at once."""
    x = torch.ones(40, 1, 64, 64)
    x[0, 0, 0, 0] = 0
    layer = bc.quantize(nn.Conv2d(1, 1, 1, bias=False), TENSOR, execute="integer")
    bc.set_bits(layer, forward=7, backward=8)
    grad_output = x.clone()
    layer(x).backward(grad_output)
    assert layer.weight.grad.item() == pytest.approx(x.numel() - 1)


@pytest.mark.parametrize("kernel", [1, 2])
def test_an_input_gradient_over_more_output_channels_than_32_bits_hold(kernel):
    channels = integer_convolution.MAX_TERMS // kernel**2 + 2000
    layer = nn.Conv2d(1, channels, kernel, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1).view(-1)[0] = 0
    bc.quantize(layer, TENSOR, execute="integer")
    bc.set_bits(layer, forward=8, backward=8)
    x = torch.ones(1, 1, kernel, kernel, requires_grad=True)
    out = layer(x)
    grad_output = torch.ones_like(out)
    grad_output.view(-1)[0] = 0
    out.backward(grad_output)
    torch.testing.assert_close(x.grad, torch.full_like(x, channels - 1))
    assert sites(layer)[""].plan == ExecutionPlan(None, Reason.GEOMETRY, None)


@pytest.mark.parametrize("build", [lambda: nn.Conv1d(4, 6, 3), lambda: nn.ConvTranspose2d(4, 6, 3)])
def test_other_convolutions_are_simulated(build):
    layer = seeded(build)
    x = randn(2, 4, 6) if isinstance(layer, nn.Conv1d) else randn(2, 4, 6, 6)
    assert assert_agree(layer, (x,), TENSOR, 8, 8)[""] == ExecutionPlan.simulated(Reason.GEOMETRY)
