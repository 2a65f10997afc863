"""The native kernels are equal to the torch reference, bit for bit, and both to a plain computation with numpy."""

import itertools
import math
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bitcycle.kernels import native
from bitcycle.kernels.convolutions import Windows, convolve, correlate
from bitcycle.kernels.float_rounding import E4M3, Scaling, round_to_format
from bitcycle.kernels.integer_sums import MAX_TERMS, Grid, multiply
from bitcycle.kernels.noise import noise_of
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes, round_to_grid
from tests.kernels.layouts import DEFAULTS, LAYOUTS, default, in_layout
from tests.kernels.uniform_noise import hashed, uniform

pytestmark = pytest.mark.skipif(
    native._extension is None,
    reason="the native kernels are not installed: bitcycle was installed without a C compiler",
)


encode_images = partial(encode_in_bytes, offset=0, channels_last=True)


@contextmanager
def using(name, threads=1, parallel=native.PARALLEL):
    """Compute with the native kernels or the reference; with several threads from ``parallel`` elements on."""
    before, smallest = torch.get_num_threads(), native.PARALLEL
    native.choose_kernels(name)
    torch.set_num_threads(threads)
    native.PARALLEL = parallel
    try:
        yield
    finally:
        native.PARALLEL = smallest
        torch.set_num_threads(before)
        native.choose_kernels()


def both(compute, threads=1, parallel=native.PARALLEL):
    """Return what the native kernels compute, and what the reference does."""
    with using("native", threads, parallel):
        got = compute()
    with using("reference"):
        expected = compute()
    return got, expected


