"""Floating-point formats, bit for bit: against the types of torch and ml_dtypes, and plain re-computations."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bitcycle.grids import grid_family
from bitcycle.kernels.float_rounding import FORMATS, Blocks, power_of_two, round_to_bfloat16, to_format
from bitcycle.kernels.noise import noise_key, noise_of
from tests.nn.reference import TYPES

pytestmark = pytest.mark.usefixtures("kernels")

every_format = pytest.mark.parametrize("name", TYPES)


def code_points(name):
    """All finite numbers of a format, without their signs, in order."""
    bits = {"E2M1": 4, "E2M3": 6, "E3M2": 6, "E4M3": 8, "E5M2": 8}[name]
    numbers = np.arange(2 ** (bits - 1), dtype=np.uint8).view(TYPES[name]).astype(np.float64)
    return np.unique(numbers[np.isfinite(numbers)])


def nearest(x, name):
    """Round to the nearest code point, ties to the even code, by comparing with all of them."""
    points = code_points(name)
    distance = np.abs(np.abs(np.asarray(x, np.float64))[..., None] - points)
    first = distance.argmin(-1)  # the lower of two
    upper = np.minimum(first + 1, len(points) - 1)
    is_tie = np.take_along_axis(distance, upper[..., None], -1)[..., 0] == distance.min(-1)
    return np.copysign(points[np.where(is_tie & (first % 2 == 1), upper, first)], x)


@every_format
def test_the_parameters_of_a_format(name):
    points, format = code_points(name), FORMATS[name]
    info = ml_dtypes.finfo(TYPES[name])
    assert format.largest == points[-1] == float(info.max)
    assert (format.mantissa, 2.0**format.smallest) == (info.nmant, float(info.smallest_normal))
    assert 2.0 ** (format.smallest - format.mantissa) == points[1]  # the smallest subnormal number


@every_format
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_code_points_ties_and_their_neighbours(name, dtype):
    """Each number, the middle between two, and the floating-point numbers next to both."""
    points = code_points(name)
    middles = (points[1:] + points[:-1]) / 2
    exact = torch.tensor(np.concatenate([points, middles, [points[-1] * 1.01, points[-1] * 100]])).to(dtype)
    x = torch.cat([exact, torch.nextafter(exact, exact.new_tensor(math.inf)), torch.nextafter(exact, -exact)])
    x = torch.cat([x, -x])
    got = to_format(x, FORMATS[name])
    assert np.array_equal(got.numpy(), nearest(x.numpy(), name))
    assert np.array_equal(np.signbit(got.numpy()), np.signbit(x.numpy()))
    inside = (x.abs() <= float(points[-1])) & (x.float() == x)  # ml_dtypes rounds double precision twice
    assert np.array_equal(got[inside].numpy(), x[inside].numpy().astype(TYPES[name]).astype(np.float64))


@pytest.mark.parametrize(("name", "dtype"), [("E4M3", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2)])
def test_the_float8_types_of_torch(name, dtype):
    x = torch.arange(2**18).mul_(2**14 + 5).to(torch.int32).view(torch.float32)
    x = x[x.isfinite() & (x.abs() <= FORMATS[name].largest)]
    assert torch.equal(to_format(x, FORMATS[name]), x.to(dtype).float())


@every_format
@given(st.lists(st.floats(-1e5, 1e5, width=32), min_size=1, max_size=50))
def test_any_number(name, numbers):
    x = torch.tensor(numbers)
    assert np.array_equal(to_format(x, FORMATS[name]).numpy(), nearest(x.numpy(), name))


def test_bfloat16():
    x = torch.arange(2**18).mul_(2**14 + 7).to(torch.int32).view(torch.float32)
    x = x[x.isfinite()]
    inside = x.abs() <= float(torch.finfo(torch.bfloat16).max)
    assert torch.equal(round_to_bfloat16(x)[inside], x[inside].bfloat16().float())
    assert torch.equal(grid_family("float").round(x, 16), round_to_bfloat16(x))
    assert round_to_bfloat16(x).isfinite().all()
    noisy = round_to_bfloat16(x, noise_key(3))
    assert torch.equal(noisy, noisy.bfloat16().float())
    on_grid = x[inside].bfloat16().float()
    assert torch.equal(round_to_bfloat16(on_grid, noise_key(3)), on_grid)


def test_powers_of_two():
    exponents = torch.arange(-127, 128)
    expected = np.ldexp(1.0, exponents.numpy())
    assert np.array_equal(power_of_two(exponents, torch.float32).double().numpy(), expected)
    assert np.array_equal(power_of_two(exponents, torch.float64).numpy(), expected)
    scales = np.arange(255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(scales, expected)  # the scales of microscaling are all there are


# --- Families, against plain re-computations in numpy, block by block.

arrays = hnp.arrays(
    "float32",
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=70),
    elements=st.one_of(st.floats(-50, 50, width=32), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    fill=st.floats(-1, 1, width=32),
)


def float_reference(x, name):
    """One scale: the largest magnitude becomes the largest number of the format."""
    largest = np.float32(FORMATS[name].largest)
    with np.errstate(under="ignore"):
        scale = np.abs(x).max() / largest
    if scale < np.finfo(np.float32).tiny:
        return x
    return nearest(x / scale, name).astype(np.float32) * scale


def microscaling_reference(block, name):
    """OCP Microscaling 1.0, section 6.3: the shared exponent is that of the largest magnitude less emax."""
    most = float(np.abs(block).max())
    shared = -127 if most == 0 else max(math.frexp(most)[1] - 1 - math.floor(math.log2(FORMATS[name].largest)), -127)
    scaled = nearest(block.astype(np.float64) * 2.0**-shared, name)
    return (scaled * 2.0**shared).astype(np.float32)


def nvfp4_reference(x):
    """A scale of the tensor in single precision, one in E4M3 for each block of 16 of the last dimension."""
    six, one = np.float32(6), np.float32(1)
    tensor = np.abs(x).max() / (np.float32(448) * six)
    if tensor < np.finfo(np.float32).tiny:
        return x
    out = np.empty_like(x)
    for row, result in zip(x, out, strict=True):
        for first in range(0, len(row), 16):
            block = row[first : first + 16]
            scale = np.float32(nearest(np.abs(block).max() / six / tensor, "E4M3")) * tensor
            result[first : first + 16] = nearest(block / (scale if scale else one), "E2M1").astype(np.float32) * scale
    return out


FORMAT_OF = {4: "E2M1", 6: "E2M3", 8: "E4M3"}


@pytest.mark.parametrize("bits", FORMAT_OF)
@settings(max_examples=settings.default.max_examples // 2)
@given(arrays)
def test_float_of_a_tensor_and_of_rows(bits, x):
    with np.errstate(over="ignore"):
        got = grid_family("float").round(torch.from_numpy(x), bits)
        assert np.array_equal(got.numpy(), float_reference(x, FORMAT_OF[bits]))
        by_row = grid_family("float").round(torch.from_numpy(x), bits, (-1,))
        assert np.array_equal(by_row.numpy(), np.stack([float_reference(row, FORMAT_OF[bits]) for row in x]))


@pytest.mark.parametrize(("bits", "name"), [(4, "E2M1"), (6, "E2M3"), (6, "E3M2"), (8, "E4M3"), (8, "E5M2")])
@settings(max_examples=settings.default.max_examples // 2)
@given(arrays)
def test_microscaling(bits, name, x):
    grid = grid_family("mx", "E3M2" if name == "E3M2" else "E2M3", "E5M2" if name == "E5M2" else "E4M3")
    got = grid.round(torch.from_numpy(x), bits, error=name == "E5M2").numpy()
    for row, result in zip(x, got, strict=True):
        for first in range(0, len(row), 32):
            expected = microscaling_reference(row[first : first + 32], name)
            assert np.array_equal(result[first : first + 32], expected)


@given(arrays)
def test_nvfp4(x):
    with np.errstate(under="ignore", over="ignore"):
        assert np.array_equal(grid_family("nvfp4").round(torch.from_numpy(x), 4).numpy(), nvfp4_reference(x))


@pytest.mark.parametrize("exponent", [-149, -140, -128, -127, -126, -3, 0, 100, 127])
def test_the_borders_of_a_shared_exponent(exponent):
    """From subnormal numbers to the largest ones, just below and above powers of two."""
    base = torch.tensor(2.0, dtype=torch.float64).pow(exponent).float()
    x = torch.stack([base, torch.nextafter(base, base.new_zeros(())), base / 2, -base * 1.5, base * 1.999, 0 * base])
    x = x[x.isfinite()]
    for bits, name in FORMAT_OF.items():
        got = grid_family("mx").round(x, bits)
        assert np.array_equal(got.numpy(), microscaling_reference(x.numpy(), name))


def test_errors_have_a_format_of_their_own():
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    for name in ("float", "mx", "nvfp4"):
        plain, other = grid_family(name), grid_family(name, grad_format="E5M2")
        assert torch.equal(plain.round(x, 8, error=True), plain.round(x, 8))
        assert torch.equal(other.round(x, 8), plain.round(x, 8))
        assert not torch.equal(other.round(x, 8, error=True), plain.round(x, 8))


@pytest.mark.parametrize(("name", "block"), [("mx", 32), ("nvfp4", 16)])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 64, 70])
def test_a_length_that_is_no_multiple_of_the_block_is_padded(name, block, length):
    x = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    padded = torch.nn.functional.pad(x, (0, -length % block))
    got = grid_family(name).round(x, 4)
    assert torch.equal(got, grid_family(name).round(padded, 4)[:, :length])


@pytest.mark.parametrize("name", ["mx", "nvfp4"])
@pytest.mark.parametrize("noisy", [False, True])
def test_blocks_along_any_dimensions(name, noisy):
    """Blocks along some dimensions are those of the values laid out with these dimensions last, and their noise."""
    x = torch.randn(4, 6, 5, 7, generator=torch.Generator().manual_seed(0))
    grid, key = grid_family(name), noise_key(1) if noisy else None
    noise = noise_of(x, key) if noisy else None
    for dims, order in {(1,): (0, 2, 3, 1), (0,): (1, 2, 3, 0), (0, 2, 3): (1, 0, 2, 3)}.items():
        flat = x.permute(order).flatten(4 - len(dims))
        flat_noise = noise.permute(order).flatten(4 - len(dims)) if noisy else None
        expected = grid.round(flat.contiguous(), 4, None, flat_noise).unflatten(-1, [x.shape[d] for d in dims])
        got = grid.round(x, 4, None, key, along=Blocks(dims))
        assert torch.equal(got, expected.permute([order.index(d) for d in range(4)]))
    parts = x.unflatten(1, (2, 3))
    got = grid.round(x, 4, None, key, along=Blocks((1,), groups=2))
    part_noise = noise.unflatten(1, (2, 3)) if noisy else None
    assert torch.equal(got, grid.round(parts, 4, None, part_noise, along=Blocks((2,))).flatten(1, 2))


def test_a_block_that_is_not_finite_passes_alone():
    x = torch.randn(2, 96, generator=torch.Generator().manual_seed(0))
    x[0, 40] = math.inf
    got = grid_family("mx").round(x, 4)
    assert torch.equal(got[0, 32:64], x[0, 32:64])
    x[0, 40] = 0.0
    expected = grid_family("mx").round(x, 4)
    assert torch.equal(got[0, :32], expected[0, :32])
    assert torch.equal(got[1], expected[1])


def test_a_small_block_beside_a_large_one_is_zero_in_nvfp4():
    """Its scale is below the smallest number of E4M3."""
    x = torch.cat([torch.full((16,), 1.0), torch.full((16,), 1e-7)])
    assert grid_family("nvfp4").round(x, 4)[16:].tolist() == [0.0] * 16
