"""Simulated and integer execution compute the same function, to 1e-5 of the largest value, noise included."""

import copy
import itertools
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import execution, integer_convolution, integer_linear
from bitcycle.arithmetic.execution import Execution, Means, Reason
from bitcycle.arithmetic.operands import Operand
from bitcycle.arithmetic.products import ConvolutionProduct
from bitcycle.conversion.sites import sites
from bitcycle.kernels import native
from bitcycle.kernels.images import Windows
from tests.arithmetic.executions import assert_agree, assert_close, executed, magnitudes, run
from tests.kernels.layouts import DEFAULTS, default, in_layout
from tests.nn.cases import CASES
from tests.nn.reference import Plain, grid

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn as pyg
    from transformers.pytorch_utils import Conv1D

pytestmark = [
    pytest.mark.skipif(not execution.integers_are_right(), reason="torch._int_mm is wrong on this machine"),
    pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning"),
]
WHOLE = Means(None, None, None)
TENSOR = bc.Recipe(weights="tensor", activations="tensor")
granularities = st.sampled_from(["tensor", "channel", "row"])


@pytest.fixture(scope="module", autouse=True, params=native.CHOICES)
def kernels(request):
    """Integer execution computes the same over both kernels."""
    if request.param == "native" and native._extension is None:
        pytest.skip("the native kernels are not installed: bitcycle was installed without a C compiler")
    native.choose_kernels(request.param)
    yield request.param
    native.choose_kernels()


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build()


VALUES = {
    "ordinary": lambda x: x,
    "positive": lambda x: x.relu(),
    "far from zero": lambda x: x * 0.1 + 10,
    "small": lambda x: x * 1e-12,
    "constant": lambda x: torch.full_like(x, 0.7),
    "zero": torch.zeros_like,
}
recipes = st.builds(
    bc.Recipe,
    weights=granularities,
    activations=granularities,
    gradients=st.sampled_from(["stochastic", "nearest"]),
    fold_scales=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 3),
)
widths = st.integers(1, 8)
backward_widths = st.integers(1, 8) | st.sampled_from([9, 16, None])


# -------------------------------------------------------------------------------------------- linear layers


@settings(max_examples=2 * settings.default.max_examples)
@given(
    shape=st.lists(st.integers(1, 5), max_size=2),
    features=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    bias=st.booleans(),
    values=st.sampled_from(sorted(VALUES)),
    layout=st.sampled_from(["contiguous", "sliced", "strided", "permuted", "expanded", "offset"]),
    recipe=recipes,
    forward=widths,
    backward=backward_widths,
    seed=st.integers(0, 2**16),
)
def test_linear(shape, features, bias, values, layout, recipe, forward, backward, seed):
    layer = seeded(lambda: nn.Linear(*features, bias=bias), seed)
    x = VALUES[values](randn(*shape, features[0], seed=seed))
    x = in_layout(x, layout, list(reversed(range(x.dim()))))
    means = assert_agree(layer, (x,), recipe, forward, backward, magnitudes=magnitudes(layer, (x,)))[""]
    assert means.output is (Reason.GRANULARITY if recipe.activations == "channel" and x.dim() > 1 else None)
    if means.output is None and (recipe.fold_scales or recipe.weights == recipe.activations == "tensor"):
        assert means == WHOLE


@pytest.mark.parametrize("forward", [9, 16, None])
@pytest.mark.parametrize("backward", [3, None])
def test_wide_and_full_precision_forward(forward, backward):
    layer = seeded(lambda: nn.Linear(9, 7))
    means = assert_agree(layer, (randn(5, 9),), TENSOR, forward, backward)[""]
    if (forward, backward) != (None, None):
        assert means == Means.simulated(Reason.WIDTH if forward else Reason.FULL_PRECISION)


