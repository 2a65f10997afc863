"""The native kernels are equal to the torch reference, bit for bit, and both to a plain computation with numpy."""

import itertools
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bitcycle.kernels import native
from bitcycle.kernels.float_rounding import E4M3, Scaling, round_to_format
from bitcycle.kernels.images import Windows, encode_images, to_channels_last, to_contiguous
from bitcycle.kernels.integer_sums import MAX_TERMS, Grid, column_sums, combine, multiply
from bitcycle.kernels.noise import noise_of
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes, round_to_grid
from tests.kernels.layouts import DEFAULTS, LAYOUTS, default, in_layout
from tests.kernels.uniform_noise import hashed, uniform

pytestmark = pytest.mark.skipif(
    native._extension is None,
    reason="the native kernels are not installed: bitcycle was installed without a C compiler",
)


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
        assert got.codes is got.values
        assert_same_grid(got.scale, expected.scale)
        assert_same_grid(got.zero, expected.zero)


@st.composite
def tensors_with_factors(draw):
    """A matrix or batch of matrices, or images: in bfloat16 or with factors, which dimensions share a grid."""
    shape = draw(st.sampled_from([(5, 67), (3, 40, 7), (2, 3, 9, 1100), (3, 17, 5, 4), (2, 1100, 3, 2)]))
    x = draw(tensors(shapes=st.just(shape)))
    x = x.bfloat16() if draw(st.booleans()) else x
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    if draw(st.booleans()) and len(shape) == 4:
        factors = draw(st.sampled_from([(shape[0], 1, 1, 1), (1, shape[1], 1, 1)]))
    else:
        factors = draw(st.sampled_from([(*shape[:-1], 1), (shape[-1],), (*shape[:-2], 1, shape[-1])]))
    drawn = None if x.dtype is torch.bfloat16 and draw(st.booleans()) else torch.randn(factors, generator=generator)
    dims = draw(st.sampled_from([None, (-1,), (-2,), tuple(range(len(shape) - 1)), (1, 2, 3), (0, 2, 3)]))
    return x, drawn, None if dims and len(dims) > len(shape) - 1 else dims


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