def assert_same(got, expected, layout=False):
    """Compare all bits: of negative zeros and of what is not a number too."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if layout:
        assert got.stride() == expected.stride()
    if got.is_floating_point():
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
        got, expected = got.contiguous().view(bits), expected.contiguous().view(bits)
    assert torch.equal(got, expected)


def assert_same_grid(got, expected):
    """Compare scales or zeros: nobody sees the sign of a zero or of what is not a number in them."""
    assert got.shape == expected.shape
    assert torch.equal(got.nan_to_num(9e9) + 0.0, expected.nan_to_num(9e9) + 0.0)
    assert torch.equal(got.isnan(), expected.isnan())


def from_bits(*patterns):
    return torch.tensor(patterns, dtype=torch.int64).to(torch.int32).view(torch.float32)


NANS = from_bits(0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)  # of both signs, quiet and signalling
SPECIAL = torch.cat(
    [
        NANS,
        torch.tensor([math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-38, 1.17549435e-38, 3.4e38, -3.4e38]),
    ]
)
KINDS = {
    "ordinary": lambda x: x,
    "small": lambda x: x * 1e-20,
    "tiny": lambda x: x * 1e-39,
    "huge": lambda x: x * 1e38,
    "around a grid that overflows": lambda x: x.sign() * 3e38,
    "far from zero": lambda x: x * 1e-3 + 1e4,
    "constant": lambda x: torch.full_like(x, 0.7),
    "zeros of both signs": lambda x: x * 0.0,
    "whole numbers": lambda x: (x * 4).round(),
    "halves": lambda x: (x * 4).round() / 2,
}
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple) | st.sampled_from(
    [
        (1,),
        (17,),
        (3, 67),
        (67, 3),
        (2, 5, 33),
        (2, 18, 3, 5),
        (1, 16, 1, 1),
        (2, 1, 4, 4),
        (3, 4, 5, 0),
        (300, 3),
        (2, 300),
    ]
)
keys = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
edge_keys = st.sampled_from([(0, 0), (2**32 - 1, 2**32 - 1), (2**32 - 3, 0), (2**31, 2**31)])
threads = st.sampled_from([1, 2, 3])


@st.composite
def tensors(draw, special=True, shapes=shapes):
    """A tensor of single precision of any kind and layout."""
    shape = draw(shapes)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    x = KINDS[draw(st.sampled_from(sorted(KINDS)))](torch.randn(shape, generator=generator))
    if special and x.numel() > 0 and draw(st.booleans()):
        flat = x.view(-1)
        for place in draw(st.lists(st.integers(0, x.numel() - 1), max_size=3)):
            flat[place] = SPECIAL[draw(st.integers(0, len(SPECIAL) - 1))]
    order = draw(st.permutations(range(x.dim())))
    return in_layout(x, draw(st.sampled_from(LAYOUTS)), list(order))


@st.composite
def tensors_with_dims(draw):
    """A tensor, and which of its dimensions share a grid: all of them, or any subset, counted from either end."""
    x = draw(tensors())
    if draw(st.booleans()):
        return x, None
    if x.dim() == 0:
        return x, draw(st.sampled_from([(), (0,), (-1,)]))  # as torch's own reductions allow
    chosen = draw(st.sets(st.integers(0, x.dim() - 1)))
    return x, tuple(d - x.dim() if draw(st.booleans()) else d for d in chosen)


# ------------------------------------------------------------------------------------------------- rounding


@pytest.mark.slow
@settings(max_examples=4 * settings.default.max_examples)
@given(tensors_with_dims(), st.integers(1, 16), st.none() | keys | edge_keys, threads)
def test_round_to_grid(x_dims, bits, key, count):
    x, dims = x_dims
    got, expected = both(lambda: round_to_grid(x, bits, dims, key), count, parallel=1)
    assert_same(got, expected)


@settings(max_examples=2 * settings.default.max_examples)
@given(tensors_with_dims(), st.integers(1, 16), st.none() | keys, st.integers(0, 255), threads)
def test_encode_and_decode(x_dims, bits, key, offset, count):
    x, dims = x_dims

    def there_and_back():
        encoded = encode(x, bits, dims, key, offset)
        return encoded, decode(encoded.codes, encoded.scale, encoded.zero, torch.float32, offset)

    (got, decoded), (expected, expected_decoded) = both(there_and_back, count, parallel=1)
    assert_same(got.values, expected.values)
    assert_same(got.codes, expected.codes)
    assert_same(decoded, expected_decoded)
    assert_same(decoded, got.values)
    if x.numel() > 0:
        assert_same_grid(got.scale, expected.scale)
        assert_same_grid(got.zero, expected.zero)


@settings(max_examples=2 * settings.default.max_examples)
@given(tensors_with_dims(), st.integers(1, 8), st.none() | keys, st.integers(0, 255), st.booleans(), threads)
def test_codes_without_values(x_dims, bits, key, offset, with_zero, count):
    x, dims = x_dims
    assume(x.numel() > 0)
    got, expected = both(lambda: encode_in_bytes(x, bits, dims, key, offset, with_zero=with_zero), count, parallel=1)
    assert (got is None) is (expected is None)
    if got is not None:
        assert_same(got.codes, expected.codes)
        assert_same_grid(got.scale, expected.scale)
        assert_same_grid(got.zero, expected.zero)


@st.composite
def tensors_with_factors(draw):
    """A matrix or batch of matrices, or images: in bfloat16 or with factors, which dimensions share a grid."""
    shapes = [(5, 67), (3, 40, 7), (2, 3, 9, 1100), (3, 17, 5, 4), (2, 1100, 3, 2), (2, 16, 8, 8), (2, 5, 17, 15)]
    shape = draw(st.sampled_from(shapes))
    x = draw(tensors(shapes=st.just(shape)))
    x = x.bfloat16() if draw(st.booleans()) else x
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    if draw(st.booleans()) and len(shape) == 4:
        factors = draw(st.sampled_from([(shape[0], 1, 1, 1), (1, shape[1], 1, 1)]))
    else:
        factors = draw(st.sampled_from([(*shape[:-1], 1), (shape[-1],), (*shape[:-2], 1, shape[-1])]))
    drawn = None if x.dtype is torch.bfloat16 and draw(st.booleans()) else torch.randn(factors, generator=generator)
    dims = draw(st.sampled_from([None, (-1,), (-2,), tuple(range(len(shape) - 1)), (1, 2, 3), (2, 3)]))
    return x, drawn, None if dims and max(dims) >= len(shape) else dims


@settings(max_examples=4 * settings.default.max_examples)
@given(tensors_with_factors(), st.integers(1, 8), st.none() | keys, st.booleans(), threads)
def test_codes_in_bfloat16_and_with_factors(arguments, bits, key, symmetric, count):
    """Elements are widened and multiplied in single precision, one by one, before they are rounded."""
    x, factors, dims = arguments
    symmetric = symmetric and bits > 1
    of_images = x.dim() == 4 and dims in OF_IMAGES and (factors is None or factors.shape[2:] == (1, 1))
    wide = x.float() if factors is None else x.float() * factors
    for function in (encode_in_bytes, encode_images) if of_images else (encode_in_bytes,):

        def compute(f=function):
            return f(x, bits, dims, key, symmetric=symmetric, factors=factors)

        got, expected = both(compute, count, parallel=1)
        plain = function(wide, bits, dims, key, symmetric=symmetric)
        for other in (expected, plain):
            assert (got is None) is (other is None)
            if got is not None:
                assert_same(got.codes, other.codes)
                assert_same_grid(got.scale, other.scale)
                assert_same_grid(got.zero, other.zero)


@given(st.data(), shapes, st.integers(0, 255), threads)
def test_decode_of_any_codes(data, shape, offset, count):
    """Codes and grids that no encoding returned, in layouts that may differ from one another."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**20)))
    codes = torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    codes = in_layout(codes, data.draw(st.sampled_from(LAYOUTS)), data.draw(st.permutations(range(len(shape)))))
    grid = () if not shape or data.draw(st.booleans()) else tuple(data.draw(st.sampled_from((1, n))) for n in shape)
    order = list(data.draw(st.permutations(range(len(grid)))))
    scale, zero = (
        in_layout(torch.randn(grid, generator=generator), data.draw(st.sampled_from(LAYOUTS)), order) for _ in range(2)
    )
    got, expected = both(lambda: decode(codes, scale, zero, torch.float32, offset), count, parallel=1)
    assert_same(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_go_to_the_reference(dtype):
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    for dims in (None, (1,), (0,)):
        with using("native"):
            assert not native.supports(x)
        got, expected = both(lambda dims=dims: encode(x, 5, dims, (1, 2)))
        for part, wanted in zip(got, expected, strict=True):
            assert_same(part, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 20, 50, 40), (1, 1, 1, 0)])
