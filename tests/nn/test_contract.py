"""The contract of every registered layer: one suite over the registry, so that registering a layer tests it."""

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.nn import LinearProduct, OperandSpec, QuantizedLayer, register, register_where
from bitcycle.nn.own_products import QuantizedForward
from bitcycle.nn.registry import CONDITIONS, LAYERS, find
from tests.nn.cases import CASES
from tests.nn.reference import Plain, grid

pytestmark = pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def build(case, seed=0):
    torch.manual_seed(seed)
    return case.build().double(), case.inputs()


def tensors(value):
    """All floating-point tensors in a nest of tuples."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    return [t for part in value for t in tensors(part)] if isinstance(value, (tuple, list)) else []


def run(layer, inputs, function=None):
    """Outputs, and gradients of inputs and parameters, for a fixed loss that weights each output differently."""
    inputs = [x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    layer.zero_grad()
    outputs = tensors(layer(*inputs) if function is None else function(*inputs))
    weights = [torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape) for out in outputs]
    sum((out * weight).sum() for out, weight in zip(outputs, weights, strict=True)).backward()
    gradients = [x.grad for x in inputs if torch.is_tensor(x) and x.is_floating_point()]
    gradients += [p.grad for p in layer.parameters() if p.grad is not None]
    return [out.detach() for out in outputs], gradients


def same(got, expected):
    return all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_every_registered_layer_has_a_case():
    tested = {find(case.build())[0] for case in CASES}
    registered = {*LAYERS.values(), *(mixin for _, mixin in CONDITIONS)}
    ours = {mixin for mixin in registered if mixin.__module__.startswith("bitcycle.nn.")}
    ours -= {
        mixin for mixin in ours if issubclass(mixin, QuantizedForward)
    }  # their sites are discovered: test_own_products.py
    assert ours <= tested
    built = {type(case.build()) for case in CASES}
    assert {kind for kind in LAYERS if LAYERS[kind] in ours and kind.__name__ != "MessagePassing"} <= built


@every_case
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_equals_the_plain_formulas(case, bits):
    """Forward, input gradients and parameter gradients, with nearest rounding, to float rounding."""
    layer, inputs = build(case)
    recipe = bc.Recipe(**{**vars(case.recipe), "gradients": "nearest"})
    expected = run(layer, inputs, lambda *x: case.reference(layer, Plain(bits, 6), *x))
    bc.quantize(layer, recipe)
    bc.set_bits(layer, forward=bits, backward=6)
    got = run(layer, inputs)
    for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@every_case
def test_forward_and_backward_bits_are_independent(case):
    layer, inputs = build(case)
    recipe = bc.Recipe(**{**vars(case.recipe), "gradients": "nearest"})
    for forward, backward in ((3, None), (None, 3)):
        expected = run(layer, inputs, lambda *x, f=forward, b=backward: case.reference(layer, Plain(f, b), *x))
        bc.quantize(layer, recipe)
        bc.set_bits(layer, forward=forward, backward=backward)
        got = run(layer, inputs)
        for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        bc.restore(layer)


@every_case
@pytest.mark.parametrize(
    ("weights", "activations", "strength"), [(3, 6, 1), (3, None, 1), (None, 3, 1), (3, 5, 0.25), (3, 3, 0)]
)
def test_weights_activations_and_strength_equal_the_plain_formulas(case, weights, activations, strength):
    """Gradients too: the backward pass multiplies the values that the forward pass used."""
    layer, inputs = build(case)
    recipe = bc.Recipe(**{**vars(case.recipe), "gradients": "nearest"})
    plain = Plain(activations, 6, weights, strength)
    expected = run(layer, inputs, lambda *x: case.reference(layer, plain, *x))
    bc.quantize(layer, recipe)
    bc.set_bits(layer, weights=weights, activations=activations, backward=6, strength=strength)
    got = run(layer, inputs)
    for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@every_case
def test_the_ends_of_strength(case):
    """Strength 1 is the grid bit for bit, and strength 0 is the float layer bit for bit."""
    layer, inputs = build(case)
    expected = {0: run(layer, inputs)}
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=3, backward=None)
    expected[1] = run(layer, inputs)
    for strength in (0, 0.5, 1):
        bc.set_bits(layer, strength=strength)
        got = run(layer, inputs)
        ends = strength in expected
        assert not ends or (same(got[0], expected[strength][0]) and same(got[1], expected[strength][1]))


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_precision_is_the_float_layer_bit_for_bit(case, dtype):
    layer, inputs = build(case)
    layer = layer.to(dtype)
    inputs = [x.to(dtype) if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    for mode in (True, False):
        layer.train(mode)
        expected = run(layer, inputs)
        with torch.no_grad():
            expected_without_grad = tensors(layer(*inputs))
        bc.quantize(layer, case.recipe)
        bc.set_bits(layer, forward=None)
        got = run(layer, inputs)
        assert same(got[0], expected[0])
        assert same(got[1], expected[1])
        with torch.no_grad():
            assert same(tensors(layer(*inputs)), expected_without_grad)
        bc.restore(layer)


@every_case
def test_sixteen_bits_agree_within_the_grid(case):
    """Rounding moves an operand by half a step, 2^-17 of its range; a few dozen terms add up to far below 1/500."""
    layer, inputs = build(case)
    expected = run(layer, inputs)
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=16, backward=16)
    got = run(layer, inputs)
    for ours, theirs in zip(got, expected, strict=True):  # outputs, then gradients
        largest = max(float(t.abs().max()) for t in theirs)
        assert all((a - b).abs().max() <= 2e-3 * largest for a, b in zip(ours, theirs, strict=True))


@every_case
def test_stochastic_rounding_is_right_in_the_mean(case):
    """The mean over many backward passes is the gradient for the unrounded grad_output, within five standard errors.

    Every grad_output is rounded without bias, whatever noise came before it, and enters each product linearly. The
    mean is therefore exact for layers with several sites too.
    """
    layer, inputs = build(case)
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=4, backward=None)
    _, expected = run(layer, inputs)
    bc.set_bits(layer, forward=4, backward=3)
    draws = [run(layer, inputs)[1] for _ in range(400)]
    for position, wanted in enumerate(expected):
        drawn = torch.stack([gradients[position] for gradients in draws])
        error = drawn.std(0) / 400**0.5
        assert ((drawn.mean(0) - wanted).abs() <= 5 * error + 1e-9).all()


@every_case
def test_the_same_parameters_before_and_after(case):
    layer, inputs = build(case)
    classes = [type(module) for module in layer.modules()]
    attributes = [set(vars(module)) for module in layer.modules()]
    keys, parameters = list(layer.state_dict()), list(layer.parameters())
    values = [p.detach().clone() for p in parameters]
    assert bc.quantize(layer, case.recipe) is layer
    bc.set_bits(layer, forward=4, backward=8)
    assert list(layer.state_dict()) == keys
    assert all(a is b for a, b in zip(layer.parameters(), parameters, strict=True))
    run(layer, inputs)
    layer.zero_grad()
    assert bc.restore(layer) is layer
    assert [type(module) for module in layer.modules()] == classes
    assert [set(vars(module)) for module in layer.modules()] == attributes
    assert list(layer.state_dict()) == keys
    assert same(layer.parameters(), values)


@every_case
def test_the_signature_is_that_of_the_float_layer(case):
    """Trainers, text generation and exporters read it."""
    layer, _ = build(case)
    before = inspect.signature(layer.forward)
    bc.quantize(layer)
    assert inspect.signature(layer.forward) == before


@every_case
def test_copies_and_pickles_compute_the_same(case):
    layer, inputs = build(case)
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=4, backward=8)
    expected = run(copy.deepcopy(layer), inputs)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is type(layer)
        got = run(other, inputs)
        assert same(got[0], expected[0])
        assert same(got[1], expected[1])
    copied = copy.deepcopy(layer)
    bc.set_bits(copied, forward=8)
    assert same(run(layer, inputs)[0], expected[0])


@every_case
def test_evaluation_without_gradients_computes_the_same(case):
    layer, inputs = build(case)
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=3, backward=8)
    layer.eval()
    expected = tensors(layer(*inputs))
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert same(tensors(layer(*inputs)), expected)


@every_case
def test_bits_change_at_once_and_change_the_result(case):
    layer, inputs = build(case)
    bc.quantize(layer, case.recipe)
    results = []
    for bits in (2, 4, 2):
        bc.set_bits(layer, forward=bits)
        results.append(run(layer, inputs)[0])
    assert same(results[0], results[2])
    assert not same(results[0], results[1])


@every_case
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_results_can_be_changed_in_place(case, execute):
    """Wherever those of the float layer can: ``nn.ReLU(inplace=True)`` and ``y += x`` follow many layers."""
    float_layer, inputs = build(case)
    single = [x.float() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    for layer in (float_layer.float(), bc.quantize(build(case)[0].float(), case.recipe, execute=execute)):
        if layer is not float_layer:
            bc.set_bits(layer, forward=8, backward=8)

        def doubled(*arguments, layer=layer):
            return [out.mul_(2) for out in tensors(layer(*arguments))]

        try:
            run(layer, single, doubled)
        except RuntimeError:
            if layer is not float_layer:
                raise
            return


@every_case
def test_not_a_number_is_not_laundered(case):
    layer, inputs = build(case)
    poisoned = [x.clone() if torch.is_tensor(x) else x for x in inputs]
    first = next((x for x in poisoned if x.is_floating_point()), None)
    if first is None:
        with torch.no_grad():
            layer.weight[1] = float("nan")
    else:
        first[0] = float("nan")
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=4, backward=4)
    assert any(out.isnan().any() for out in run(layer, poisoned)[0])


@pytest.mark.parametrize("case", [case for case in CASES if case.batched], ids=lambda case: case.name)
def test_an_empty_batch(case):
    layer, inputs = build(case)
    empty = [x[:0].requires_grad_(x.is_floating_point()) for x in inputs]
    expected = [out.shape for out in tensors(layer(*empty))]
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=4, backward=4)
    outputs = tensors(layer(*empty))
    assert [out.shape for out in outputs] == expected
    sum(out.sum() for out in outputs).backward()


def test_a_layer_of_the_users_own():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x):
            return 2 * x @ self.weight.t()

    @register(Scaled)
    class QuantizedScaled(QuantizedLayer):
        def quantized_forward(self, x):
            return 2 * self.multiply(
                "", LinearProduct(), x, self.weight, a_spec=OperandSpec(), b_spec=OperandSpec((1,))
            )

    try:
        model = nn.Sequential(Scaled())
        x = torch.randn(5, 4)
        expected = model(x)
        bc.quantize(model)
        assert torch.equal(model(x), expected)
        bc.set_bits(model, forward=3, backward=8)
        assert [row.name for row in bc.summary(model).sites] == ["0"]
        qx, qw = grid(x, 3), grid(model[0].weight, 3, axes=1)
        torch.testing.assert_close(model(x), 2 * qx @ qw.t())
    finally:
        del LAYERS[Scaled]


@pytest.mark.parametrize("wrong", [3, "Linear", nn.Linear(2, 2), int, QuantizedLayer, lambda layer: True])
def test_only_module_classes_are_registered(wrong):
    with pytest.raises(TypeError, match=r"register takes torch.nn.Module subclasses, got"):
        register(nn.Linear, wrong)
    assert wrong not in LAYERS.values()


def test_registration_needs_a_layer_and_a_condition():
    with pytest.raises(TypeError, match="at least one torch.nn.Module subclass"):
        register()
    for wrong in (None, nn.Linear):
        with pytest.raises(TypeError, match="register_where takes a function of a class, got"):
            register_where(wrong)


@pytest.mark.parametrize("decorator", [register(nn.Identity), register_where(lambda layer: False)])
@pytest.mark.parametrize("wrong", [nn.Linear, nn.Linear(2, 2), len])
def test_only_quantised_layers_are_decorated(decorator, wrong):
    before = len(LAYERS), len(CONDITIONS)
    with pytest.raises(TypeError, match="decorates a QuantizedLayer subclass, got"):
        decorator(wrong)
    assert (len(LAYERS), len(CONDITIONS)) == before


@every_case
def test_repr_shows_bits_and_recipe(case):
    layer, _ = build(case)
    recipe = bc.Recipe(**{**vars(case.recipe), "seed": 7})
    bc.quantize(layer, recipe)
    bc.set_bits(layer, forward=4, backward=8)
    assert "bits=4/8" in repr(layer)
    assert "seed=7" in repr(layer)
    bc.set_bits(layer, forward=None, backward=None)
    assert "bits=full, " in repr(layer)
    sites = list(layer.bitcycle.sites)
    if len(sites) > 1:
        bc.set_bits(layer, forward=3, where=sites[0])
        assert f"bits=({sites[0]}: 3/full, {sites[1]}: full" in repr(layer)


def test_repr_of_a_linear_layer():
    layer = bc.quantize(nn.Linear(8, 4))
    assert repr(layer) == "QuantizedLinear(in_features=8, out_features=4, bias=True, bits=full)"
    bc.set_bits(layer, forward=None, backward=8)
    assert repr(layer) == "QuantizedLinear(in_features=8, out_features=4, bias=True, bits=full/8)"
    assert repr(bc.restore(layer)) == "Linear(in_features=8, out_features=4, bias=True)"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_sequence_of_length_0_is_refused_as_in_torch(kind):
    layer = kind(4, 5)
    for _ in ("in full precision", "on bits"):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            layer(torch.zeros(0, 3, 4))
        layer = bc.quantize(kind(4, 5))
        bc.set_bits(layer, forward=4, backward=8)
