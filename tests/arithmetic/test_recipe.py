import pytest
import torch
from torch import nn

import bitcycle as bc
from tests.nn.reference import grid


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "column"}, "'tensor' or 'channel' or 'row', got 'column'"),
        ({"gradients": "up"}, "'stochastic' or 'nearest'"),
        ({"aggregation": "half"}, "'full' or 'quantized'"),
        ({"evaluate_at": "min"}, "'max' or 'current'"),
        ({"bias": 1}, "of type bool"),
        ({"seed": "a"}, "of type int"),
    ],
)
def test_misuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        bc.Recipe(**arguments)


LINEAR = {  # axes that share a grid: of activations (batch, time, features), of weights (out, in)
    "tensor": (None, None),
    "channel": ((0, 1), (1,)),
    "row": ((2,), (1,)),
}
CONVOLUTION = {  # of activations (batch, channels, height, width), of weights (out, in, height, width)
    "tensor": (None, None),
    "channel": ((0, 2, 3), (1, 2, 3)),
    "row": ((1, 2, 3), (3,)),
}


@pytest.mark.parametrize("weights", ["tensor", "channel", "row"])
@pytest.mark.parametrize("activations", ["tensor", "channel", "row"])
def test_granularity(weights, activations):
    recipe = bc.Recipe(weights=weights, activations=activations)
    for layer, x, axes in (
        (nn.Linear(6, 4), torch.randn(3, 5, 6), LINEAR),
        (nn.Conv2d(3, 4, 3), torch.randn(2, 3, 6, 6), CONVOLUTION),
    ):
        layer, x = layer.double(), x.double()
        qx, qw = grid(x, 3, axes[activations][0]), grid(layer.weight, 3, axes[weights][1])
        product = nn.functional.linear if isinstance(layer, nn.Linear) else nn.functional.conv2d
        bc.quantize(layer, recipe)
        bc.set_bits(layer, forward=3)
        torch.testing.assert_close(layer(x), product(qx, qw, layer.bias))


@pytest.mark.parametrize("layer", [nn.Linear(6, 4), nn.LSTM(6, 4), nn.Bilinear(6, 6, 4), nn.GRUCell(6, 4)])
def test_biases_on_the_grid_if_asked(layer):
    x = torch.randn(3, 6)
    inputs = (x, x) if isinstance(layer, nn.Bilinear) else (x,)
    results = []
    for bias in (False, True):
        bc.quantize(layer, bc.Recipe(bias=bias))
        bc.set_bits(layer, forward=2)
        out = layer(*inputs)
        results.append(out[0] if isinstance(out, tuple) else out)
        bc.restore(layer)
    assert not torch.equal(*results)


def test_the_bias_of_a_linear_layer_is_rounded_per_tensor():
    layer, x = nn.Linear(6, 40).double(), torch.zeros(1, 6, dtype=torch.float64)
    bc.quantize(layer, bc.Recipe(bias=True))
    bc.set_bits(layer, forward=3)
    torch.testing.assert_close(layer(x)[0], grid(layer.bias, 3))


def test_evaluation_is_at_q_max_or_at_the_current_bits():
    x = torch.randn(3, 6)
    for where, expected in (("max", 8), ("current", 3)):
        torch.manual_seed(0)
        layer = bc.quantize(nn.Linear(6, 4), bc.Recipe(evaluate_at=where))
        bc.PrecisionScheduler(layer, "CR:3-8", total_steps=100)
        got = layer.eval()(x)
        bc.set_bits(layer, forward=expected)
        assert torch.equal(got, layer(x))


def test_an_unknown_grid_is_refused_at_once():
    with pytest.raises(ValueError, match="unknown grid 'mxx'; "):
        bc.Recipe(grid="mxx")
