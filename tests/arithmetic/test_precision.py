"""Each operand on its own width, and strength: against independent re-computation, in both executions."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import Observer, Role, observing
from bitcycle.conversion.sites import sites
from bitcycle.kernels.rounding import round_to_grid
from tests.support.executions import assert_close, run

BITS = st.sampled_from([None, 1, 2, 4, 7, 8, 12])


def data(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rounded(x, bits, dims=None, strength=1.0):
    """An operand in double precision, by the formula."""
    on_grid = x if bits is None else round_to_grid(x, bits, dims)
    return x.double() + strength * (on_grid.double() - x.double())


def converted(layer, execute="simulated", recipe=None, **bits):
    layer = bc.quantize(copy.deepcopy(layer), recipe or bc.Recipe.paper(gradients="nearest"), execute=execute)
    bc.set_bits(layer, **bits)
    return layer


@settings(deadline=None, max_examples=40)
@given(BITS, BITS, st.sampled_from([None, 5, 8]), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_a_linear_layer_equals_the_formulas(weights, activations, backward, strength, in_integers):
    layer, x, error = nn.Linear(9, 7), data(5, 9, seed=1), data(5, 7, seed=2)
    own = converted(layer, "integer" if in_integers else "simulated")
    bc.set_bits(own, weights=weights, activations=activations, backward=backward, strength=strength)
    input = x.clone().requires_grad_()
    out = own(input)
    out.backward(error)
    a, w = rounded(x, activations, None, strength), rounded(layer.weight.detach(), weights, (1,), strength)
    e = rounded(error, backward)
    assert_close([out.detach().double()], [a @ w.t() + layer.bias.detach()], 1e-5)
    assert_close([own.weight.grad.double()], [e.t() @ a], 1e-5)
    assert_close([input.grad.double()], [e @ w], 1e-5)


def test_both_operands_at_one_width_are_the_forward_bits():
    layer, x = nn.Linear(9, 7), data(5, 9)
    together, apart = converted(layer, forward=4, backward=8), converted(layer, weights=4, activations=4, backward=8)
    for a, b in zip(run(together, [x]), run(apart, [x]), strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


class Seen(Observer):
    def __init__(self):
        self.changed = {}

    def rounded(self, site, operand, before, after):
        self.changed[site.name, operand] = (before, after)


def test_which_operand_is_a_weight():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(data(6, 6))

        def forward(self, x):
            x = x @ self.weight + x @ self.weight.t() + F.linear(x, self.weight * 2)
            x = torch.einsum("bi,oi->bo", x, self.weight)
            return F.scaled_dot_product_attention(x, x, x) @ (x.t() @ x)

    model = bc.quantize(Own(), execute="simulated")
    with observing(Observer()):
        model(data(5, 6))
    weight, activation = Role.WEIGHT, Role.ACTIVATION
    roles = {name: site.roles for name, site in sites(model).items() if site.roles is not None}
    with_weight, of_activations = (activation, weight), (activation, activation)
    names = [":matmul", ":matmul#2", ":linear", ":einsum"]
    assert roles == dict.fromkeys(names, with_weight) | dict.fromkeys(
        [":sdpa.scores", ":sdpa.context", ":matmul#3", ":matmul#4"], of_activations
    )


def test_values_without_a_grid_pass_at_any_strength():
    x = torch.tensor([[1.0, float("inf"), -float("inf"), 0.5]])
    layer = nn.Linear(4, 4, bias=False)
    layer.weight.data = torch.eye(4)
    own = converted(layer, recipe=bc.Recipe(activations="row"), weights=None, activations=4, strength=0.5)
    seen = Seen()
    with observing(seen):
        own(x)
    assert torch.equal(seen.changed["", "a"][1], x)
    assert own(torch.full((1, 4), float("nan"))).isnan().all()


def test_evaluation_has_the_bits_of_each_operand_and_a_checkpoint_carries_them(tmp_path):
    layer = nn.Linear(6, 4)
    model, x = converted(layer, weights=3, activations=5, strength=0.5), data(4, 6)
    model.eval()
    expected = model(x)
    a, w = rounded(x, 5, None, 0.5), rounded(layer.weight.detach(), 3, (1,), 0.5)
    assert_close([expected.detach().double()], [a @ w.t() + layer.bias.detach()], 1e-5)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = bc.quantize(nn.Linear(6, 4), bc.Recipe.paper(), execute="simulated")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    other.eval()
    assert torch.equal(other(x), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strength": 1.5}, "strength must be a number from 0 .* to 1 .*, got 1.5"),
        ({"strength": float("nan")}, "strength must be a number .*, got nan"),
        ({"strength": None}, "strength must be a number .*, got None"),
        ({"strength": "1"}, "strength must be a number .*, got '1'"),
        ({"weights": 0}, "weights must be an integer from 1 to 16"),
        ({"activations": 17}, "activations must be an integer from 1 to 16"),
        ({"forward": 4, "weights": 8}, "give forward, or the other two"),
    ],
)
def test_misuse(arguments, message):
    model = bc.quantize(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=message):
        bc.set_bits(model, **arguments)
    assert model.bitcycle.describe() == "bits=full"


def test_what_a_layer_and_the_summary_show():
    model = converted(nn.Linear(2, 2), weights=4, activations=8, backward=8, strength=0.25)
    assert "bits=W4 A8 strength 0.25/8" in repr(model)
    assert "W4 A8 strength 0.25" in str(bc.summary(model))
    row = bc.summary(model).sites[0]
    assert (row.weights, row.activations, row.forward, row.strength) == (4, 8, 8, 0.25)
