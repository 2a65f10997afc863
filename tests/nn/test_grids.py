"""Every registered layer on every family of grids."""

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.grids import GRIDS
from tests.nn.cases import CASES
from tests.nn.reference import Plain, scaled_float, symmetric
from tests.nn.test_contract import build, run, same, tensors

pytestmark = pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
other_grids = pytest.mark.parametrize("grid", [name for name in GRIDS if name != "integer"])


def recipe_of(case, **changes):
    return bc.Recipe(**{**vars(case.recipe), **changes})


def refused(case, grid):
    """Whether the combination makes no sense."""
    if GRIDS[grid].block is None:
        return False
    return case.name in ("bilinear", "einsum", "message passing") or "depthwise" in case.name


@every_case
@pytest.mark.parametrize(("grid", "plain"), [("symmetric", symmetric), ("float", scaled_float)])
def test_outputs_and_gradients_equal_the_plain_formulas(case, grid, plain):
    layer, inputs = build(case)
    expected = run(layer, inputs, lambda *x: case.reference(layer, Plain(4, 8, grid=plain), *x))
    bc.quantize(layer, recipe_of(case, grid=grid, gradients="nearest"))
    bc.set_bits(layer, forward=4, backward=8)
    got = run(layer, inputs)
    for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@every_case
@other_grids
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
    bc.set_bits(layer, forward=None, backward=None)
    full = run(layer, inputs)
    assert same(full[0], expected[0])
    assert same(full[1], expected[1])
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
        empty = [x[:0].requires_grad_(x.is_floating_point()) for x in inputs]
        sum(out.sum() for out in tensors(layer(*empty))).backward()
    poisoned = [x.clone() if torch.is_tensor(x) else x for x in inputs]
    first = next((x for x in poisoned if x.is_floating_point()), None)
    if first is not None:
        first[0] = float("nan")
        assert any(out.isnan().any() for out in run(layer, poisoned)[0])


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


@other_grids
def test_masked_products_see_nothing_beyond_the_mask(grid):
    """Zeros stay zero on grids that have it, also in the product of a masked matrix."""

    class Masked(nn.Module):
        def forward(self, q, v):
            return (q @ q.mT).tril() @ v

    torch.manual_seed(0)
    model = bc.quantize(Masked(), bc.Recipe(grid=grid))
    bc.set_bits(model, forward=8, backward=8)
    q, v = torch.randn(1, 5, 8), torch.randn(1, 5, 8)
    with torch.no_grad():
        before = model(q, v)
        changed = v.clone()
        changed[:, -1] *= 0.5  # the last token is not the largest one in its block
        changed[:, -1].clamp_(-0.1, 0.1)
        assert torch.equal(model(q, changed)[:, :1], before[:, :1]) or GRIDS[grid].block is not None