def test_bfloat16_in_single_precision(layout, shape):
    """All numbers of bfloat16, with their signs, infinities and what is not a number."""
    patterns = torch.arange(torch.Size(shape).numel()).mul(13).to(torch.int16).view(shape)
    x = in_layout(patterns, layout, [2, 0, 3, 1]).view(torch.bfloat16)
    got, expected = both(lambda: native.widen(x, torch.float32), 2, parallel=1)
    assert got.stride() == expected.stride()
    is_number = ~x.isnan()
    assert_same(got[is_number], x.float()[is_number])
    assert got[~is_number].isnan().all()


@pytest.mark.parametrize("value", DEFAULTS, ids=str)
@pytest.mark.parametrize("kernels", native.CHOICES)
def test_no_kernel_depends_on_the_defaults_of_torch(value, kernels):
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    codes = (x * 40).to(torch.int8)
    grid = Grid(torch.rand(1) + 0.1, torch.rand(1), 8)
    windows = Windows((4, 5), (3, 3), (1, 1), (1, 1), (1, 1), (4, 5))
    of_channels = torch.ones(2, 2, 3)

    def compute():
        results = [uniform(x, 1, 2), *encode_images(x, 5)]
        for laid_out in (x, in_layout(x, "channels last")):
            for dims in (None, (1, 2, 3), (1,)):
                encoded = encode(laid_out, 5, dims)
                results += [*encoded, decode(encoded.codes, encoded.scale, encoded.zero, torch.float32)]
        pixels, kernel = codes.permute(0, 2, 3, 1).contiguous(), codes[:, :, :3, :3].contiguous()
        pixel_sums = pixels.view(torch.uint8).sum(3, dtype=torch.int32)
        results.append(convolve(windows, pixels, pixel_sums, kernel, grid, grid))
        return [*results, correlate(windows, pixels, pixels, *of_channels, 128, 128)]

    with using(kernels):
        expected = compute()
        with default(value):
            got = compute()
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.device == theirs.device
        assert_same(ours, theirs)


