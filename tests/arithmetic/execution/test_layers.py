"""Every layer in both executions, and in compiled graphs."""

import copy

import pytest
import torch

import bitcycle as bc
from tests.arithmetic.execution.executions import (
    NEEDS_INTEGERS,
    assert_agree,
    assert_close,
    built,
    every_layer,
    executed,
    run,
)
from tests.nn.cases import CASES
from tests.nn.reference import Plain

pytestmark = NEEDS_INTEGERS


def in_single_precision(case):
    torch.manual_seed(0)
    layer = case.build()
    inputs = [x.float() if torch.is_tensor(x) and x.is_floating_point() else x for x in case.inputs()]
    return layer, inputs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_every_layer_equals_the_plain_formulas(case, execute, bits):
    """In single precision, in which integers are used: the contract suite is in double precision."""
    layer, inputs = in_single_precision(case)
    plain = copy.deepcopy(layer)
    recipe = bc.Recipe(**{**vars(case.recipe), "gradients": "nearest"})
    forward = plain.forward
    plain.forward = lambda *x: case.reference(plain, Plain(bits, 6), *x)
    outputs, gradients = run(plain, inputs)
    plain.forward = forward
    expected = [*outputs, *gradients]
    got, _ = executed(layer, inputs, recipe, bits, 6, execute)
    assert_close(got, expected, 1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("fold", [False, True])
def test_every_layer_agrees_with_its_simulation(case, fold):
    """With stochastic rounding, at the granularity of the case and with folded scales."""
    layer, inputs = in_single_precision(case)
    recipe = bc.Recipe(**{**vars(case.recipe), "fold_scales": fold})
    assert_agree(layer, inputs, recipe, 5, 6, tolerance=1e-4)


@pytest.mark.parametrize("case", [case for case in CASES if case.batched], ids=lambda case: case.name)
def test_every_layer_takes_an_empty_batch(case):
    layer, inputs = in_single_precision(case)
    empty = [x[:0] for x in inputs]
    assert_agree(layer, empty, case.recipe, 4, 4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_layer_launders_what_is_not_a_number(case):
    layer, inputs = in_single_precision(case)
    first = next((x for x in inputs if torch.is_tensor(x) and x.is_floating_point()), None)
    if first is None:
        with torch.no_grad():
            layer.weight[1] = float("nan")
    else:
        first[0] = float("nan")
    got, _ = executed(layer, inputs, case.recipe, 4, 4, "integer")
    assert any(t.isnan().any() for t in got)


@every_layer
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_graph_computes_what_eager_simulation_does(name, fold):
    """With the same noise, in integer execution too: a compiled graph is simulated."""
    layer, x = built(name)
    recipe = bc.Recipe(fold_scales=fold)
    expected, _ = executed(layer, (x,), recipe, 4, 5, "simulated")
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
        bc.set_bits(converted, forward=4, backward=5)
        torch._dynamo.reset()
        compiled = torch.compile(converted, backend="aot_eager", fullgraph=True)
        outputs, gradients = run(compiled, (x,))
        assert_close([*outputs, *gradients], expected)