@pytest.mark.parametrize("value", DEFAULTS, ids=str)
@pytest.mark.parametrize("kernels", native.CHOICES)
def test_no_kernel_depends_on_the_defaults_of_torch(value, kernels):
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    codes = (x * 40).to(torch.int8)
    grid, one = Grid(torch.rand(1) + 0.1, torch.rand(1), 8), torch.ones(1, dtype=torch.int32)
    windows = Windows((4, 5), (3, 3), (1, 1), (1, 1), (1, 1))

    def compute():
        results = [uniform(x, 1, 2), *encode_images(x, 5)]
        for laid_out in (x, in_layout(x, "channels last")):
            results += [to_channels_last(laid_out), to_contiguous(laid_out)]
            for dims in (None, (1, 2, 3), (1,)):
                encoded = encode(laid_out, 5, dims)
                results += [*encoded, decode(encoded.codes, encoded.scale, encoded.zero, torch.float32)]
        matrix = codes.view(6, 20)
        sums, by_row = matrix.int(), matrix.sum(1, dtype=torch.int32)
        for pixels in (0, 3):
            results.append(combine(sums.clone(), grid, grid, by_row, column_sums(matrix), one, pixels=pixels))
        pixel_sums = codes.sum(1, dtype=torch.int32)
        return [*results, windows.unfold(in_layout(codes, "channels last")), windows.sums(pixel_sums)]

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
    grid, sums, one = Grid(torch.ones(1), torch.ones(1), 0), torch.ones(3, 6, dtype=torch.int32), torch.ones(1).int()
    for view in (x, y):
        assert view.is_neg()
    functions = [
        lambda x, y: round_to_grid(x, 4),
        lambda x, y: round_to_grid(y, 4, (0,), (1, 2)),
        lambda x, y: encode_in_bytes(y, 4).codes,
        lambda x, y: encode_images(x, 4).codes,
        lambda x, y: decode(torch.ones(6, dtype=torch.int8), y, y, torch.float32),
        lambda x, y: round_to_format(y, E4M3, Scaling.TO_LARGEST),
        lambda x, y: to_channels_last(x),
        lambda x, y: to_contiguous(x.permute(0, 3, 1, 2)),
        lambda x, y: combine(sums.clone(), grid, grid, sums[:, 0].contiguous(), sums[:1], one, y),
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
        for dims in (None, (1, 2, 3), (0, 2, 3), (3,), (0,)):
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

sizes = st.integers(0, 40) | st.sampled_from([16, 32, 64, 65, 127, 128, 300])


@given(sizes, sizes, st.sampled_from([torch.int8, torch.uint8]), st.booleans(), threads, st.integers(0, 2**20))
def test_sums_of_columns(rows, columns, dtype, transposed, count, seed):
    low = 0 if dtype is torch.uint8 else -128
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(low, low + 256, (rows, columns), generator=generator).to(dtype)
    codes = codes.t() if transposed else codes
    got, expected = both(lambda: column_sums(codes), count, parallel=1)
    assert_same(got, expected)
    assert (got.numpy() == codes.numpy().astype(np.int64).sum(0)).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_long_sums_of_the_largest_codes(dtype):
    codes = torch.full((200_001, 2), -128 if dtype is torch.int8 else 255, dtype=dtype)
    assert_same(*both(lambda: column_sums(codes), 2))


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


@st.composite
def combinations(draw):
    """The arguments of ``combine`` for random sums of codes: of one kind of row, or of images with several."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    images, pixels = draw(st.integers(1, 4)), draw(st.integers(1, 37) | st.sampled_from([64, 256, 261]))
    columns = draw(st.integers(1, 37) | st.sampled_from([64, 130]))
    kinds = draw(st.integers(1, min(pixels, 5)))
    rows = images * pixels

    def integers(*shape, most=2**31 - 1):
        return torch.randint(-most - 1, most + 1, shape, generator=generator).to(torch.int32)

    def grid(count):
        offset = draw(st.sampled_from([0, 1, 8, 128]))
        return Grid(torch.rand(count, generator=generator) + 0.01, torch.randn(count, generator=generator), offset)

    sums = integers(rows, columns) if draw(st.booleans()) else integers(rows, columns, most=2**20).float()
    return {
        "sums": sums,
        "p": grid(draw(st.sampled_from([1, rows]))),
        "q": grid(draw(st.sampled_from([1, columns]))),
        "by_row": integers(rows, most=2**24),
        "by_column": integers(kinds, columns, most=2**24),
        "terms": integers(kinds, most=2**17).abs(),
        "bias": torch.randn(columns, generator=generator) if draw(st.booleans()) else None,
        "row_bias": torch.randn(rows, generator=generator) if draw(st.booleans()) else None,
        "kinds": None if kinds == 1 else torch.randint(0, kinds, (pixels,), generator=generator).to(torch.int32),
        "pixels": pixels if draw(st.booleans()) else 0,
    }


@settings(max_examples=2 * settings.default.max_examples)
@given(combinations(), threads)
def test_combination_of_sums(arguments, count):
    def compute():
        return combine(**{**arguments, "sums": arguments["sums"].clone()})

    got, expected = both(compute, count, parallel=1)
    assert_same(got, expected)
    assert got.is_contiguous()
    exact = plain_combination(**arguments)
    largest = exact.abs().max()
    torch.testing.assert_close(got.double(), exact, rtol=0, atol=2e-6 * float(largest))


def plain_combination(sums, p, q, by_row, by_column, terms, bias, row_bias, kinds, pixels):
    """The formula of integer_sums.py in double precision."""
    s_p, s_q = p.scale.double().view(-1, 1), q.scale.double().view(1, -1)
    z_p = p.zero.double().view(-1, 1) + s_p * p.offset
    z_q = q.zero.double().view(1, -1) + s_q * q.offset
    period = 1 if kinds is None else len(kinds)
    kind = torch.zeros(len(sums), dtype=torch.long) if kinds is None else kinds.long().repeat(len(sums) // period)
    c, k = by_column.double()[kind], terms.double()[kind].view(-1, 1)
    out = s_p * s_q * sums.double() + s_p * z_q * by_row.double().view(-1, 1) + z_p * (s_q * c + k * z_q)
    out = out if bias is None else out + bias.double()
    out = out if row_bias is None else out + row_bias.double().view(-1, 1)
    return out.view(-1, pixels, out.shape[1]).transpose(1, 2) if pixels else out


# ---------------------------------------------------------------------------------------------------- images

OF_IMAGES = (None, (1, 2, 3), (0, 2, 3))
"""The dimensions of images that share a grid: one grid, one per image, one per channel."""

image_shapes = st.tuples(
    st.integers(0, 3), st.sampled_from([0, 1, 3, 4, 5, 15, 16, 17, 32, 33]), st.integers(0, 9), st.integers(0, 9)
)
image_types = st.sampled_from([torch.int8, torch.uint8, torch.float32, torch.int32, torch.float64, torch.int16])


@given(image_shapes, image_types, st.sampled_from(LAYOUTS), st.permutations(range(4)), threads, st.integers(0, 2**20))
def test_layouts_of_images(shape, dtype, layout, order, count, seed):
    x = torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    x = in_layout(x, layout, list(order))
    for function, target in ((to_channels_last, torch.channels_last), (to_contiguous, torch.contiguous_format)):
        got, expected = both(lambda f=function: f(x), count, parallel=1)
        assert_same(got, expected)
        assert_same(got, x)
        assert got.is_contiguous(memory_format=target)


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


@pytest.mark.parametrize("channels", [3, 16, 37, 300])
def test_codes_of_large_images(channels):
    """Several strips of pixels, the last of them short, on one and two threads."""
    x = torch.randn(3, channels, 41, 29, generator=torch.Generator().manual_seed(0))
    for layout in ("contiguous", "channels last"):
        for dims, key, count in itertools.product(OF_IMAGES, (None, (5, 6)), (1, 2)):
            got, expected = both(lambda: encode_images(in_layout(x, layout), 8, dims, key), count)  # noqa: B023
            assert_same(got.codes, expected.codes)
            assert_same(got.scale, expected.scale)
            assert_same(got.pixel_sums, expected.pixel_sums)


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
kernel_sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))  # also with spans that are larger than the image


@st.composite
def windows(draw):
    size = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    kernel, stride, dilation = draw(kernel_sizes), draw(pairs), draw(pairs)
    padding = draw(st.integers(0, 6)), draw(st.integers(0, 6))  # also larger than the kernel and than the image
    result = Windows(size, kernel, stride, padding, dilation)
    assume(min(result.output) >= 1)
    return result


@settings(max_examples=2 * settings.default.max_examples)
@given(windows(), st.integers(0, 3), st.sampled_from([1, 3, 16, 17, 40]), threads, st.integers(0, 2**20))
def test_windows(windows, images, channels, count, seed):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(-128, 128, (images, channels, *windows.size), generator=generator, dtype=torch.int8)
    last = codes.contiguous(memory_format=torch.channels_last)
    got, expected = both(lambda: windows.unfold(last), count, parallel=1)
    assert_same(got, expected)
    columns = F.unfold(codes.double(), windows.kernel, windows.dilation, windows.padding, windows.stride)
    rows = columns.unflatten(1, (channels, -1)).permute(0, 3, 2, 1).reshape(got.shape)
    assert (got.double() == rows).all()

    map = torch.randint(-(2**20), 2**20, (images, *windows.size), generator=generator).to(torch.int32)
    got, expected = both(lambda: windows.sums(map), count, parallel=1)
    assert_same(got, expected)
    columns = F.unfold(map.double().unsqueeze(1), windows.kernel, windows.dilation, windows.padding, windows.stride)
    assert (got.double() == columns.sum(1).flatten()).all()


@settings(max_examples=4 * settings.default.max_examples)
@given(windows(), st.integers(1, 2), st.sampled_from([1, 3, 16]))
@example(Windows((1, 1), (5, 5), (1, 1), (2, 2), (1, 1)), 1, 16)
@example(Windows((8, 8), (3, 3), (1, 1), (12, 12), (12, 12)), 2, 16)
def test_windows_are_written_to_their_memory_alone(windows, images, channels):
    """Bytes before and after the matrix stay as they are, and nothing is read beyond the images."""
    guard, (down, across), (rows, columns) = 4096, windows.output, windows.kernel
    count = images * channels * windows.size[0] * windows.size[1]
    codes = torch.full((guard + count + guard,), 99, dtype=torch.int8)
    codes[guard : guard + count] = 1
    written = images * down * across * rows * columns * channels
    out = torch.full((guard + written + guard,), 77, dtype=torch.int8)
    geometry = windows._geometry(channels)
    native._extension.unfold(codes.data_ptr() + guard, out.data_ptr() + guard, images, *geometry, 1)
    before, matrix, after = out.split([guard, written, guard])
    assert (before == 77).all()
    assert (after == 77).all()
    assert ((matrix == 0) | (matrix == 1)).all()


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