def test_views_with_another_sign_keep_it():
    """Such as the imaginary part of a conjugate. Their memory holds the negatives of their elements."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 16, 4, 4, generator=generator, dtype=torch.complex64).conj().imag
    y = torch._neg_view(torch.randn(6, generator=generator))
    grid, codes = Grid(torch.ones(1), torch.ones(1), 0), torch.ones(6, 6, dtype=torch.int8)
    for view in (x, y):
        assert view.is_neg()
    functions = [
        lambda x, y: round_to_grid(x, 4),
        lambda x, y: round_to_grid(y, 4, (0,), (1, 2)),
        lambda x, y: encode_in_bytes(y, 4).codes,
        lambda x, y: encode_images(x, 4).codes,
        lambda x, y: decode(torch.ones(6, dtype=torch.int8), y, y, torch.float32),
        lambda x, y: round_to_format(y, E4M3, Scaling.TO_LARGEST),
        lambda x, y: multiply(codes, codes, grid, grid, y),
    ]
    for function in functions:
        with using("native"):
            assert_same(function(x, y), function(x.resolve_neg(), y.resolve_neg()))


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("key", [None, (123, 456)])
def test_large_tensors_on_one_and_two_threads(name, key):
    """Above the size from which on there are several threads, and with blocks that do not divide it."""
    x = KINDS[name](torch.randn(3, 7, 61, 53, generator=torch.Generator().manual_seed(1)))
    assert x.numel() > native.PARALLEL
    for layout in ("contiguous", "channels last"):
        laid_out = in_layout(x, layout)
        for dims in (None, (1, 2, 3), (2, 3), (0, 2, 3), (3,), (0,)):
            results = [both(lambda: encode(laid_out, 8, dims, key), count) for count in (1, 2)]  # noqa: B023
            for got, expected in results:
                assert_same(got.values, expected.values)
                assert_same(got.codes, expected.codes)


@pytest.mark.parametrize("special", range(len(SPECIAL)))
@pytest.mark.parametrize("dims", [None, (0,), (1,), (0, 1)])
def test_special_values_at_every_place(special, dims):
    """First, in the middle and last, so that neither the vectors nor the rest of a loop may miss them."""
    for place in (0, 7, 31, 32, 68):
        for noise in (None, (1, 2)):
            x = torch.linspace(-1, 2, 69).view(3, 23).clone()
            x.view(-1)[place] = SPECIAL[special]
            got, expected = both(lambda x=x, noise=noise: round_to_grid(x, 3, dims, noise))
            assert_same(got, expected)
            if not SPECIAL[special].isfinite() and dims in (None, (0, 1)):
                assert_same(got, x)


def plain_rounding(x, bits, axes, noise):
    """Rounding to a grid with numpy, one operation after the other in single precision."""
    one = np.float32
    low, high = x.min(axis=axes, keepdims=True), x.max(axis=axes, keepdims=True)
    levels = one(2**bits - 1)
    scale = np.where(low == high, one(1), (high - low) / levels)
    t = (x - low) / scale
    if noise is not None:
        t = t + (noise.astype(np.float32) + one(0.5)) * one(2.0**-16)
    codes = np.rint(t)
    codes = codes if noise is None else np.clip(codes, one(0), levels)
    assert codes.dtype == scale.dtype == np.float32
    return codes * scale + low, codes


@pytest.mark.parametrize("kernels", native.CHOICES)
@given(tensors_with_dims(), st.integers(1, 16), st.none() | keys)
def test_equals_a_plain_computation(kernels, x_dims, bits, key):
    """Values and codes, for tensors that have a grid."""
    x, dims = x_dims
    assume(x.numel() > 0)
    plain = x.contiguous().numpy()
    axes = tuple(d % x.dim() for d in dims) if dims and x.dim() else None
    with np.errstate(all="ignore"):
        span = plain.max(axis=axes) - plain.min(axis=axes)
    assume(np.isfinite(span).all() and ((span == 0) | (span > 1e-32)).all())
    noise = None if key is None else hashed(np.arange(x.numel()), key).reshape(plain.shape)
    values, codes = plain_rounding(plain, bits, axes, noise)
    with using(kernels):
        encoded = encode(x, bits, dims, key)
    assert (encoded.values.contiguous().numpy() == values).all()
    if bits <= 8:
        assert (encoded.codes.contiguous().numpy() == codes - 128).all()


# ---------------------------------------------------------------------------------------------------- noise


@settings(max_examples=2 * settings.default.max_examples)
@given(tensors(special=False), keys | edge_keys)
def test_noise(x, key):
    got, expected = both(lambda: noise_of(x, key))
    assert_same(got, expected, layout=True)
    assert (got.contiguous().view(-1).numpy() == hashed(np.arange(x.numel()), key)).all()


# ------------------------------------------------------------------------------------------------------ sums


@st.composite
def products(draw):
    """The arguments of ``multiply``: batches of matrices in any layout, with one grid or one per row."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    rows, columns, terms = (draw(st.integers(1, 70) | st.sampled_from([128, 191])) for _ in range(3))

    def codes(lines):
        x = torch.randint(-128, 128, (*batch, lines, terms), generator=generator, dtype=torch.int8)
        order = draw(st.permutations(range(len(batch)))) if batch else []
        last = [len(batch), len(batch) + 1]
        return in_layout(x, "permuted", [*order, *(reversed(last) if draw(st.booleans()) else last)])

    def floats(lines):
        return torch.randn(*batch, lines, generator=generator)

    def grid(lines):
        offset = draw(st.sampled_from([0, 1, 8, 128]))
        scale, zero = (torch.randn(1), torch.randn(1)) if draw(st.booleans()) else (floats(lines), floats(lines))
        return Grid(scale.abs().reshape(-1), zero.reshape(-1), offset)

    return {
        "p": codes(rows),
        "q": codes(columns),
        "p_grid": grid(rows),
        "q_grid": grid(columns),
        "bias": floats(columns) if draw(st.booleans()) else None,
        "row_bias": floats(rows) if draw(st.booleans()) else None,
        "dtype": draw(st.sampled_from([torch.float32, torch.bfloat16])),
    }


