"""The native kernels of all families are equal to the reference bit for bit, whatever the size and the threads."""

import pytest
import torch

from bitcycle.grids import GRIDS, grid_family
from bitcycle.kernels import native
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.noise import noise_key
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes, origin_of, round_to_grid
from tests.kernels.conftest import use_kernels
from tests.support.pairwise import combinations


@pytest.fixture(autouse=True)
def after():
    use_kernels("native")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    native.choose_kernels()


def bits_of(x):
    return x.contiguous().view(torch.int32)


def by(kernels, threads, function):
    native.choose_kernels(kernels)
    torch.set_num_threads(threads)
    return function()


@combinations(
    width=[(name, bits) for name in ("float", "mx", "nvfp4") for bits in GRIDS[name].widths],
    noise=[None, noise_key(5)],
    shape=[(3, 5), (300, 200), (2, 7, 3, 3), (40000,), (1, 33)],
)
def test_floating_point_families(width, noise, shape):
    name, bits = width
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * torch.logspace(-30, 3, shape[-1])
    for along, dims in [((-1,), None), ((0,), (-1,)), ((0,), (0,)), (tuple(range(len(shape) - 1)), None)]:
        grid, blocks = grid_family(name), Blocks(along)

        def rounded(grid=grid, blocks=blocks, dims=dims):
            return grid.round(x, bits, dims, noise, along=blocks)

        expected = bits_of(by("reference", 1, rounded))
        assert torch.equal(bits_of(by("native", 1, rounded)), expected)
        assert torch.equal(bits_of(by("native", 3, rounded)), expected)


@combinations(bits=[2, 3, 4, 8, 9, 16], noise=[None, noise_key(5)], dims=[None, (-1,), (0,)])
def test_symmetric(bits, noise, dims):
    x = torch.randn(300, 200, generator=torch.Generator().manual_seed(0)) - 0.3

    def rounded():
        values = round_to_grid(x, bits, dims, noise, symmetric=True)
        encoded = encode(x, bits, dims, noise, 2 ** (bits - 1), symmetric=True)
        assert torch.equal(encoded.values, values)
        return values, encoded.codes, encoded.scale, encoded.zero

    expected = by("reference", 1, rounded)
    for threads in (1, 3):
        assert all(torch.equal(a, b) for a, b in zip(by("native", threads, rounded), expected, strict=True))


@pytest.mark.parametrize("kernels", native.CHOICES)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("signed", [False, True])
def test_codes_of_symmetric_grids(kernels, bits, signed):
    """Signed codes are the numbers to multiply, with zero point 0; unsigned ones are moved by half their range."""
    half = 2 ** (bits - 1)
    offset = half if signed else 0
    x = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    native.choose_kernels(kernels)
    encoded = encode_in_bytes(x, bits, None, None, offset, symmetric=True)
    assert encoded.zero == 0
    numbers = encoded.codes.int() if signed else encoded.codes.view(torch.uint8).int() - half
    assert numbers.abs().max() == half - 1
    assert torch.equal(numbers * encoded.scale + 0.0, round_to_grid(x, bits, symmetric=True))
    values = decode(encoded.codes, encoded.scale, encoded.zero, x.dtype, offset, origin_of(bits, True))
    assert torch.equal(values, round_to_grid(x, bits, symmetric=True))


@pytest.mark.parametrize("kernels", native.CHOICES)
def test_zero_is_on_a_symmetric_grid(kernels):
    native.choose_kernels(kernels)
    x = torch.tensor([-1.0, 0.0, 0.3, 7.0])
    for bits in range(2, 17):
        assert round_to_grid(x, bits, symmetric=True)[1] == 0
    assert round_to_grid(x, 4, symmetric=True).tolist() == [-1, 0, 0, 7]