LINEAR_LAYERS = {
    "Conv1D of transformers": (lambda: Conv1D(7, 5), (2, 3, 5)),
    "Linear of PyG": (lambda: pyg.Linear(5, 7), (6, 5)),
    "attention": (lambda: nn.MultiheadAttention(12, 3, batch_first=True), (2, 5, 12)),
    "attention, other dimensions": (lambda: nn.MultiheadAttention(12, 3, kdim=12, vdim=12), (5, 2, 12)),
    "LSTM": (lambda: nn.LSTM(5, 7), (4, 3, 5)),
    "GRU cell": (lambda: nn.GRUCell(5, 7), (3, 5)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(12, 3, 17, dropout=0.0, batch_first=True), (2, 5, 12)),
}


@pytest.mark.parametrize("name", LINEAR_LAYERS)
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("recipe", [TENSOR, bc.Recipe(), bc.Recipe(activations="row", features="row")], ids=str)
def test_what_is_a_linear_layer(name, fold, recipe):
    """Each site by itself: what one site rounds would otherwise depend on the last bits of another."""
    build, shape = LINEAR_LAYERS[name]
    layer, x = seeded(build), randn(*shape)
    inputs = (x, x.flip(0), x.flip(1)) if isinstance(layer, nn.MultiheadAttention) else (x,)
    recipe = bc.Recipe(**{**vars(recipe), "fold_scales": fold})
    names = list(sites(bc.quantize(copy.deepcopy(layer), recipe)))
    computed = set()
    for site in names:
        results = []
        for execute in ("simulated", "integer"):
            converted = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
            bc.set_bits(converted, forward=6, backward=7, where=site or None)
            outputs, gradients = run(converted, inputs)
            results.append([*outputs, *gradients])
        assert_close(*reversed(results))
        computed.add(sites(converted)[site].means)
    assert Means(None, None, None) in computed or not fold or name in ("LSTM", "GRU cell")


def test_sums_that_leave_32_bits_are_split(monkeypatch):
    """As if 32 bits could hold five terms only."""
    x = randn(3, 4, 13)
    layer = seeded(lambda: nn.Linear(13, 11))
    whole, _ = executed(layer, (x,), TENSOR, 8, 8, "integer")
    for module in (integer_linear, integer_convolution):
        monkeypatch.setattr(module, "MOST_TERMS", 5)
    for recipe in (TENSOR, bc.Recipe(activations="row", fold_scales=True)):
        assert_agree(layer, (x,), recipe, 8, 8)
    split, _ = executed(layer, (x,), TENSOR, 8, 8, "integer")
    assert_close(split, whole)
    convolution = seeded(lambda: nn.Conv2d(1, 3, 2, padding=1))
    images = randn(7, 1, 1, 1)
    means = assert_agree(convolution, (images,), TENSOR, 8, 8)[""]
    assert means.weight_gradient is None  # four positions a window: an image at a time
    wide = seeded(lambda: nn.Conv2d(2, 3, 2))
    assert assert_agree(wide, (randn(2, 2, 4, 4),), TENSOR, 8, 8)[""] == Means.simulated(Reason.GEOMETRY)


def test_no_sum_of_the_most_terms_leaves_32_bits():
    assert integer_linear.MOST_TERMS * 128 * 128 < 2**31
    p = torch.full((1, integer_linear.MOST_TERMS), -128, dtype=torch.int8)
    assert int(integer_linear.multiply_codes(p, p.t())) == integer_linear.MOST_TERMS * 2**14


def test_products_of_codes_of_any_size():
    """Also with one row, column or term, for which torch misreads the strides of a transposed matrix."""
    generator = torch.Generator().manual_seed(0)
    for rows, terms, columns in itertools.product((1, 2, 3, 17), repeat=3):
        p = torch.randint(-128, 128, (rows, terms), generator=generator, dtype=torch.int8)
        q = torch.randint(-128, 128, (terms, columns), generator=generator, dtype=torch.int8)
        expected = (p.double() @ q.double()).int()
        for first in (p, p.t().contiguous().t()):
            for second in (q, q.t().contiguous().t()):
                assert torch.equal(integer_linear.multiply_codes(first, second), expected)


# --------------------------------------------------------------------------------------------- convolutions

