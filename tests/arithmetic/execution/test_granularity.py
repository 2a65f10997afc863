"""The granularity of grad_output: the two roundings of ``"row and column"``, against their formulas, and variances."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bitcycle as bc
from tests.nn.reference import grid
from tests.support.executions import NEEDS_INTEGERS, assert_close, executed, randn, run, seeded

pytestmark = NEEDS_INTEGERS

GRANULARITIES = ["tensor", "row", "row and column"]


class Scores(nn.Module):
    def forward(self, q, k):
        return q @ k.mT


class Context(nn.Module):
    def forward(self, weights, values):
        return weights @ values


IMAGES = (1, 2, 3)
OF_SAMPLES, OF_CHANNELS = (IMAGES, IMAGES, IMAGES, IMAGES), (IMAGES, IMAGES, IMAGES, (2, 3))
OF_OUTPUTS, ROWS = (IMAGES, (0, 2, 3), IMAGES, (2, 3)), ((-1,), (1,), (-1,))
PRODUCTS = {  # how to build it, its operands, and the dimensions that share a grid: of a, b, and rows and columns of E
    "linear": (lambda: nn.Linear(12, 7, bias=False), [(2, 5, 12)], *ROWS, (0, 1)),
    "linear with blocks": (lambda: nn.Linear(6, 3, bias=False), [(2, 150, 6)], *ROWS, None),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, 1, 2, bias=False), [(4, 3, 6, 7)], *OF_CHANNELS),
    "strided convolution": (lambda: nn.Conv2d(3, 5, (3, 2), (2, 3), 1, 2, bias=False), [(4, 3, 6, 7)], *OF_SAMPLES),
    "grouped convolution": (lambda: nn.Conv2d(4, 6, 3, groups=2, bias=False), [(3, 4, 6, 5)], *OF_SAMPLES),
    "transposed convolution": (lambda: nn.ConvTranspose2d(3, 5, 3, 2, bias=False), [(4, 3, 4, 5)], *OF_OUTPUTS),
    "scores": (Scores, [(2, 3, 5, 8), (2, 3, 6, 8)], (-1,), (-1,), (-1,), (-2,)),
    "context": (Context, [(2, 3, 5, 6), (2, 3, 6, 8)], (-1,), (-1,), (-1,), (-2,)),
}
UNABSORBED = {("context", "b")}
"""Operands whose scales do not vary along the sum of a gradient product."""


def parts(name, x, dims, bits):
    """The scales, the middles and the unit values of an operand in double precision."""
    low, high = x.amin(dims, keepdim=True), x.amax(dims, keepdim=True)
    with_zero = name in ("scores", "context")
    low, high = (low.clamp(max=0), high.clamp(min=0)) if with_zero else (low, high)
    scale, half = ((high - low) / (2**bits - 1)).clamp(min=2.0**-100), 2.0 ** (bits - 1)
    middle = low if low.mean().abs() < half / 2 * scale.mean() else low + scale * half
    return scale, middle, (grid(x, bits, dims, with_zero) - middle) / scale


def along(name, scale, of_b, grad_output):
    """The scales of an operand in the shape of grad_output."""
    if of_b and "convolution" in name:
        return scale.view(1, -1, 1, 1)
    if of_b:
        return scale.mT if name == "scores" else scale.flatten()
    return scale


def gradients(function, operands, grad_output, wanted):
    operands = [x.detach().requires_grad_(i == wanted) for i, x in enumerate(operands)]
    return torch.autograd.grad(function(*operands), operands[wanted], grad_output)[0]


def by_formula(name, layer, inputs, bits, backward, grad_output):
    """The output and both gradients in double precision, with grad_output rounded to nearest."""
    _, _, a_dims, b_dims, rows, columns = PRODUCTS[name]
    operands = [x.detach().double() for x in (*inputs, *layer.parameters())]

    def function(a, b):
        return layer(a, b) if len(inputs) == 2 else torch.func.functional_call(layer, {"weight": b}, (a,))

    (a_scale, a_middle, a_unit), (b_scale, b_middle, b_unit) = (
        parts(name, x, dims, bits) for x, dims in zip(operands, (a_dims, b_dims), strict=True)
    )
    a, b = a_unit * a_scale + a_middle, b_unit * b_scale + b_middle
    if (name, "b") in UNABSORBED:
        grad_a = gradients(function, (a, b), grid(grad_output, backward, rows), 0)
    else:
        error = grid(grad_output * along(name, b_scale, True, grad_output), backward, rows)
        grad_a = gradients(function, (a, b_unit), error, 0)
        grad_a += gradients(function, (a, b_middle.expand_as(b)), grad_output, 0)
    error = grad_output * a_scale
    if name == "linear with blocks":
        blocks = error.flatten(0, 1).split(128)
        error = torch.cat([grid(block, backward, (0,)) for block in blocks]).view_as(error)
    else:
        error = grid(error, backward, columns)
    grad_b = gradients(function, (a_unit, b), error, 1)
    grad_b += gradients(function, (a_middle.expand_as(a), b), grad_output, 1)
    return function(a, b), grad_a, grad_b


def build(name, is_sparse=False):
    """A layer, or a product alone, and its operands: the first one as after a ReLU if it is to be sparse."""
    make, shapes, *_ = PRODUCTS[name]
    first, *others = (randn(*shape, seed=i) for i, shape in enumerate(shapes))
    return seeded(make), [F.relu(first - 0.5) if is_sparse else first, *others]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("bits", [(8, 8), (3, 4), (1, 1), (8, 12)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_two_roundings_are_those_of_the_formula(name, execute, bits, is_sparse):
    layer, inputs = build(name, is_sparse)
    with torch.no_grad():
        shape = layer(*inputs).shape
    grad_output = torch.linspace(-1, 2, shape.numel(), dtype=torch.float64).view(shape) ** 3
    expected = by_formula(name, copy.deepcopy(layer).double(), inputs, *bits, grad_output)
    bc.quantize(layer, bc.Recipe(gradients="nearest"), execute=execute)
    bc.set_bits(layer, forward=bits[0], backward=bits[1])
    inputs = [x.requires_grad_() for x in inputs]
    got = layer(*inputs)
    got.backward(grad_output.float())
    found = [got.detach(), *(x.grad for x in (*inputs, *layer.parameters()))]
    assert_close(found, [x.float().view_as(y) for x, y in zip(expected, found, strict=True)], 1e-4)


def variances(name, granularity, execute, is_sparse):
    """Of each gradient, over draws of the noise, for a grad_output whose rows and columns differ in size.

    They are alike if the activations are sparse.
    """
    layer, inputs = build(name, is_sparse)
    bc.quantize(layer, bc.Recipe(grad_output=granularity), execute=execute)
    bc.set_bits(layer, forward=8, backward=4)
    draws = []
    for _ in range(100):
        operands = [x.clone().requires_grad_() for x in inputs]
        out = layer(*operands)
        size = torch.linspace(-3, 0, len(out)).exp().view(-1, *[1] * (out.dim() - 1))
        error = size * torch.linspace(-1, 2, out.numel()).view(out.shape) ** 3
        out.backward(randn(*out.shape, seed=9) if is_sparse else error)
        draws.append([x.grad.clone() for x in (*operands, *layer.parameters())])
        layer.zero_grad()
    return [float(torch.stack(drawn).var(0).sum()) for drawn in zip(*draws, strict=True)]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("execute", ["simulated", pytest.param("integer", marks=pytest.mark.slow)])
def test_a_finer_granularity_has_no_more_variance(name, execute):
    """Rows are finer than the tensor, and so are columns.

    Scales that are absorbed have the same effect on all grids here, because those of the operands are about equal. The
    means over 100 draws differ from the variances by some per cent.
    """
    of_tensor, *finer = (variances(name, granularity, execute, is_sparse=False) for granularity in GRANULARITIES)
    for found in finer:
        assert all(fine <= 1.1 * coarse for fine, coarse in zip(found, of_tensor, strict=True))


@pytest.mark.parametrize("name", [name for name in PRODUCTS if "convolution" in name])
def test_the_noise_of_weight_gradients_is_multiplied_by_the_zeros_of_activations(name):
    """Where a ReLU returns 0, the noise of two roundings adds nothing, as that of one rounding: 0 is the middle."""
    once, twice = (variances(name, granularity, "simulated", is_sparse=True)[1] for granularity in GRANULARITIES[1:])
    assert twice <= 1.1 * once


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_rounding_is_unbiased(name, granularity, execute):
    """The mean over 1,000 draws is the gradient for the unrounded grad_output, within five standard errors.

    With the elements of the gradients, these are more than 10^5 draws for each product. The probability of a false
    alarm is 6e-7 a number, thus below 1e-4 over all of them.
    """
    layer, inputs = build(name)
    bc.quantize(layer, bc.Recipe(grad_output=granularity), execute=execute)
    bc.set_bits(layer, forward=4, backward=None)
    expected = run(layer, inputs)[1]
    bc.set_bits(layer, forward=4, backward=3)
    draws = [[g.clone() for g in run(layer, inputs)[1]] for _ in range(1000)]
    for position, wanted in enumerate(expected):
        drawn = torch.stack([gradients[position] for gradients in draws]).double()
        error = drawn.std(0) / len(draws) ** 0.5
        assert ((drawn.mean(0) - wanted.double()).abs() <= 5 * error + 1e-5 * wanted.abs().max()).all()
        assert (drawn.std(0) > 0).any()


@pytest.mark.parametrize("name", ["linear", "convolution"])
def test_one_row_and_one_scale_are_one_grid(name):
    """Where there is one row, "row" is "tensor"."""
    layer, (x,) = build(name)
    x = x[:1, :1] if name == "linear" else x[:1]
    of_tensor, _ = executed(layer, (x,), bc.Recipe(grad_output="tensor"), 4, 4, "simulated")
    of_row, _ = executed(layer, (x,), bc.Recipe(grad_output="row"), 4, 4, "simulated")
    assert all(torch.equal(a, b) for a, b in zip(of_tensor, of_row, strict=True))


@pytest.mark.parametrize("name", ["linear", "convolution", "scores"])
@pytest.mark.parametrize("half", ["autocast", "bfloat16"])
def test_half_precision(name, half):
    """The scales of operands are float32, whatever the type of grad_output."""
    layer, inputs = build(name)
    bc.quantize(layer, bc.Recipe(gradients="nearest"))
    bc.set_bits(layer, forward=8, backward=8)
    expected = run(layer, inputs)[1]
    if half == "bfloat16":
        layer, inputs = layer.bfloat16(), [x.bfloat16() for x in inputs]
    with torch.autocast("cpu", torch.bfloat16, enabled=half == "autocast"):
        gradients = run(layer, inputs)[1]
    for found, wanted in zip(gradients, expected, strict=True):
        assert found.dtype is inputs[0].dtype
        assert (found.float() - wanted).abs().max() < 0.03 * wanted.abs().max()


@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_no_output_depends_on_the_rest_of_the_batch(name, execute):
    layer, inputs = build(name)
    bc.quantize(layer, bc.Recipe(), execute=execute)
    bc.set_bits(layer, forward=3)
    together = layer(*inputs)
    for i in range(len(together)):
        assert_close([layer(*(x[i : i + 1] for x in inputs)).detach()], [together[i : i + 1].detach()])


def test_an_input_without_rows_or_a_batch():
    """A vector is one row; an image is one sample."""
    for layer, x in ((nn.Linear(6, 5), randn(6)), (nn.Conv2d(3, 5, 3), randn(3, 6, 6))):
        for granularity in GRANULARITIES:
            own = bc.quantize(copy.deepcopy(layer), bc.Recipe(grad_output=granularity), execute="simulated")
            bc.set_bits(own, forward=8, backward=8)
            outputs, found = run(own, (x,))
            batched, expected = run(own, (x.unsqueeze(0),))
            assert outputs[0].shape == batched[0].shape[1:]
            assert all(a.squeeze(0).shape == b.squeeze(0).shape for a, b in zip(found, expected, strict=True))
            plain = run(layer, (x,))[1]
            assert all((a - b).norm() <= 0.05 * b.norm() + 1e-3 for a, b in zip(found, plain, strict=True))


def test_functions_that_are_computed_as_a_whole_have_a_grid_per_row():
    class Sums(nn.Module):
        def forward(self, x, y):
            return torch.einsum("bi,bj->bij", x, y).sum(-1) @ torch.ones(4, 4) + F.bilinear(x, y, torch.ones(4, 4, 5))

    model = bc.quantize(Sums(), bc.Recipe(), execute="simulated")
    bc.set_bits(model, forward=8, backward=8)
    x, y = randn(3, 4).requires_grad_(), randn(3, 5, seed=1)
    model(x, y).backward(torch.linspace(1e-6, 1, 12).view(3, 4))
    assert x.grad.isfinite().all()