@settings(max_examples=4 * settings.default.max_examples)
@given(products(), threads)
def test_products_of_codes(arguments, count):
    got, expected = both(lambda: multiply(**arguments), count, parallel=1)
    assert_same(got, expected, layout=True)
    p, q = arguments["p"].double(), arguments["q"].double()
    values = []
    for codes, grid in ((p, arguments["p_grid"]), (q, arguments["q_grid"])):
        by_line = [x if x.numel() == 1 else x.view(*p.shape[:-2], -1, 1) for x in (grid.scale, grid.zero)]
        values.append((codes + grid.offset) * by_line[0].double() + by_line[1].double())
    exact = values[0] @ values[1].mT
    bias, row_bias = arguments["bias"], arguments["row_bias"]
    exact += 0 if bias is None else bias.double().unsqueeze(-2)
    exact += 0 if row_bias is None else row_bias.double().unsqueeze(-1)
    error = (got.double() - exact).abs().max() / exact.abs().max()
    assert error < (2e-5 if got.dtype is torch.float32 else 4e-3)


def test_sums_of_the_most_terms_stay_within_32_bits():
    p = torch.full((1, MAX_TERMS), -128, dtype=torch.int8)
    grid = Grid(torch.ones(1), torch.zeros(1), 0)
    for got in both(lambda: multiply(p, p, grid, grid)):
        assert got.item() == MAX_TERMS * 2.0**14


# ---------------------------------------------------------------------------------------------------- images

OF_IMAGES = (None, (1, 2, 3), (2, 3))
"""The dimensions of images that share a grid: one grid, one per image, one per channel."""

