"""A large weight that several products use is rounded once, and never used after it has changed."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import quantized_product
from bitcycle.arithmetic.quantized_product import SMALL

SIZE = 128  # a weight of this size is not small


@pytest.fixture
def rounded(monkeypatch):
    """The shapes of all operands that are rounded."""
    shapes = []
    put_on_grid = quantized_product.put_on_grid

    def watched(x, *arguments, **keywords):
        shapes.append(tuple(x.shape))
        return put_on_grid(x, *arguments, **keywords)

    monkeypatch.setattr(quantized_product, "put_on_grid", watched)
    return shapes


def converted(layer=None):
    torch.manual_seed(0)
    layer = bc.quantize(nn.Linear(SIZE, SIZE) if layer is None else layer)
    bc.set_bits(layer, forward=4, backward=8)
    return layer


def batch():
    return torch.randn(5, SIZE, requires_grad=True)


def test_a_layer_that_is_called_three_times_rounds_its_weight_once(rounded):
    layer = converted()
    layer(layer(layer(batch()))).sum().backward()
    assert rounded.count((SIZE, SIZE)) == 1


def test_two_layers_that_share_a_weight_round_it_once(rounded):
    first, second = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
    second.weight = first.weight
    model = converted(nn.Sequential(first, second))
    model(batch())
    assert rounded.count((SIZE, SIZE)) == 1


def test_sharing_changes_no_result():
    layer = converted()
    others = [copy.deepcopy(layer) for _ in range(3)]
    x = batch()
    out = layer(layer(layer(x)))
    expected = others[2](others[1](others[0](x)))
    assert torch.equal(out, expected)
    bc.set_bits(layer, backward=None)
    for other in others:
        bc.set_bits(other, backward=None)
    out.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(layer.weight.grad, sum(other.weight.grad for other in others))


def test_a_weight_that_has_changed_is_rounded_again():
    layer, x = converted(), batch()
    kept = layer(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert not torch.equal(layer(x), kept)
    layer.weight.data = layer.weight.data + 1
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))


@pytest.mark.parametrize("size", [SIZE, 131])  # a number of elements that is odd
@pytest.mark.parametrize(
    "permuted",
    [
        lambda w: w.flip(0),
        lambda w: w.flip(1),
        lambda w: w.t(),
        lambda w: w.roll(2, 0),
        lambda w: w.roll(32, 1),
        lambda w: w[[1, 0, *range(2, len(w))]],
        lambda w: w[:, [1, 0, *range(2, len(w))]],
        lambda w: w[:, [*range(32, 64), *range(32), *range(64, len(w))]],
        lambda w: w[:, [*range(len(w) - 2), -1, -2]],
    ],
)
def test_a_weight_whose_elements_have_changed_places_is_rounded_again(permuted, size):
    layer = converted(nn.Linear(size, size))
    x = torch.randn(5, size, requires_grad=True)
    kept = layer(x)  # as long as its graph lives, its weight can be shared
    layer.weight.data.copy_(permuted(layer.weight.data).clone())
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert kept.grad_fn is not None


@pytest.mark.parametrize("permuted", [lambda w: w.flip(0), lambda w: w.flip(1)])
def test_so_is_one_in_integer_execution(permuted):
    layer = bc.quantize(nn.Linear(256, 256), execute="integer")
    bc.set_bits(layer, forward=4, backward=8)
    x = torch.randn(64, 256, requires_grad=True)
    kept = layer(x)
    layer.weight.data.copy_(permuted(layer.weight.data).clone())
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert kept.grad_fn is not None


def test_other_bits_round_again():
    layer, x = converted(), batch()
    kept = layer(x)
    bc.set_bits(layer, forward=2)
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert not torch.equal(layer(x), kept)


def test_after_backward_nothing_is_shared(rounded):
    """An optimiser may change a weight in ways that leave no trace on it."""
    layer, x = converted(), batch()
    kept = layer(x)
    kept.sum().backward()
    layer.weight.data.mul_(2)
    rounded.clear()
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert (SIZE, SIZE) in rounded


def test_a_small_weight_is_rounded_for_each_product_and_saved_as_values(rounded):
    layer = converted(nn.Linear(6, 6))
    out = layer(layer(torch.randn(5, 6)))
    assert rounded.count((6, 6)) == 2
    assert {saved.dtype for saved in out.grad_fn.saved_tensors} == {torch.float32}
    large = converted()(batch())
    assert torch.int8 in {saved.dtype for saved in large.grad_fn.saved_tensors}


@pytest.mark.parametrize("size", [6, 5, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_write_to_data_is_noticed_before_backward(size, dtype):
    """It changes neither the version of the weight nor its address."""
    layer = converted(nn.Linear(size, SMALL // size + 1).to(dtype))
    x = torch.randn(4, size, dtype=dtype, requires_grad=True)
    kept = layer(x)
    layer.weight.data.mul_(-2)
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))
    assert not torch.equal(layer(x), kept)
