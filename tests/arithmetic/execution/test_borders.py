"""Both executions agree on values and types at the borders."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.backends.integer_cpu import convolution as integer_convolution
from bitcycle.arithmetic.execution import ExecutionPlan, Reason
from tests.kernels.layouts import DEFAULTS, default
from tests.support.executions import (
    NEEDS_INTEGERS,
    TENSOR,
    WHOLE,
    assert_agree,
    assert_close,
    built,
    every_layer,
    executed,
    randn,
    run,
    seeded,
)

pytestmark = NEEDS_INTEGERS


@every_layer
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("where", ["input", "weight", "grad_output"])
def test_what_is_not_finite_is_not_laundered(name, bad, where):
    layer, x = built(name)
    with torch.no_grad():
        if where == "input":
            x.view(-1)[3] = bad
        if where == "weight":
            layer.weight.view(-1)[2] = bad
    recipe = bc.Recipe(weights="tensor", activations="tensor", gradients="nearest")
    results = []
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
        bc.set_bits(converted, forward=4, backward=4)
        inputs = x.clone().requires_grad_()
        out = converted(inputs)
        grad_output = torch.linspace(-1, 2, out.numel()).view(out.shape)
        if where == "grad_output":
            grad_output.view(-1)[1] = bad
        out.backward(grad_output)
        results.append([out.detach(), inputs.grad, converted.weight.grad, converted.bias.grad])
        if bad != 1e30:
            poisoned = {"input": (0, 2), "weight": (0, 1), "grad_output": (1, 2, 3)}[where]
            assert all(not results[-1][i].isfinite().all() for i in poisoned)
    assert_close(*reversed(results), tolerance=1e-4)


@every_layer
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("value", DEFAULTS, ids=str)
def test_the_defaults_of_torch_do_not_matter(name, execute, value):
    layer, x = built(name)
    grad_output = torch.randn_like(layer(x))

    def step():
        for cached in (integer_convolution._windows, integer_convolution._turned):
            cached.cache_clear()
        converted = bc.quantize(copy.deepcopy(layer), execute=execute)
        bc.set_bits(converted, forward=4, backward=8)
        inputs = x.clone().requires_grad_()
        out = converted(inputs)
        out.backward(grad_output)
        return [out.detach(), inputs.grad, converted.weight.grad, converted.bias.grad]

    expected = step()
    with default(value):
        got = step()
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.dtype, ours.device) == (theirs.dtype, theirs.device)
        assert torch.equal(ours, theirs)


@every_layer
@pytest.mark.parametrize("constant", [0.0, -0.0, 0.7, -3.0, 1e-30])
def test_operands_without_a_range(name, constant):
    layer, x = built(name)
    assert_agree(layer, (torch.full_like(x, constant),), TENSOR, 4, 4)
    with torch.no_grad():
        layer.weight.fill_(constant)
    assert_agree(layer, (x,), TENSOR, 4, 4)
    assert_agree(layer, (x,), bc.Recipe(), 4, 4)


@every_layer
@pytest.mark.parametrize("grad_output", ["tensor", "row and column"])
def test_a_constant_grad_output(name, grad_output):
    """That of a mean. It is small beside the offset of its codes."""
    layer, x = built(name)
    results = []
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), bc.Recipe(grad_output=grad_output), execute=execute)
        bc.set_bits(converted, forward=8, backward=8)
        inputs = x.clone().requires_grad_()
        (1e-4 * converted(inputs).mean()).backward()
        results.append([inputs.grad, converted.weight.grad, converted.bias.grad])
    assert_close(*reversed(results))


@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_a_constant_row_leaves_the_folded_grid_of_the_others_alone(execute):
    """Such as that of a padded token: it has no scale that grad_output could be multiplied by."""
    layer = seeded(lambda: nn.Linear(6, 5, bias=False))
    x = randn(4, 6) * 0.01
    bc.quantize(layer, bc.Recipe(gradients="nearest"), execute=execute)
    bc.set_bits(layer, forward=8, backward=4)
    grad_output = randn(4, 5, seed=1)
    layer(x).backward(grad_output)
    expected = layer.weight.grad.clone()
    layer.weight.grad = None
    padded = torch.cat([x, torch.zeros(1, 6)])
    layer(padded).backward(torch.cat([grad_output, torch.ones(1, 5)]))
    assert_close([layer.weight.grad], [expected], tolerance=0.1)  # the grid may begin a little lower


@pytest.mark.parametrize("build", [lambda: nn.Linear(64, 8), lambda: nn.Conv2d(16, 8, 3)])
def test_large_operands_agree(build):
    """The documented limit: products of operands up to 1e15 do not overflow in either execution."""
    torch.manual_seed(0)
    layer = build()
    x = torch.rand(4, 64) if isinstance(layer, nn.Linear) else torch.rand(4, 16, 6, 6)
    layer.weight.data.mul_(1e15 / float(layer.weight.detach().abs().max()))
    assert_agree(layer, (x * 1e15,), bc.Recipe(weights="tensor", activations="tensor"), 7, 8)


@every_layer
def test_double_precision_is_simulated(name):
    layer, x = built(name)
    results = [executed(layer.double(), (x.double(),), TENSOR, 4, 4, how) for how in ("simulated", "integer")]
    assert results[1][1][""] == ExecutionPlan.simulated(Reason.DTYPE)
    assert all(torch.equal(a, b) for a, b in zip(results[0][0], results[1][0], strict=True))


@every_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("recipe", [TENSOR, bc.Recipe()], ids=["tensor", "default"])
@pytest.mark.parametrize("how", ["autocast", "model"])
def test_half_precision_in_integers(name, dtype, recipe, how):
    """Operands are rounded from their values in half precision, sums are exact, and results are in half precision.

    In simulation, the values on the grid are rounded to half precision once more: both agree to a few of its steps.
    """
    layer, x = built(name)
    if how == "model":
        layer, x = layer.to(dtype), x.to(dtype)
    with torch.autocast("cpu", dtype, enabled=how == "autocast"):
        (simulated, _), (integer, plans) = (
            executed(layer, (x,), recipe, 7, 7, each) for each in ("simulated", "integer")
        )
    assert plans[""] == WHOLE
    assert integer[0].dtype is dtype
    assert [t.dtype for t in integer] == [t.dtype for t in simulated]
    for ours, theirs in zip(integer, simulated, strict=True):
        assert (ours.float() - theirs.float()).norm() <= 0.02 * theirs.float().norm()


@every_layer
@pytest.mark.parametrize(
    "needed", [(True, False, False), (False, True, False), (False, False, True), (True, True, False)]
)
@pytest.mark.parametrize("grad_output", ["tensor", "row and column"])
def test_any_part_of_the_gradients(name, needed, grad_output):
    """Those of input, weight and bias, as far as they are needed."""
    layer, x = built(name)
    results = []
    for execute in ("simulated", "integer"):
        converted = bc.quantize(
            copy.deepcopy(layer), bc.Recipe(activations="tensor", grad_output=grad_output), execute=execute
        )
        bc.set_bits(converted, forward=5, backward=5)
        wanted = x.clone(), converted.weight, converted.bias
        for tensor, needs in zip(wanted, needed, strict=True):
            tensor.requires_grad_(needs)
        out = converted(wanted[0])
        out.backward(torch.linspace(-1, 2, out.numel()).view(out.shape))
        assert [t.grad is not None for t in wanted] == list(needed)
        results.append([t.grad for t in wanted if t.grad is not None])
    assert_close(*reversed(results))


@pytest.mark.slow
@every_layer
@pytest.mark.parametrize("grad_output", ["tensor", "row and column"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_graph_computes_what_eager_simulation_does(name, grad_output):
    """With the same noise, in integer execution too: a compiled graph is simulated."""
    layer, x = built(name)
    recipe = bc.Recipe(grad_output=grad_output)
    expected, _ = executed(layer, (x,), recipe, 4, 5, "simulated")
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
        bc.set_bits(converted, forward=4, backward=5)
        torch._dynamo.reset()
        compiled = torch.compile(converted, backend="aot_eager", fullgraph=True)
        outputs, gradients = run(compiled, (x,))
        assert_close([*outputs, *gradients], expected)