image_shapes = st.tuples(
    st.integers(0, 3), st.sampled_from([0, 1, 3, 4, 5, 15, 16, 17, 32, 33]), st.integers(0, 9), st.integers(0, 9)
)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    tensors(shapes=image_shapes.filter(all)),
    st.integers(2, 8),
    st.sampled_from(OF_IMAGES),
    st.none() | keys | edge_keys,
    st.booleans(),
    threads,
)
def test_codes_of_images(x, bits, dims, key, symmetric, count):
    """They are those of the same tensor in any other layout, and their sums are those of the channels."""
    got, expected = both(lambda: encode_images(x, bits, dims, key, symmetric=symmetric), count, parallel=1)
    assert (got is None) is (expected is None)
    if got is None:
        return
    plain = encode_in_bytes(x, bits, dims, key, 0, symmetric=symmetric)
    for codes in (got.codes, expected.codes, plain.codes):
        assert_same(codes, got.codes)
    assert got.codes.is_contiguous(memory_format=torch.channels_last)
    assert_same_grid(got.scale, expected.scale)
    assert_same_grid(got.zero, expected.zero)
    assert_same(got.pixel_sums, expected.pixel_sums)
    assert (got.pixel_sums.numpy() == plain.codes.contiguous().numpy().view(np.uint8).astype(np.int64).sum(1)).all()


@pytest.mark.parametrize(("channels", "rows"), [(3, 41), (16, 41), (37, 41), (300, 41), (1500, 3)])
def test_codes_of_large_images(channels, rows):
    """Several strips of pixels, the last of them short, on one and two threads."""
    x = torch.randn(3, channels, rows, 29, generator=torch.Generator().manual_seed(0))
    for layout in ("contiguous", "channels last"):
        for dims, key, count in itertools.product(OF_IMAGES, (None, (5, 6)), (1, 2)):
            got, expected = both(lambda: encode_images(in_layout(x, layout), 8, dims, key), count)  # noqa: B023
            assert_same(got.codes, expected.codes)
            assert_same(got.scale, expected.scale)
            assert_same(got.pixel_sums, expected.pixel_sums)


# ---------------------------------------------------------------------------------------------- convolutions


@st.composite
def convolutions(draw):
    """Windows of any geometry, codes of images, of a kernel and of a grad_output, and their grids."""
    kernel, stride, dilation, output = (
        (draw(numbers), draw(numbers))
        for numbers in (
            st.integers(1, 5),
            st.integers(1, 3),
            st.integers(1, 3),
            st.integers(1, 9) | st.sampled_from([17, 40]),
        )
    )
    spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    padding = tuple(draw(st.integers(0, span)) for span in spans)
    size = tuple(
        (out - 1) * s + span + 1 - 2 * p + draw(st.integers(0, s - 1))
        for out, s, span, p in zip(output, stride, spans, padding, strict=True)
    )
    assume(min(size) >= 1)
    windows = Windows(size, kernel, stride, padding, dilation, output)
    images, bits = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    channels, outputs = (draw(st.integers(1, 20) | st.sampled_from([32, 33, 64, 100])) for _ in range(2))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))

    def codes(*shape):
        return torch.randint(0, 2**bits, shape, generator=generator).to(torch.uint8).view(torch.int8)

    def grid(counts, offset=0):
        count = draw(st.sampled_from(counts))
        return Grid(torch.rand(count, generator=generator) + 0.1, torch.randn(count, generator=generator), offset)

    p, e = codes(images, *size, channels), codes(images, *output, outputs)
    q = (codes(outputs, channels, *kernel).view(torch.uint8).int() - 2 ** (bits - 1)).to(torch.int8)
    q = in_layout(q, draw(st.sampled_from(["contiguous", "channels last"])))
    return windows, bits, p, q, e, grid([1, images]), grid([1, outputs], 2 ** (bits - 1))


def pixel_sums(codes):
    return codes.view(torch.uint8).sum(3, dtype=torch.int32)