sides = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=2 * settings.default.max_examples)
@given(
    images=st.integers(1, 3),
    channels=st.tuples(st.sampled_from([1, 2, 4, 16, 18]), st.sampled_from([1, 2, 4, 6, 16])),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=sides,
    stride=sides,
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    dilation=sides,
    grouped=st.booleans(),
    bias=st.booleans(),
    values=st.sampled_from(sorted(VALUES)),
    channels_last=st.booleans(),
    recipe=recipes,
    forward=widths,
    backward=backward_widths,
    seed=st.integers(0, 2**16),
)
def test_convolution(
    images, channels, size, kernel, stride, padding, dilation, grouped, bias, values, channels_last, recipe, forward,
    backward, seed,
):  # fmt: skip
    """Every geometry, also padding beyond the kernel and beyond the image."""
    sides = list(zip(size, kernel, padding, dilation, strict=True))
    assume(all(n + 2 * p > d * (k - 1) for n, k, p, d in sides))
    beyond = any(p > d * (k - 1) for _, k, p, d in sides)
    groups = 2 if grouped and channels[0] % 2 == channels[1] % 2 == 0 else 1
    build = lambda: nn.Conv2d(*channels, kernel, stride, padding, dilation, groups, bias)  # noqa: E731
    layer = seeded(build, seed)
    x = VALUES[values](randn(images, channels[0], *size, seed=seed))
    # torch itself can crash on windows of padding alone with the channels last.
    x = in_layout(x, "channels last" if channels_last and not beyond else "contiguous")
    means = assert_agree(layer, (x,), recipe, forward, backward, magnitudes=magnitudes(layer, (x,)))[""]
    windows = Windows(size, kernel, stride, padding, dilation)
    if beyond or groups > 1:
        assert means == Means.simulated(Reason.GEOMETRY)
    elif recipe.activations == recipe.weights == "tensor":
        wrong = integer_convolution.is_miscomputed(windows, channels[0])
        assert means == (Means.simulated(Reason.GEOMETRY) if wrong else WHOLE)


ONE_COLUMN = {
    "one channel": (1, (3, 2), 2, (1, 2), 0),
    "one channel, with padding": (1, (4, 1), 3, (1, 2), 1),
    "a kernel of half a vector, as wide as the image": (32, (5, 4), (2, 4), (3, 4), 0),
    "a narrow kernel with a large stride": (16, (8, 8), 8, 16, 0),
}


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_geometries_that_onednn_gets_wrong_are_simulated(name):
    channels, size, kernel, stride, padding = ONE_COLUMN[name]
    layer = seeded(lambda: nn.Conv2d(channels, 64, kernel, stride, padding))
    assert assert_agree(layer, (randn(3, channels, *size),), TENSOR, 8, 8)[""] == Means.simulated(Reason.GEOMETRY)


@settings(max_examples=4 * settings.default.max_examples)
@given(
    images=st.integers(1, 3),
    channels=st.tuples(st.sampled_from([1, 2, 3, 4, 16, 32, 40, 64]), st.sampled_from([1, 8, 16, 24, 64])),
    kernel=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 8])),
    stride=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 8, 16])),
    padding=st.integers(0, 1),
    output=st.tuples(st.integers(1, 5), st.integers(1, 2)),
    further=st.integers(0, 15),
    seed=st.integers(0, 2**16),
)
def test_outputs_of_few_columns_are_right(images, channels, kernel, stride, padding, output, further, seed):
    """All geometries of this kind but those: oneDNN rearranges many of them."""
    rows, columns = ((n - 1) * s + k for n, s, k in zip(output, stride, kernel, strict=True))
    size = rows, columns - 2 * padding + further % stride[1]
    windows = Windows(size, kernel, stride, (0, padding), (1, 1))
    assume(padding < kernel[1] and size[1] > 0 and not integer_convolution.is_miscomputed(windows, channels[0]))
    generator = torch.Generator().manual_seed(seed)
    a, b = (
        torch.randint(0, 16, shape, generator=generator, dtype=torch.int8)
        for shape in ((images, channels[0], *size), (channels[1], channels[0], *kernel))
    )
    product = ConvolutionProduct(windows.stride, windows.padding, windows.dilation, 1)
    one, zero = torch.ones(()), torch.zeros(())
    sums = a.sum(1, dtype=torch.int32)
    operands = (
        Operand(a.contiguous(memory_format=torch.channels_last), one, zero, 4, 0, torch.float32, pixel_sums=sums),
        Operand(b, one, zero, 4, 0, torch.float32),
    )
    got = integer_convolution.output(product, *operands, None)
    assert torch.equal(got.double(), product.output(a.double(), b.double(), None))


