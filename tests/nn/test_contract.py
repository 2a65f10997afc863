"""The contract of every registered layer: one suite over the registry, so that registering a layer tests it.

What depends on the geometry of a layer is tested with every case, and with pairs of the other choices. What depends on
how a layer is converted is tested with one case of each mixin; the other cases are slow.
"""

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.conversion.sites import sites
from bitcycle.grids import GRIDS
from bitcycle.kernels import native
from bitcycle.nn import LinearProduct, OperandSpec, QuantizedLayer, register, register_where
from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.registry import CONDITIONS, LAYERS, find
from tests.kernels.conftest import use_kernels
from tests.nn.cases import CASES
from tests.nn.reference import Plain, grid, scaled_float, symmetric
from tests.support.executions import NEEDS_INTEGERS, assert_agree, assert_close, is_float, run, same, tensors
from tests.support.pairwise import combinations

pytestmark = NEEDS_INTEGERS
ALL = {case.name: case for case in CASES}
FIRST = list({find(case.build())[0]: case for case in reversed(CASES)}.values())
"""The first case of each mixin."""


def one_per_layer(*slow):
    """Parametrize a test by the cases: one of each mixin is fast, but for those that take too long."""
    fast = [case for case in FIRST if case.name not in slow]
    marks = [() if case in fast else pytest.mark.slow for case in CASES]
    cases = [pytest.param(case, id=case.name, marks=mark) for case, mark in zip(CASES, marks, strict=True)]
    return pytest.mark.parametrize("case", cases)


@pytest.fixture(autouse=True)
def _kernels():
    yield
    native.choose_kernels()


def build(case, dtype=torch.float64):
    torch.manual_seed(0)
    return case.build().to(dtype), [x.to(dtype) if is_float(x) else x for x in case.inputs()]


def recipe_of(case, **changes):
    return bc.Recipe(**{**vars(case.recipe), **changes})


def on_bits(case, **options):
    """A converted layer on 4 bits forward and 8 backward, and its inputs."""
    layer, inputs = build(case)
    bc.quantize(layer, case.recipe, **options)
    bc.set_bits(layer, forward=4, backward=8)
    return layer, inputs


def poisoned(layer, inputs):
    """Inputs with a NaN; a layer without floating-point inputs, an embedding, gets it in its weight."""
    inputs = [x.clone() if torch.is_tensor(x) else x for x in inputs]
    with torch.no_grad():
        first = next((x[0] for x in inputs if is_float(x)), None)
        (layer.weight[1] if first is None else first).fill_(float("nan"))
    return inputs


def test_every_registered_layer_has_a_case():
    tested = {find(case.build())[0] for case in CASES}
    registered = {*LAYERS.values(), *(mixin for _, mixin in CONDITIONS)}
    ours = {mixin for mixin in registered if mixin.__module__.startswith("bitcycle.nn.")}
    ours -= {
        mixin for mixin in ours if issubclass(mixin, FunctionalOps)
    }  # their sites are discovered: test_own_products.py
    assert ours <= tested
    built = {type(case.build()) for case in CASES}
    assert {kind for kind in LAYERS if LAYERS[kind] in ours and kind.__name__ != "MessagePassing"} <= built


NUMBERS = {  # the grid, and bits of activations, grad_output and weights, and strength
    "2 bits": ("integer", 2, 6, 2, 1),
    "8 bits": ("integer", 8, 6, 8, 1),
    "backward": ("integer", None, 3, None, 1),
    "weights": ("integer", None, None, 3, 1),
    "activations": ("integer", 3, 6, None, 1),
    "strength": ("integer", 5, 6, 3, 0.25),
    "symmetric": ("symmetric", 4, 8, 4, 1),
    "float": ("float", 4, 8, 4, 1),
}
FORMULAS = {"integer": grid, "symmetric": symmetric, "float": scaled_float}


@combinations(
    case=ALL,
    numbers=NUMBERS,
    execute=["simulated", "integer"],
    dtype={"double": torch.float64, "single": torch.float32},
    kernels=native.CHOICES,
)
def test_equals_the_plain_formulas(case, numbers, execute, dtype, kernels):
    """Forward, input gradients and parameter gradients, with nearest rounding, to the rounding of sums.

    The backward pass multiplies the values that the forward pass used, at any bits of either and any strength.
    """
    use_kernels(kernels)
    name, activations, backward, weights, strength = numbers
    layer, inputs = build(case, dtype)
    plain = Plain(activations, backward, weights, strength, FORMULAS[name])
    expected = run(layer, inputs, lambda *x: case.reference(layer, plain, *x))
    bc.quantize(layer, recipe_of(case, grid=name, gradients="nearest"), execute=execute)
    bc.set_bits(layer, weights=weights, activations=activations, backward=backward, strength=strength)
    got = run(layer, inputs)
    assert_close([*got[0], *got[1]], [*expected[0], *expected[1]], 1e-9 if dtype == torch.float64 else 1e-4)