def values(codes, grid, along=None):
    """The values of codes, with the grids along a dimension."""
    shape = [-1 if d == along else 1 for d in range(codes.dim())]
    scale, zero = (x.double() if along is None else x.double().view(shape) for x in (grid.scale, grid.zero))
    return (codes.double() + grid.offset) * scale + zero


def assert_near(got, exact):
    error = (got.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-3)
    assert error < (3e-5 if got.dtype is torch.float32 else 4e-3)


@given(convolutions(), st.data(), threads)
def test_convolutions_of_codes(arguments, data, count):
    windows, _, p, q, _, p_grid, q_grid = arguments
    generator = torch.Generator().manual_seed(0)
    positions = len(p) * windows.output[0] * windows.output[1]
    bias, row_bias = (
        torch.randn(n, generator=generator) if data.draw(st.booleans()) else None for n in (len(q), positions)
    )
    last = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from([torch.float32, torch.bfloat16]))
    got, expected = both(
        lambda: convolve(windows, p, pixel_sums(p), q, p_grid, q_grid, bias, row_bias, channels_last=last, dtype=dtype),
        count,
        parallel=1,
    )
    assert_same(got, expected)
    assert got.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    images = values(p.view(torch.uint8), p_grid, 0).permute(0, 3, 1, 2)
    bias = None if bias is None else bias.double()
    exact = F.conv2d(images, values(q, q_grid, 0), bias, windows.stride, windows.padding, windows.dilation)
    exact += 0 if row_bias is None else row_bias.double().view(len(p), 1, *windows.output)
    assert_near(got, exact)


@given(convolutions(), threads, st.booleans())
def test_gradients_of_kernels_from_codes(arguments, count, begins_at_zero):
    windows, bits, p, q, e, *_ = arguments
    half = 2 ** (bits - 1)
    p_middle = 0 if begins_at_zero else half
    scale, middle = torch.rand(2, len(e), len(q), generator=torch.Generator().manual_seed(bits))
    got, expected = both(lambda: correlate(windows, e, p, scale, middle, half, p_middle), count, parallel=1)
    assert_same(got, expected)
    images, errors = (x.view(torch.uint8).permute(0, 3, 1, 2).double() for x in (p, e))
    images = images - p_middle
    errors = (errors - half) * scale[..., None, None].double() + middle[..., None, None].double()
    geometry = windows.stride, windows.padding, windows.dilation
    exact = torch.nn.grad.conv2d_weight(images, q.shape, errors, *geometry)
    assert_near(got, exact)