def test_what_is_kept_for_a_geometry_is_small():
    """A number for each position of the output, and little else: images of many sizes fill no memory."""
    integer_convolution._taps.cache_clear()
    layer = bc.quantize(nn.Conv2d(16, 16, 3, padding=1), TENSOR, execute="integer")
    bc.set_bits(layer, forward=8, backward=8)
    layer(randn(1, 16, 64, 64)).sum().backward()
    taps = integer_convolution._taps(Windows((64, 64), (3, 3), (1, 1), (1, 1), (1, 1)), (1, 1))
    assert integer_convolution._taps.cache_info().hits >= 1
    kept = [part for value in vars(taps).values() for part in (value if isinstance(value, tuple) else (value,))]
    assert sum(part.nbytes for part in kept if torch.is_tensor(part)) < 2 * 4 * 64 * 64


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("of_weight", [False, True])
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_the_memory_layout_of_a_convolution_is_that_of_torch(channels_last, of_weight, execute):
    x = in_layout(randn(2, 16, 6, 6), "channels last" if channels_last else "contiguous").requires_grad_()
    layer = nn.Conv2d(16, 8, 3, padding=1)
    if of_weight:
        layer = layer.to(memory_format=torch.channels_last)
    expected = layer(x)
    bc.quantize(layer, TENSOR, execute=execute)
    bc.set_bits(layer, forward=4, backward=4)
    out = layer(x)
    assert out.stride() == expected.stride()
    out.sum().backward()
    assert x.grad.stride() == x.stride()


@pytest.mark.parametrize("padding", [0, 1])
def test_long_sums_of_a_convolution(padding):
    """As in the last blocks of a ResNet: 4608 terms, with sums beyond 24 bits."""
    layer = seeded(lambda: nn.Conv2d(512, 16, 3, padding=padding))
    x = randn(2, 512, 4, 4).relu()
    assert assert_agree(layer, (x,), TENSOR, 8, 8)[""] == WHOLE


def test_a_kernel_gradient_whose_codes_are_all_large():
    """More terms than 32 bits hold, if the codes of all images were summed at once."""
    x = torch.ones(40, 1, 64, 64)
    x[0, 0, 0, 0] = 0
    layer = bc.quantize(nn.Conv2d(1, 1, 1, bias=False), TENSOR, execute="integer")
    bc.set_bits(layer, forward=7, backward=8)
    grad_output = x.clone()
    layer(x).backward(grad_output)
    assert layer.weight.grad.item() == pytest.approx(x.numel() - 1)


@pytest.mark.parametrize("kernel", [1, 2])
def test_an_input_gradient_over_more_output_channels_than_32_bits_hold(kernel):
    channels = integer_convolution.MOST_TERMS // kernel**2 + 2000
    layer = nn.Conv2d(1, channels, kernel, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1).view(-1)[0] = 0
    bc.quantize(layer, TENSOR, execute="integer")
    bc.set_bits(layer, forward=8, backward=8)
    x = torch.ones(1, 1, kernel, kernel, requires_grad=True)
    out = layer(x)
    grad_output = torch.ones_like(out)
    grad_output.view(-1)[0] = 0
    out.backward(grad_output)
    torch.testing.assert_close(x.grad, torch.full_like(x, channels - 1))
    assert sites(layer)[""].means == Means(None, Reason.GEOMETRY, None)


