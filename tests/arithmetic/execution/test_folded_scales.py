"""Scales that are folded into an operand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bitcycle as bc
from tests.nn.reference import grid
from tests.support.executions import (
    NEEDS_INTEGERS,
    TENSOR,
    assert_close,
    built,
    executed,
    randn,
    run,
    seeded,
)

pytestmark = NEEDS_INTEGERS


def folded(layer, x, forward, backward):
    """The formula of folding.py for a linear layer, or a convolution with a weight per channel, in double precision.

    Grids are those of rows of the input and of output channels; grad_output is rounded to nearest.
    """
    is_linear = isinstance(layer, nn.Linear)
    x, w = x.double(), layer.weight.detach().double()
    w_axes = tuple(range(1, w.dim()))
    levels = 2**forward - 1

    def parts(t, axes):
        scale = (t.amax(axes, keepdim=True) - t.amin(axes, keepdim=True)) / levels
        middle = t.amin(axes, keepdim=True) + scale * 2.0 ** (forward - 1)
        return scale, middle, (grid(t, forward, axes) - middle) / scale

    w_scale, w_middle, w_unit = parts(w, w_axes)
    multiply = F.linear if is_linear else lambda a, b: F.conv2d(a, b, None, layer.stride, layer.padding, layer.dilation)
    x_on_grid = grid(x, forward, (-1,)) if is_linear else grid(x, forward)
    out = multiply(x_on_grid, grid(w, forward, w_axes))
    grad_output = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view(out.shape) ** 3

    # Input gradient: (E_n s_n) is rounded; the sum with the middles is exact.
    by_channel = (1, -1) if is_linear else (1, -1, 1, 1)
    folded_in = grid(grad_output * w_scale.view(by_channel), backward)
    probe = x.clone().requires_grad_()
    grad_x = torch.autograd.grad(multiply(probe, w_unit), probe, folded_in)[0]
    grad_x += torch.autograd.grad(multiply(probe, w_middle.expand_as(w)), probe, grad_output)[0]
    # Weight gradient: the same with the scales of rows; without them grad_output is rounded as it is.
    probe = w.clone().requires_grad_()
    if is_linear:
        x_scale, x_middle, x_unit = parts(x, (-1,))
        folded_out = grid(grad_output * x_scale, backward)
        grad_w = torch.autograd.grad(multiply(x_unit, probe), probe, folded_out)[0]
        grad_w += torch.autograd.grad(multiply(x_middle.expand_as(x), probe), probe, grad_output)[0]
    else:
        grad_w = torch.autograd.grad(multiply(x_on_grid, probe), probe, grid(grad_output, backward))[0]
    return out, grad_output, grad_x, grad_w


FOLDED = {
    "linear": (lambda: nn.Linear(9, 7, bias=False), lambda: randn(5, 9)),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, padding=1, bias=False), lambda: randn(2, 3, 6, 5)),
    "strided convolution": (
        lambda: nn.Conv2d(3, 5, (3, 2), (2, 3), (2, 1), (1, 2), bias=False),
        lambda: randn(2, 3, 6, 7),
    ),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("bits", [(8, 8), (3, 4), (1, 1), (8, 12)])
def test_folded_scales_are_those_of_the_formula(name, execute, bits):
    layer, x = (seeded(make) for make in FOLDED[name])  # by chance, a number may lie between two values of its grid
    out, grad_output, grad_x, grad_w = folded(layer, x, *bits)
    activations = "row" if name == "linear" else "tensor"
    recipe = bc.Recipe(activations=activations, gradients="nearest", fold_scales=True)
    bc.quantize(layer, recipe, execute=execute)
    bc.set_bits(layer, forward=bits[0], backward=bits[1])
    x.requires_grad_()
    got = layer(x)
    got.backward(grad_output.float())
    assert_close([got.detach(), x.grad, layer.weight.grad], [t.float() for t in (out, grad_x, grad_w)])


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_folded_scales_are_right_in_the_mean(name, execute):
    """The mean over 400 draws is the gradient for the unrounded grad_output, within five standard errors.

    The false-alarm probability is 6e-7 a number, thus below 1e-4 over all of them.
    """
    layer, x = (seeded(make) for make in FOLDED[name])
    activations = "row" if name == "linear" else "tensor"
    bc.quantize(layer, bc.Recipe(activations=activations, fold_scales=True), execute=execute)
    bc.set_bits(layer, forward=4, backward=None)
    expected = run(layer, (x,))[1]
    bc.set_bits(layer, forward=4, backward=3)
    draws = [[g.clone() for g in run(layer, (x,))[1]] for _ in range(400)]
    for position, wanted in enumerate(expected):
        drawn = torch.stack([gradients[position] for gradients in draws]).double()
        error = drawn.std(0) / 400**0.5
        assert ((drawn.mean(0) - wanted.double()).abs() <= 5 * error + 1e-5 * wanted.abs().max()).all()
        assert (drawn.std(0) > 0).any()


def test_folding_changes_nothing_where_there_is_one_scale():
    layer, x = built("linear")
    plain, _ = executed(layer, (x,), TENSOR, 4, 4, "simulated")
    recipe = bc.Recipe(weights="tensor", activations="tensor", fold_scales=True)
    folding, _ = executed(layer, (x,), recipe, 4, 4, "simulated")
    assert all(torch.equal(a, b) for a, b in zip(plain, folding, strict=True))


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("half", ["autocast", "bfloat16"])
def test_folded_scales_with_half_precision(name, half):
    """The scales of operands are float32, whatever the type of grad_output."""
    layer, x = (seeded(make) for make in FOLDED[name])
    activations = "row" if name == "linear" else "tensor"
    bc.quantize(layer, bc.Recipe(activations=activations, gradients="nearest", fold_scales=True))
    bc.set_bits(layer, forward=8, backward=8)
    expected = run(layer, (x,))[1]
    if half == "bfloat16":
        layer, x = layer.bfloat16(), x.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=half == "autocast"):
        gradients = run(layer, (x,))[1]
    for found, wanted in zip(gradients, expected, strict=True):
        assert found.dtype is x.dtype
        assert (found.float() - wanted).abs().max() < 0.02 * wanted.abs().max()