@given(convolutions(), threads)
def test_convolutions_of_images_whose_pixels_lie_apart(arguments, count):
    """The input gradient of a convolution with a stride."""
    windows, _, p, q, e, e_grid, q_grid = arguments
    spans = [d * (k - 1) for d, k in zip(windows.dilation, windows.kernel, strict=True)]
    padding = tuple(span - n for span, n in zip(spans, windows.padding, strict=True))
    turned = Windows(windows.output, windows.kernel, (1, 1), padding, windows.dilation, windows.size, windows.stride)
    q_grid, e_grid = (Grid(grid.scale[:1], grid.zero[:1], grid.offset) for grid in (q_grid, e_grid))
    kernel = q.flip(2, 3).transpose(0, 1)
    got, expected = both(lambda: convolve(turned, e, pixel_sums(e), kernel, e_grid, q_grid), count, parallel=1)
    assert_same(got, expected)
    errors = values(e.view(torch.uint8), e_grid).permute(0, 3, 1, 2)
    shape = len(p), p.shape[3], *windows.size
    exact = torch.nn.grad.conv2d_input(
        shape, values(q, q_grid), errors, windows.stride, windows.padding, windows.dilation
    )
    assert_near(got, exact)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolutions_of_large_images(stride):
    """An image is laid out in several bands, the last of them short."""
    size, output = (61, 90), tuple(1 + (n - 1) // stride for n in (61, 90))
    windows = Windows(size, (3, 3), (stride, stride), (1, 1), (1, 1), output)
    generator = torch.Generator().manual_seed(0)
    p, e, q = (
        torch.randint(0, 128, shape, generator=generator).to(torch.int8)
        for shape in ((3, *size, 40), (3, *output, 24), (24, 40, 3, 3))
    )
    grid = Grid(torch.full((1,), 0.3), torch.full((1,), -2.0), 0)
    for count in (1, 2):
        assert_same(*both(lambda: convolve(windows, p, pixel_sums(p), q, grid, grid), count))
        assert_same(*both(lambda: correlate(windows, e, p, torch.ones(3, 24), torch.ones(3, 24), 64, 64), count))


@pytest.mark.parametrize(
    ("size", "channels"), [((8, 8), (20, 40)), ((4, 5), (16, 64)), ((2, 2), (33, 70)), ((9, 40), (3, 16))]
)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_kernel_gradients_of_many_small_images(size, channels, stride):
    """Several images are laid out together; the last of them, and the last group, are fewer."""
    output = tuple(1 + (n - 1) // stride for n in size)
    windows = Windows(size, (3, 3), (stride, stride), (1, 1), (1, 1), output)
    generator = torch.Generator().manual_seed(stride)
    p, e = (
        torch.randint(0, 256, (70, *place, count), generator=generator).to(torch.uint8).view(torch.int8)
        for place, count in zip((size, output), channels, strict=True)
    )
    scale, middle = torch.randn(2, 70, channels[1], generator=generator)
    for count, p_middle in itertools.product((1, 2), (0, 128)):
        assert_same(*both(lambda: correlate(windows, e, p, scale, middle, 128, p_middle), count, parallel=1))  # noqa: B023


def test_a_kernel_gradient_of_many_images_with_large_sums():
    """Several groups of images, with the largest sums that 32 bits hold."""
    p = torch.zeros(70, 256, 257, 1, dtype=torch.int8)
    windows = Windows((256, 257), (1, 1), (1, 1), (0, 0), (1, 1), (256, 257))
    numbers = torch.ones(2, 70, 1)
    for e, p_middle in itertools.product((p, p - 1), (0, 128)):  # the codes 0 and 255
        image = p if p_middle else p - 1
        for got in both(lambda: correlate(windows, e, image, *numbers, 128, p_middle)):  # noqa: B023
            exact = p.numel() * (-128.0 if p_middle else 255.0) * (int(e[0, 0, 0, 0]) % 256 - 128 + 1)
            assert got.item() == pytest.approx(exact, rel=1e-6)


# ------------------------------------------------------------------------------------------------ the choice


def test_the_choice_of_kernels(monkeypatch):
    try:
        assert native.choose_kernels("reference") == native.current_kernels() == "reference"
        assert not native.supports(torch.zeros(1))
        assert native.choose_kernels("native") == native.current_kernels() == "native"
        monkeypatch.setenv(native.VARIABLE, "reference")
        assert native.choose_kernels() == "reference"
        monkeypatch.setenv(native.VARIABLE, "")
        assert native.choose_kernels() == "native"
        monkeypatch.setenv(native.VARIABLE, "fast")
        with pytest.raises(ValueError, match="BITCYCLE_KERNELS must be native or reference, got 'fast'"):
            native.choose_kernels()
        with pytest.raises(ValueError, match="must be native or reference, got 'c'"):
            native.choose_kernels("c")
        monkeypatch.setattr(native, "_extension", None)
        with pytest.raises(ValueError, match="the native kernels are not installed: install bitcycle again"):
            native.choose_kernels("native")
    finally:
        monkeypatch.undo()
        native.choose_kernels()


@pytest.mark.parametrize(
    "name", [name for name in dir(native._extension) if name.islower() and not name.startswith("_")]
)
def test_wrong_arguments_of_the_extension_are_refused(name):
    function = getattr(native._extension, name)
    with pytest.raises(TypeError, match="expected .* integers, got 0") as refusal:
        function()
    count = int(str(refusal.value).split()[1])
    with pytest.raises(TypeError, match="integer"):
        function(*["x"] * count)
    with pytest.raises(OverflowError):
        function(*[2**70] * count)