def test_the_sums_over_images_of_a_bias_gradient_stay_within_32_bits(monkeypatch):
    assert integer_convolution.MOST_CODES * 255 < 2**31
    monkeypatch.setattr(integer_convolution, "MOST_CODES", 2)
    layer = seeded(lambda: nn.Conv2d(1, 3, 2))
    assert assert_agree(layer, (randn(2, 1, 3, 3),), TENSOR, 8, 8)[""] == WHOLE
    assert assert_agree(layer, (randn(3, 1, 3, 3),), TENSOR, 8, 8)[""] == Means.simulated(Reason.GEOMETRY)


@pytest.mark.parametrize("build", [lambda: nn.Conv1d(4, 6, 3), lambda: nn.ConvTranspose2d(4, 6, 3)])
def test_other_convolutions_are_simulated(build):
    layer = seeded(build)
    x = randn(2, 4, 6) if isinstance(layer, nn.Conv1d) else randn(2, 4, 6, 6)
    assert assert_agree(layer, (x,), TENSOR, 8, 8)[""] == Means.simulated(Reason.GEOMETRY)


# ------------------------------------------------------------------------------- values and types at borders

LAYERS = {
    "linear": (lambda: nn.Linear(6, 5), lambda: randn(4, 6)),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, padding=1), lambda: randn(2, 3, 5, 5)),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def built(name):
    build, inputs = LAYERS[name]
    return seeded(build), inputs()


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
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_bias_of_another_type_is_refused_by_torch(name, dtype):
    layer, x = built(name)
    layer.bias.data = layer.bias.data.to(dtype)
    messages = set()
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), execute=execute)
        bc.set_bits(converted, forward=4, backward=4)
        with pytest.raises(RuntimeError) as refusal:
            converted(x)
        messages.add(str(refusal.value))
    assert len(messages) == 1


@every_layer
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("value", DEFAULTS, ids=str)
def test_the_defaults_of_torch_do_not_matter(name, execute, value):
    layer, x = built(name)
    grad_output = torch.randn_like(layer(x))

    def step():
        for cached in (integer_convolution._taps, integer_convolution._ones_and_zeros):
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
    assert_agree(layer, (x,), bc.Recipe(fold_scales=True), 4, 4)


@every_layer
@pytest.mark.parametrize("fold", [False, True])
def test_a_constant_grad_output(name, fold):
    """That of a mean. It is small beside the offset of its codes."""
    layer, x = built(name)
    results = []
    for execute in ("simulated", "integer"):
        converted = bc.quantize(copy.deepcopy(layer), bc.Recipe(fold_scales=fold), execute=execute)
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
    bc.quantize(layer, bc.Recipe(activations="row", gradients="nearest", fold_scales=True), execute=execute)
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
@pytest.mark.parametrize("fold", [False, True])
def test_an_empty_batch(name, fold):
    layer, x = built(name)
    recipe = bc.Recipe(fold_scales=fold)
    assert assert_agree(layer, (x[:0],), recipe, 4, 4)[""] == Means.simulated(Reason.EMPTY)


@every_layer
def test_double_precision_is_simulated(name):
    layer, x = built(name)
    results = [executed(layer.double(), (x.double(),), TENSOR, 4, 4, how) for how in ("simulated", "integer")]
    assert results[1][1][""] == Means.simulated(Reason.DTYPE)
    assert all(torch.equal(a, b) for a, b in zip(results[0][0], results[1][0], strict=True))


@every_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_simulated(name, dtype):
    layer, x = built(name)
    with torch.autocast("cpu", dtype):
        results = [executed(layer, (x,), TENSOR, 4, 4, how) for how in ("simulated", "integer")]
    assert results[1][1][""] == Means.simulated(Reason.AUTOCAST)
    assert all(torch.equal(a, b) for a, b in zip(results[0][0], results[1][0], strict=True))