@combinations(
    case=ALL,
    activations=["tensor", "row"],
    grad_output=["tensor", "row", "row and column"],
    kernels=native.CHOICES,
)
def test_integers_agree_with_simulation(case, activations, grad_output, kernels):
    """With stochastic rounding, at each granularity of activations and of grad_output.

    Sums differ in their last digits. Where one site follows another, this can move a value to the next code.
    """
    use_kernels(kernels)
    layer, inputs = build(case, torch.float32)
    recipe = recipe_of(case, activations=activations, grad_output=grad_output)
    converted = bc.quantize(copy.deepcopy(layer), recipe)
    assert_agree(layer, inputs, recipe, 5, 6, tolerance=1e-4 if len(sites(converted)) == 1 else 2e-2)


@one_per_layer()
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
        assert strength not in expected or same(got, expected[strength])


@one_per_layer()
@pytest.mark.parametrize(("dtype", "training"), [(torch.float32, True), (torch.float64, False)])
def test_full_precision_is_the_float_layer_bit_for_bit(case, dtype, training):
    layer, inputs = build(case, dtype)
    layer.train(training)
    expected = run(layer, inputs)
    with torch.no_grad():
        expected_without_grad = tensors(layer(*inputs))
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=None)
    assert same(run(layer, inputs), expected)
    with torch.no_grad():
        assert same(tensors(layer(*inputs)), expected_without_grad)


@one_per_layer("lstm", "gru", "rnn", "encoder", "encoder layer")
@pytest.mark.parametrize("grad_output", ["tensor", "row", "row and column"])
def test_stochastic_rounding_is_right_in_the_mean(case, grad_output):
    """The mean over many backward passes is the gradient for the unrounded grad_output, within five standard errors.

    Every grad_output is rounded without bias, whatever noise came before it, and enters each product linearly. The
    mean is therefore exact for layers with several sites too.
    """
    layer, inputs = build(case)
    activations = "tensor" if grad_output == "tensor" else "row"
    bc.quantize(layer, recipe_of(case, activations=activations, grad_output=grad_output))
    bc.set_bits(layer, forward=4, backward=None)
    _, expected = run(layer, inputs)
    bc.set_bits(layer, forward=4, backward=3)
    draws = [run(layer, inputs)[1] for _ in range(100)]
    for position, wanted in enumerate(expected):
        drawn = torch.stack([gradients[position] for gradients in draws])
        deviation = drawn.std(0)
        unseen = 0.1 * deviation.max() * (deviation == 0)  # what happens in a few of 100 draws may happen in none
        assert ((drawn.mean(0) - wanted).abs() <= 5 * deviation / 10 + unseen + 1e-9).all()


@one_per_layer()
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


@one_per_layer()
def test_the_signature_is_that_of_the_float_layer(case):
    """Trainers, text generation and exporters read it."""
    layer, _ = build(case)
    before = inspect.signature(layer.forward)
    bc.quantize(layer)
    assert inspect.signature(layer.forward) == before


@one_per_layer()
def test_copies_and_pickles_compute_the_same(case):
    layer, inputs = on_bits(case)
    expected = run(copy.deepcopy(layer), inputs)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is type(layer)
        assert same(run(other, inputs), expected)
    copied = copy.deepcopy(layer)
    bc.set_bits(copied, forward=8)
    assert same(run(layer, inputs)[0], expected[0])


@one_per_layer()
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_evaluation_without_gradients_computes_the_same(case, execute):
    layer, inputs = on_bits(case, execute=execute)
    layer.eval()
    expected = tensors(layer(*inputs))
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert same(tensors(layer(*inputs)), expected)


@one_per_layer()
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_results_can_be_changed_in_place(case, execute):
    """Wherever those of the float layer can: ``nn.ReLU(inplace=True)`` and ``y += x`` follow many layers."""
    float_layer, inputs = build(case, torch.float32)
    layer = bc.quantize(build(case, torch.float32)[0], case.recipe, execute=execute)
    bc.set_bits(layer, forward=8, backward=8)
    try:
        run(float_layer, inputs, lambda *x: [out.mul_(2) for out in tensors(float_layer(*x))])
    except RuntimeError:
        return
    run(layer, inputs, lambda *x: [out.mul_(2) for out in tensors(layer(*x))])


