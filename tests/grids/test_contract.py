"""The contract of every registered family of grids: one suite over the registry, so that registering one tests it."""

import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bitcycle.grids import GRIDS, grid_family
from bitcycle.grids.family import LAST
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.noise import noise_key
from tests.kernels.layouts import LAYOUTS, in_layout
from tests.kernels.uniform_noise import uniform

pytestmark = pytest.mark.usefixtures("kernels")

FAST = {2, 8}  # one narrow and one wide width of each family; the others are slow
every_width = pytest.mark.parametrize(
    ("name", "bits"),
    [
        pytest.param(name, bits, marks=() if bits in FAST or bits == family.widths[0] else pytest.mark.slow)
        for name, family in GRIDS.items()
        for bits in family.widths
        if bits in (2, 4, 6, 8, 16)
    ],
)
few = settings(max_examples=max(5, settings.default.max_examples // 4))  # for each width of each family
every_family = pytest.mark.parametrize("name", GRIDS)
values = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
arrays = hnp.arrays("float32", hnp.array_shapes(max_dims=3, max_side=20), elements=values).map(
    lambda array: torch.from_numpy(array.copy())
)


BLOCKS = (LAST, Blocks((1,)), Blocks((0,)), Blocks((0, 2, 3)), Blocks((1,), groups=2))


def most_moved(name, bits):
    """By which share of the largest magnitude rounding to nearest moves a value, at most."""
    if name == "mx" and bits == 8:
        return 0.126  # what lies between the largest number of E4M3, 448, and 512
    return {2: 0.5, 4: 0.26, 6: 0.07, 8: 0.04, 16: 0.005}[bits] * (1 + 1e-5)


def test_the_five_families():
    assert set(GRIDS) == {"integer", "symmetric", "float", "mx", "nvfp4"}
    widths = {name: family.widths for name, family in GRIDS.items()}
    assert widths["integer"] == tuple(range(1, 17))
    assert widths["symmetric"] == tuple(range(2, 17))
    assert (widths["float"], widths["mx"], widths["nvfp4"]) == ((4, 6, 8, 16), (4, 6, 8), (4, 8, 16))
    with pytest.raises(ValueError, match="unknown grid 'fp4'"):
        grid_family("fp4")


@every_width
@few
@given(x=arrays)
def test_rounding_moves_a_value_by_less_than_its_share(name, bits, x):
    """A value moves by at most half a step of its grid: a share of the largest value around it."""
    moved = (grid_family(name).round(x, bits).double() - x.double()).abs()
    assert (moved <= most_moved(name, bits) * x.double().abs().max() + 1e-9).all()


@every_width
@few
@given(x=arrays, key=st.integers(0, 2**40))
def test_stochastic_rounding_goes_to_a_neighbour(name, bits, x, key):
    moved = (grid_family(name).round(x, bits, None, uniform(x, key)).double() - x.double()).abs()
    assert (moved <= 2 * most_moved(name, bits) * x.double().abs().max() + 1e-9).all()


@every_width
@few
@given(x=arrays)
def test_a_tensor_as_width_gives_the_same(name, bits, x):
    grid = grid_family(name)
    for noise in (None, uniform(x, 5)):
        for error in (False, True):
            got = grid.round(x, torch.tensor(bits), None, noise, error=error)
            assert torch.equal(got, grid.round(x, bits, None, noise, error=error))
    assert torch.equal(grid.round(x, torch.tensor(0)), x)
    assert grid.round(x, 0) is x


@every_width
@few
@given(x=arrays)
def test_what_is_on_the_grid_stays(name, bits, x):
    """Rounding twice changes nothing beyond the rounding of scales: a value on its grid is on the grid it makes."""
    if name == "nvfp4" and bits == 4:
        return  # the scales in E4M3 of rounded values can differ
    grid = grid_family(name)
    once = grid.round(x.double(), bits)
    torch.testing.assert_close(grid.round(once, bits), once, rtol=1e-9, atol=1e-9)


@every_width
def test_stochastic_rounding_is_unbiased(name, bits):
    """The mean of many draws is the value, within five standard errors; nothing in the block is saturated."""
    x = torch.cat([torch.tensor([4.0, -4.0]), torch.linspace(-3.9, 3.9, 14)])
    draws = 2000
    many = x.expand(draws, 16).contiguous()
    rounded = grid_family(name).round(many, bits, (-1,), uniform(many, 11)).double()
    error = rounded.std(0) / draws**0.5
    assert ((rounded.mean(0) - x.double()).abs() <= 5 * error + 2e-6).all()


@every_width
def test_types(name, bits):
    grid = grid_family(name)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(5, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(dtype)
        for noise in (None, uniform(x, 3)):
            rounded = grid.round(x, bits, None, noise)
            assert rounded.dtype is dtype
            exact = grid.round(x.float() if dtype in (torch.bfloat16, torch.float16) else x, bits, None, noise)
            assert torch.equal(rounded, exact.to(dtype))
        tight = {torch.float64: 1e-12, torch.float32: 1e-6}.get(dtype)
        if tight and bits != 16:
            wide = grid.round(x.double(), bits)
            close = (grid.round(x, bits).double() - wide).abs() <= tight * x.abs().max()
            assert close.double().mean() > 0.99  # a tie of one can be none of the other


@every_width
def test_what_is_not_finite_is_never_laundered(name, bits):
    x = torch.randn(4, 70, generator=torch.Generator().manual_seed(1))
    grid, noises = grid_family(name), (None, uniform(x, 1))
    for bad, width, noise in itertools.product((math.nan, math.inf, -math.inf), (bits, torch.tensor(bits)), noises):
        x[1, 40] = bad
        rounded = grid.round(x, width, None, noise)
        assert torch.equal(rounded.isfinite(), x.isfinite())
        assert rounded[1, 40].equal(x[1, 40]) or math.isnan(bad)


@every_width
def test_a_constant_tensor_stays_finite_and_close(name, bits):
    noises = (None, uniform(torch.empty(3, 20), 1))
    for value, noise in itertools.product((0.0, -0.0, 1.0, -3.7, 1e-30, 3e38), noises):
        x = torch.full((3, 20), value)
        rounded = grid_family(name).round(x, bits, None, noise)
        assert rounded.isfinite().all()
        share = most_moved(name, bits) if name == "mx" else 0.005  # powers of two: the value need not be on the grid
        assert ((rounded - x).abs() <= 2 * share * abs(value)).all()


@every_family
def test_empty_tensors_and_single_numbers(name):
    for shape in ((0,), (0, 3), (3, 0), ()):
        assert grid_family(name).round(torch.ones(shape), 4, along=LAST if shape else Blocks()).shape == shape


@every_width
@pytest.mark.parametrize("noise", [None, noise_key(4)], ids=["nearest", "stochastic"])
def test_memory_layouts(name, bits, noise):
    x = torch.randn(3, 34, 5, 6, generator=torch.Generator().manual_seed(2))
    grid = grid_family(name)
    for along, dims in zip(BLOCKS, itertools.cycle([None, (1, 2, 3)]), strict=False):
        for layout in LAYOUTS:
            laid = in_layout(x, layout, [2, 0, 3, 1])
            plain = laid.clone(memory_format=torch.contiguous_format)
            got, expected = (grid.round(each, bits, dims, noise, along=along) for each in (laid, plain))
            assert torch.equal(got, expected)


@every_family
def test_a_width_that_no_family_has(name):
    for bits in (0, 3.5, True, "8", 17, -4):
        with pytest.raises(ValueError, match="backward must be .* or None"):
            grid_family(name).check_width(bits, "backward")


@pytest.mark.parametrize(
    ("name", "bits", "message"),
    [
        ("integer", 17, "bits must be an integer from 1 to 16 or None (full precision), got 17"),
        (
            "symmetric",
            1,
            "bits must be an integer from 2 to 16 on the grid 'symmetric' or None (full precision), got 1",
        ),
        ("float", 5, "bits must be 4 or 6 or 8 or 16 on the grid 'float' or None (full precision), got 5"),
        ("mx", 5, "bits must be 4 or 6 or 8 on the grid 'mx' or None (full precision), got 5"),
        ("nvfp4", 6, "bits must be 4 or 8 or 16 on the grid 'nvfp4' or None (full precision), got 6"),
    ],
)
def test_a_width_that_a_family_does_not_have(name, bits, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        grid_family(name).check_width(bits)


@every_family
@few
@given(bits=st.integers(1, 16))
def test_a_scheduled_width_runs_at_the_next_one_there_is(name, bits):
    grid = grid_family(name)
    if bits > grid.widths[-1]:
        with pytest.raises(ValueError, match="q_max must be"):
            grid.width_for(bits, "q_max")
        return
    width = grid.width_for(bits)
    assert width in grid.widths
    assert width >= bits
    assert not any(bits <= other < width for other in grid.widths)
    assert grid.width_for(None) is None


@every_width
def test_integers_are_refused_and_widths_described(name, bits):
    with pytest.raises(TypeError, match="floating-point operands, got torch.int64"):
        grid_family(name).round(torch.tensor([1, 2]), bits)
    assert grid_family(name).describe(bits)
