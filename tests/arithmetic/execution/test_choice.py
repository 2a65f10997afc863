"""Which execution a model and its sites take."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import execution
from bitcycle.arithmetic.backends.integer_cpu import convolution as integer_convolution
from bitcycle.arithmetic.backends.integer_cpu import linear as integer_linear
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.conversion.sites import sites
from bitcycle.kernels import native
from tests.support.executions import (
    NEEDS_INTEGERS,
    TENSOR,
    WHOLE,
    assert_close,
    executed,
    randn,
    seeded,
)

pytestmark = NEEDS_INTEGERS


@pytest.mark.parametrize("wrong", ["int8", "", "Integer", None, 8])
def test_executions_that_do_not_exist(wrong):
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"execute must be 'simulated', 'integer' or 'auto', got "):
        bc.quantize(layer, execute=wrong)
    assert type(layer) is nn.Linear


def test_a_machine_without_right_integers_says_so(monkeypatch):
    monkeypatch.setattr(execution, "integers_are_right", lambda: False)
    layer = nn.Linear(2, 2)
    for execute in ("integer", "fastest"):
        with pytest.raises(ValueError, match=f"execute='{execute}': torch._int_mm gives wrong results on this machine"):
            bc.quantize(layer, execute=execute)
    assert type(layer) is nn.Linear
    assert sites(bc.quantize(layer, execute="simulated"))[""].execution is Execution.SIMULATED


def test_wrong_and_missing_integer_products_are_noticed(monkeypatch):
    def saturating(a, b):
        return (a.float() @ b.float()).clamp(-(2**15), 2**15 - 1).to(torch.int32)

    def missing(a, b):
        raise RuntimeError("not implemented")

    for wrong in (saturating, missing):
        monkeypatch.setattr(torch, "_int_mm", wrong)
        assert not execution.integers_are_right.__wrapped__()
    monkeypatch.undo()
    assert execution.integers_are_right.__wrapped__()


@pytest.mark.parametrize(("fast", "expected"), [(True, Execution.FASTEST), (False, Execution.SIMULATED)])
def test_auto_depends_on_the_machine(monkeypatch, fast, expected):
    monkeypatch.setattr(execution, "integers_are_fast", lambda: fast)
    assert sites(bc.quantize(nn.Linear(2, 2)))[""].execution is expected
    assert sites(bc.quantize(nn.Linear(2, 2), execute="auto"))[""].execution is expected


def test_asking_the_machine_takes_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    execution.integers_are_right.__wrapped__()
    execution.integers_are_fast.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)


def test_small_products_are_simulated_where_speed_is_asked():
    """The bounds of the sizes: below them integers are not faster."""
    if not native.multiplies():
        pytest.skip("without native kernels, integers are not faster")
    linear = seeded(lambda: nn.Linear(64, 64, bias=False))
    rows = integer_linear.MIN_MACS // 64**2
    convolution = seeded(lambda: nn.Conv2d(8, 8, 3, padding=1))
    images = -(-integer_convolution.MIN_MACS // (16 * convolution.weight.numel()))
    for layer, small, large in (
        (linear, randn(rows - 1, 64), randn(rows, 64)),
        (convolution, randn(images - 1, 8, 4, 4), randn(images, 8, 4, 4)),
    ):
        for x, expected in ((small, ExecutionPlan.simulated(Reason.SMALL)), (large, WHOLE)):
            got, means = executed(layer, (x,), TENSOR, 8, 8, "fastest")
            assert means[""] == expected
            assert_close(got, executed(layer, (x,), TENSOR, 8, 8, "simulated")[0])


@pytest.mark.parametrize("execute", ["simulated", "integer", "fastest"])
def test_copies_and_pickles_keep_the_execution(execute):
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Conv2d(2, 2, 1), nn.MultiheadAttention(4, 2)))
    bc.quantize(model, execute=execute)
    bc.set_bits(model, forward=4, backward=4)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        executions = {site.execution for site in sites(other).values()}
        assert executions == {Execution(execute)}


class Contractions(nn.Module):
    def forward(self, x):
        return torch.einsum("ij,kj->ik", x, x) + torch.tensordot(x, x, ([1], [1]))


@pytest.mark.parametrize(
    ("build", "shapes", "whole"),
    [
        (lambda: nn.LSTM(4, 5), [(3, 2, 4)], {"weight_hh_l0"}),
        (lambda: nn.Bilinear(4, 5, 3), [(2, 4), (2, 5)], {""}),
        (lambda: nn.Conv2d(2, 3, 2, padding="same"), [(1, 2, 4, 4)], set()),  # rounds before it pads, then multiplies
        (Contractions, [(4, 4)], {":einsum", ":tensordot"}),
    ],
)
@pytest.mark.parametrize("execute", ["simulated", "integer", "fastest"])
def test_sites_without_one_product_of_two_operands_say_how_they_computed(build, shapes, whole, execute):
    layer = bc.quantize(seeded(build), execute=execute)
    bc.set_bits(layer, forward=4, backward=4)
    inputs = [randn(*shape) for shape in shapes]
    told = "simulated" if execute == "simulated" else "simulated (computed as a whole)"
    layer(*inputs)
    assert {row.name for row in bc.summary(layer).sites if row.execution == told} >= whole
    assert not any("not run yet" in row.execution for row in bc.summary(layer).sites)
    if execute != "simulated":
        assert {row.name for row in bc.summary(layer).sites if "whole" in row.execution} == whole


def test_products_that_are_found_later_have_the_execution_of_the_model():
    class Own(nn.Module):
        def forward(self, a, b):
            return F.linear(a, b)

    model = nn.Sequential(Own())
    bc.quantize(model, execute="integer")
    bc.set_bits(model, forward=4, backward=4)
    model[0](randn(3, 4).requires_grad_(), randn(5, 4))
    assert {site.execution for site in sites(model).values()} == {Execution.INTEGER}