@every_layer
@pytest.mark.parametrize(
    "needed", [(True, False, False), (False, True, False), (False, False, True), (True, True, False)]
)
@pytest.mark.parametrize("fold", [False, True])
def test_any_part_of_the_gradients(name, needed, fold):
    """Those of input, weight and bias, as far as they are needed."""
    layer, x = built(name)
    results = []
    for execute in ("simulated", "integer"):
        converted = bc.quantize(
            copy.deepcopy(layer), bc.Recipe(activations="tensor", fold_scales=fold), execute=execute
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


@every_layer
def test_evaluation_computes_the_same(name):
    layer, x = built(name)
    converted = bc.quantize(layer, TENSOR, execute="integer")
    bc.set_bits(converted, forward=4)
    converted.eval()
    expected = converted(x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(converted(x), expected)
            assert sites(converted)[""].means.output is None


@every_layer
def test_stochastic_gradients_repeat_and_follow_the_step(name):
    """The noise of integer execution is a function of the step and the draw, as that of simulated execution."""
    layer, x = built(name)
    bc.quantize(layer, TENSOR, execute="integer")
    bc.set_bits(layer, forward=4, backward=2)

    def gradient(step):
        sites(layer)[""].begin_step(step)
        return run(layer, (x,))[1][1].clone()

    assert torch.equal(gradient(3), gradient(3))
    assert not torch.equal(gradient(3), gradient(4))


# --------------------------------------------------------------------------------------------- folded scales


def folded(layer, x, forward, backward):
    """The formula of folding.py for a linear layer, or a convolution with a weight per channel, in double precision.

    Grids are those of rows of the input and of output channels; grad_output is rounded to nearest.
    """
    is_linear = isinstance(layer, nn.Linear)
    x, w = x.double(), layer.weight.detach().double()
    w_axes = tuple(range(1, w.dim()))
    levels = 2**forward - 1

    def parts(t, axes):
        scale = (t.amax(axes, keepdim=True) - t.amin(axes, keepdim=True)) / levels
        middle = t.amin(axes, keepdim=True) + scale * 2.0 ** (forward - 1)
        return scale, middle, (grid(t, forward, axes) - middle) / scale

    w_scale, w_middle, w_unit = parts(w, w_axes)
    multiply = F.linear if is_linear else lambda a, b: F.conv2d(a, b, None, layer.stride, layer.padding, layer.dilation)
    x_on_grid = grid(x, forward, (-1,)) if is_linear else grid(x, forward)
    out = multiply(x_on_grid, grid(w, forward, w_axes))
    grad_output = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view(out.shape) ** 3

    # Input gradient: (E_n s_n) is rounded; the sum with the middles is exact.
    by_channel = (1, -1) if is_linear else (1, -1, 1, 1)
    folded_in = grid(grad_output * w_scale.view(by_channel), backward)
    probe = x.clone().requires_grad_()
    grad_x = torch.autograd.grad(multiply(probe, w_unit), probe, folded_in)[0]
    grad_x += torch.autograd.grad(multiply(probe, w_middle.expand_as(w)), probe, grad_output)[0]
    # Weight gradient: the same with the scales of rows; without them grad_output is rounded as it is.
    probe = w.clone().requires_grad_()
    if is_linear:
        x_scale, x_middle, x_unit = parts(x, (-1,))
        folded_out = grid(grad_output * x_scale, backward)
        grad_w = torch.autograd.grad(multiply(x_unit, probe), probe, folded_out)[0]
        grad_w += torch.autograd.grad(multiply(x_middle.expand_as(x), probe), probe, grad_output)[0]
    else:
        grad_w = torch.autograd.grad(multiply(x_on_grid, probe), probe, grid(grad_output, backward))[0]
    return out, grad_output, grad_x, grad_w


FOLDED = {
    "linear": (lambda: nn.Linear(9, 7, bias=False), lambda: randn(5, 9)),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, padding=1, bias=False), lambda: randn(2, 3, 6, 5)),
    "strided convolution": (
        lambda: nn.Conv2d(3, 5, (3, 2), (2, 3), (2, 1), (1, 2), bias=False),
        lambda: randn(2, 3, 6, 7),
    ),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("bits", [(8, 8), (3, 4), (1, 1), (8, 12)])
def test_folded_scales_are_those_of_the_formula(name, execute, bits):
    layer, x = (seeded(make) for make in FOLDED[name])  # by chance, a number may lie between two values of its grid
    out, grad_output, grad_x, grad_w = folded(layer, x, *bits)
    activations = "row" if name == "linear" else "tensor"
    recipe = bc.Recipe(activations=activations, gradients="nearest", fold_scales=True)
    bc.quantize(layer, recipe, execute=execute)
    bc.set_bits(layer, forward=bits[0], backward=bits[1])
    x.requires_grad_()
    got = layer(x)
    got.backward(grad_output.float())
    assert_close([got.detach(), x.grad, layer.weight.grad], [t.float() for t in (out, grad_x, grad_w)])


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_folded_scales_are_right_in_the_mean(name, execute):
    """The mean over 400 draws is the gradient for the unrounded grad_output, within five standard errors.

    The false-alarm probability is 6e-7 a number, thus below 1e-4 over all of them.
    """
    layer, x = (seeded(make) for make in FOLDED[name])
    activations = "row" if name == "linear" else "tensor"
    bc.quantize(layer, bc.Recipe(activations=activations, fold_scales=True), execute=execute)
    bc.set_bits(layer, forward=4, backward=None)
    expected = run(layer, (x,))[1]
    bc.set_bits(layer, forward=4, backward=3)
    draws = [[g.clone() for g in run(layer, (x,))[1]] for _ in range(400)]
    for position, wanted in enumerate(expected):
        drawn = torch.stack([gradients[position] for gradients in draws]).double()
        error = drawn.std(0) / 400**0.5
        assert ((drawn.mean(0) - wanted.double()).abs() <= 5 * error + 1e-5 * wanted.abs().max()).all()
        assert (drawn.std(0) > 0).any()


def test_folding_changes_nothing_where_there_is_one_scale():
    layer, x = built("linear")
    plain, _ = executed(layer, (x,), TENSOR, 4, 4, "simulated")
    recipe = bc.Recipe(weights="tensor", activations="tensor", fold_scales=True)
    folding, _ = executed(layer, (x,), recipe, 4, 4, "simulated")
    assert all(torch.equal(a, b) for a, b in zip(plain, folding, strict=True))


# ------------------------------------------------------------------------------------------ compiled graphs


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


# ------------------------------------------------------------------------------------------------ the choice


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


def test_the_machine_is_asked_once(monkeypatch):
    """Both answers are cached: neither another conversion nor a training step multiplies to find out."""
    execution.integers_are_right()
    execution.integers_are_fast()
    calls = []
    real = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda *a: calls.append(1) or real(*a))
    for execute in ("auto", "integer", "fastest"):
        bc.quantize(nn.Linear(2, 2), execute=execute)
    assert not calls
    assert execution.integers_are_right.cache_info().misses == execution.integers_are_fast.cache_info().misses == 1


def test_asking_the_machine_takes_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    execution.integers_are_right.__wrapped__()
    execution.integers_are_fast.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)


def test_small_products_are_simulated_where_speed_is_asked():
    """The bounds of the sizes: below them integers are not faster."""
    if native.current_kernels() == "reference":
        pytest.skip("without native kernels, integers are not faster")
    linear = seeded(lambda: nn.Linear(64, 64, bias=False))
    rows = integer_linear.SMALLEST_FASTER // 64**2
    channels = max(integer_convolution.FEWEST_CHANNELS, 32)
    convolution = seeded(lambda: nn.Conv2d(channels, 64, 3, padding=1))
    images = -(-integer_convolution.SMALLEST_FASTER // (64 * convolution.weight.numel()))
    for layer, small, large in (
        (linear, randn(rows - 1, 64), randn(rows, 64)),
        (convolution, randn(images - 1, channels, 8, 8), randn(images, channels, 8, 8)),
    ):
        for x, expected in ((small, Means.simulated(Reason.SMALL)), (large, WHOLE)):
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


# --------------------------------------------------------------------------------- the contract of the layers


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
