"""The three products of grids with blocks, against plain formulas: each operand rounded along the dimension it sums."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.block_rounding import hadamard
from tests.nn.cases import Calls
from tests.nn.reference import microscaling, nvfp4

BLOCKS = pytest.mark.parametrize(("grid", "plain"), [("mx", microscaling), ("nvfp4", nvfp4)])


def along(plain, x, *dims):
    """Round along several dimensions, flattened in their order."""
    order = [d for d in range(x.dim()) if d not in dims] + list(dims)
    flat = x.detach().permute(order).flatten(x.dim() - len(dims))
    rounded = plain(flat, 4, -1).unflatten(-1, [x.shape[d] for d in dims])
    return rounded.permute([order.index(d) for d in range(x.dim())])


def converted(layer, grid, **changes):
    bc.quantize(layer.double(), bc.Recipe(grid=grid, gradients="nearest", **changes))
    bc.set_bits(layer, forward=4, backward=4)
    return layer


def gradients(layer, x, error):
    x = x.clone().requires_grad_()
    out = layer(x)
    out.backward(error)
    return out.detach(), x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad


def check(got, expected):
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@BLOCKS
@pytest.mark.parametrize("shape", [(70, 50), (3, 24, 33), (40,)])
def test_linear(grid, plain, shape):
    torch.manual_seed(0)
    layer = converted(nn.Linear(shape[-1], 45), grid)
    x, w = torch.randn(shape, dtype=torch.float64), layer.weight.detach()
    error = torch.randn(*shape[:-1], 45, dtype=torch.float64)
    rows_x, rows_e = x.reshape(-1, shape[-1]), error.reshape(-1, 45)
    out = F.linear(along(plain, x, x.dim() - 1), along(plain, w, 1), layer.bias.detach())
    grad_x = along(plain, error, error.dim() - 1) @ along(plain, w, 0)
    grad_w = along(plain, rows_e, 0).t() @ along(plain, rows_x, 0)
    check(gradients(layer, x, error), (out, grad_x, grad_w, rows_e.sum(0)))


@BLOCKS
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(grid, plain, transposed, groups):
    torch.manual_seed(0)
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    layer = converted(kind(40 * groups, 36 * groups, 3, stride=2, padding=1, groups=groups), grid)
    x = torch.randn(2, 40 * groups, 7, 6, dtype=torch.float64)
    error = torch.randn_like(layer(x))
    w = layer.weight.detach()

    def channels(t, dim=1):
        return torch.cat([along(plain_tensor(plain, t), part, dim) for part in t.chunk(groups, dim)], dim)

    function = F.conv_transpose2d if transposed else F.conv2d
    in_dim, out_dim = (0, 1) if transposed else (1, 0)
    split = {d: channels(w, d) if d == 0 else along(plain, w, d) for d in (0, 1)}
    reference_x, reference_w = x.clone().requires_grad_(), w.clone().requires_grad_()
    geometry = {"stride": 2, "padding": 1, "groups": groups}
    out = function(channels(x), split[in_dim], layer.bias.detach(), **geometry)
    function(reference_x, split[out_dim], None, **geometry).backward(channels(error))
    function(along(plain, x, 0, 2, 3), reference_w, None, **geometry).backward(along(plain, error, 0, 2, 3))
    expected = (out, reference_x.grad, reference_w.grad, error.sum((0, 2, 3)))
    check(gradients(layer, x, error), expected)


def plain_tensor(plain, whole):
    """A reference for a part of a tensor: in NVFP4 the scale of the tensor is that of the whole."""
    if plain is microscaling:
        return plain

    def rounded(part, bits, dim):
        padded = F.pad(part, (0, -part.shape[-1] % 16))
        extended = torch.cat([padded, whole.abs().max().expand(*part.shape[:-1], 16)], dim)
        return plain(extended, bits, dim)[..., : part.shape[-1]]

    return rounded


@BLOCKS
def test_matmul(grid, plain):
    torch.manual_seed(0)
    product = Calls(torch.matmul)
    bc.quantize(product, bc.Recipe(grid=grid, gradients="nearest"))
    bc.set_bits(product, forward=4, backward=4)
    a, b = torch.randn(2, 20, 40, dtype=torch.float64), torch.randn(2, 40, 35, dtype=torch.float64)
    error = torch.randn(2, 20, 35, dtype=torch.float64)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    out = product(x, y)
    out.backward(error)
    expected = (
        along(plain, a, 2) @ along(plain, b, 1),
        along(plain, error, 2) @ along(plain, b, 2).mT,
        along(plain, a, 1).mT @ along(plain, error, 1),
    )
    check((out.detach(), x.grad, y.grad), expected)


def test_attention_scores_sum_over_features_and_the_context_over_keys():
    torch.manual_seed(0)
    attention = bc.quantize(Calls(F.scaled_dot_product_attention), bc.Recipe(grid="mx"))
    bc.set_bits(attention, forward=4, backward=4)
    q, k, v = torch.randn(3, 1, 2, 6, 40, dtype=torch.float64)
    weights = (along(microscaling, q * 40**-0.5, 3) @ along(microscaling, k, 3).mT).softmax(-1)
    expected = along(microscaling, weights, 3) @ along(microscaling, v, 2)
    torch.testing.assert_close(attention(q, k, v), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [16, 32])
def test_a_hadamard_matrix_is_orthogonal(size):
    matrix = hadamard(size)
    torch.testing.assert_close(matrix @ matrix.t(), torch.eye(size, dtype=torch.float64))
    assert torch.equal(matrix.abs().unique(), matrix[0, :1])


@pytest.mark.parametrize("grid", ["mx", "nvfp4"])
@pytest.mark.parametrize("shape", [(70, 50), (3, 24, 33), (40,)])
def test_hadamard_matrices_cancel_in_the_gradients(grid, shape, monkeypatch):
    """Without rounding the rotated products are those of the float layer, whatever the sizes."""
    torch.manual_seed(0)
    layer = converted(nn.Linear(shape[-1], 45), grid, hadamard=True)
    monkeypatch.setattr(type(layer.bitcycle.recipe.family), "round", lambda self, x, *_, **__: x)
    x = torch.randn(shape, dtype=torch.float64)
    error = torch.randn(*shape[:-1], 45, dtype=torch.float64)
    expected = (
        F.linear(x, layer.weight, layer.bias).detach(),
        error @ layer.weight.detach(),
        error.reshape(-1, 45).t() @ x.reshape(-1, shape[-1]),
        error.reshape(-1, 45).sum(0),
    )
    check(gradients(layer, x, error), expected)


def test_hadamard_matrices_are_drawn_from_the_key_of_the_site():
    """The same step draws the same signs, another step others; without 4-bit errors nothing is rotated."""
    torch.manual_seed(0)
    x, error = torch.randn(64, 32), torch.randn(64, 48)

    def weight_gradient(step, backward, rotate=True):
        torch.manual_seed(1)
        layer = nn.Linear(32, 48)
        bc.quantize(layer, bc.Recipe(grid="nvfp4", hadamard=rotate, gradients="nearest"))
        bc.set_bits(layer, forward=4, backward=backward)
        layer.bitcycle.sites[""].begin_step(step)
        layer(x).backward(error)
        return layer.weight.grad

    assert torch.equal(weight_gradient(3, 4), weight_gradient(3, 4))
    assert not torch.equal(weight_gradient(3, 4), weight_gradient(4, 4))
    assert not torch.equal(weight_gradient(3, 4), weight_gradient(3, 4, rotate=False))
    assert torch.equal(weight_gradient(3, 8), weight_gradient(4, 8, rotate=False))  # rounded to nearest


@pytest.mark.parametrize("grid", ["symmetric", "float", "mx", "nvfp4"])
def test_stochastic_errors_are_right_in_the_mean(grid):
    torch.manual_seed(0)
    layer = nn.Linear(20, 24)
    bc.quantize(layer, bc.Recipe(grid=grid))
    x, error = torch.randn(48, 20), torch.rand(48, 24) * 0.24 + 0.5  # values that do not saturate
    bc.set_bits(layer, forward=4, backward=None)
    _, grad_x, grad_w, _ = gradients(layer, x, error)
    bc.set_bits(layer, forward=4, backward=4)
    draws = []
    for _ in range(300):
        layer.zero_grad()
        draws.append(gradients(layer, x, error)[1:3])
    for position, wanted in enumerate((grad_x, grad_w)):
        drawn = torch.stack([pair[position] for pair in draws])
        off = (drawn.mean(0) - wanted).abs() / (drawn.std(0) / 300**0.5 + 1e-6)
        assert off.max() < 6