@combinations(case=ALL, execute=["simulated", "integer"])
def test_not_a_number_is_not_laundered(case, execute):
    layer, inputs = build(case, torch.float32)
    inputs = poisoned(layer, inputs)
    bc.quantize(layer, case.recipe, execute=execute)
    bc.set_bits(layer, forward=4, backward=4)
    assert any(out.isnan().any() for out in run(layer, inputs)[0])


@one_per_layer()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_empty_batch(case, dtype):
    if not case.batched:
        return
    layer, inputs = build(case, dtype)
    empty = [x[:0] for x in inputs]
    expected = [out.shape for out in tensors(layer(*empty))]
    assert_agree(layer, empty, case.recipe, 4, 4)
    bc.quantize(layer, case.recipe)
    bc.set_bits(layer, forward=4, backward=4)
    assert [out.shape for out in run(layer, empty)[0]] == expected


@one_per_layer()
def test_repr_shows_bits_and_recipe(case):
    layer, inputs = build(case)
    bc.quantize(layer, recipe_of(case, seed=7), example_inputs=tuple(inputs))
    bc.set_bits(layer, forward=4, backward=8)
    assert "bits=4/8" in repr(layer)
    assert "seed=7" in repr(layer)
    bc.set_bits(layer, forward=None, backward=None)
    assert "bits=full, " in repr(layer)
    sites = list(layer.bitcycle.sites)
    if len(sites) > 1:
        bc.set_bits(layer, forward=3, where=sites[0])
        assert f"bits=({sites[0]}: 3/full, {sites[1]}: full" in repr(layer)


# --- Grids.


def refused(case, grid):
    """Whether the combination makes no sense."""
    if GRIDS[grid].block is None:
        return False
    return case.name == "message passing" or "depthwise" in case.name


@one_per_layer()
@pytest.mark.parametrize("grid", GRIDS)
def test_a_layer_on_a_grid(case, grid):
    """It changes with the bits, keeps NaN, takes empty batches, and is the float layer in full precision."""
    layer, inputs = build(case)
    if refused(case, grid):
        classes = [type(module) for module in layer.modules()]
        with pytest.raises(ValueError, match=r"^the model \(\w+\): .*keep it in full precision with keep="):
            bc.quantize(layer, recipe_of(case, grid=grid))
        assert [type(module) for module in layer.modules()] == classes
        return
    expected = run(layer, inputs)
    bc.quantize(layer, recipe_of(case, grid=grid))
    if case.name in ("bilinear", "einsum") and GRIDS[grid].block is not None:
        bc.set_bits(layer, forward=4)
        with pytest.raises(ValueError, match="blocks of the grid .*keep it in full precision"):
            run(layer, inputs)
        return
    bc.set_bits(layer, forward=None, backward=None)
    assert same(run(layer, inputs), expected)
    results = []
    for bits in (4, 8, 4):
        bc.set_bits(layer, forward=bits, backward=8)
        outputs, gradients = run(layer, inputs)
        assert all(x.isfinite().all() for x in (*outputs, *gradients))
        results.append(outputs)
    assert same(results[0], results[2])
    assert not same(results[0], results[1])
    layer.eval()
    expected = tensors(layer(*inputs))
    with torch.no_grad():
        assert same(tensors(layer(*inputs)), expected)
    layer.train()
    if case.batched:
        run(layer, [x[:0] for x in inputs])
    assert any(out.isnan().any() for out in run(layer, poisoned(layer, inputs))[0])


@pytest.mark.parametrize("grid", ["mx", "nvfp4"])
def test_a_product_that_is_discovered_later_is_refused_when_it_runs(grid):
    class Mixed(nn.Module):
        def forward(self, a, b):
            return torch.einsum("ij,kj->ik", a, b)

    model = bc.quantize(Mixed(), bc.Recipe(grid=grid))
    bc.set_bits(model, forward=4, backward=8)
    with pytest.raises(ValueError, match=f":einsum is computed as a whole, but blocks of the grid '{grid}' run along"):
        model(torch.randn(3, 4), torch.randn(5, 4))


def test_hadamard_and_convolutions():
    recipe = bc.Recipe(grid="nvfp4", hadamard=True)
    with pytest.raises(ValueError, match=r"^0 \(Conv2d\): its weight gradient .* keep='0'$"):
        bc.quantize(nn.Sequential(nn.Conv2d(4, 4, 3)), recipe)
    bc.quantize(nn.Sequential(nn.Conv2d(4, 4, 3), nn.Linear(4, 4)), recipe, keep="0")


# --- Registration.


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


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_sequence_of_length_0_is_refused_as_in_torch(kind):
    layer = kind(4, 5)
    for _ in ("in full precision", "on bits"):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            layer(torch.zeros(0, 3, 4))
        layer = bc.quantize(kind(4, 5))
        bc.set_bits(layer, forward=4, backward=8)
