"""Products that a module's own forward computes: each call is a site, with the numerics of any other site."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.skip import Skip, SkipKind
from tests.nn.reference import Plain

pytestmark = pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


class Call(nn.Module):
    """A module whose forward is one function of its inputs and of its weight."""

    def __init__(self, function, *weight):
        super().__init__()
        self.weight = nn.Parameter(randn(*weight)) if weight else None
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs) if self.weight is None else self.function(*inputs, self.weight)


def results(module, inputs, function=None):
    """The output, and the gradients of inputs and parameters."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = (function or module)(*inputs)
    weights = torch.linspace(-1, 2.3, out.numel(), dtype=out.dtype).view(out.shape).sin()
    leaves = [*inputs, *module.parameters()]
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]


def two(p, function, a, b, a_dims=None, b_dims=None):
    return p.site(function(p.operand(a, a_dims), p.operand(b, b_dims)))


def _vecdot(dim):
    return lambda a, b: (a * b).sum(dim)


IMAGE, WEIGHT = (2, 4, 7), (6, 4, 3)
ATTENTION = (2, 4, 5, 8)
KERNEL_MASK = (torch.arange(72).view(6, 4, 3) % 5 != 2).double()
TRANSPOSED_MASK = (torch.arange(48).view(4, 3, 2, 2) % 5 != 2).double()
LINEAR = (-1,)
LABELS = torch.tensor([6, 0, 2])
OFFSETS = torch.tensor([2, 5], dtype=torch.int32)

# Name of the site: the code, the shapes of inputs, the shape of the weight, the reference at bits p.
NUMERICS = {
    "linear": (lambda x, w: F.linear(x, w), [(3, 5)], (7, 5), lambda p, x, w: p.linear(x, w)),
    "linear, keywords": (
        lambda x, w: F.linear(input=x, weight=w, bias=w[:, 0]), [(2, 3, 5)], (7, 5),
        lambda p, x, w: p.linear(x, w, w[:, 0]),
    ),
    "linear, a vector": (
        lambda x, w: F.linear(x, w, w[0]), [(2, 3, 5)], (5,),
        lambda p, x, w: p.linear(x, w.unsqueeze(0)).squeeze(-1) + w[0],
    ),
    "linear_cross_entropy": (
        lambda x, w: F.linear_cross_entropy(x, w, LABELS, linear_bias=w[:, 0], reduction="none"), [(3, 5)], (7, 5),
        lambda p, x, w: F.cross_entropy(p.linear(x, w, w[:, 0]), LABELS, reduction="none"),
    ),
    "linear_cross_entropy, several positions": (
        lambda x, w: F.linear_cross_entropy(x, w.unflatten(0, (3, 2)), LABELS[:2].expand(3, 2) % 3), [(3, 5)], (6, 5),
        lambda p, x, w: F.cross_entropy(p.linear(x, w).unflatten(1, (3, 2)), LABELS[:2].expand(3, 2) % 3),
    ),
    "conv_tbc": (
        lambda x, w: torch.conv_tbc(x, w, x.new_zeros(6), 1), [(7, 2, 4)], (3, 4, 6),
        lambda p, x, w: two(p, lambda x, w: torch.conv_tbc(x, w, x.new_zeros(6), 1), x, w, None, (0, 1)),
    ),
    "conv1d, stride and padding": (
        lambda x, w: F.conv1d(x, w, stride=2, padding=1), [IMAGE], WEIGHT,
        lambda p, x, w: two(p, lambda x, w: F.conv1d(x, w, stride=2, padding=1), x, w, None, (1, 2)),
    ),
    "conv2d": (
        lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), 2), [(2, 4, 7, 7)], (6, 4, 3, 2),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), 2), x, w, None, (1, 2, 3)),
    ),
    "conv2d, same": (
        lambda x, w: F.conv2d(x, w, padding="same"), [(2, 4, 6, 6)], (6, 4, 3, 3),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, padding=1), x, w, None, (1, 2, 3)),
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w, padding=1), [(2, 3, 4, 4, 4)], (5, 3, 3, 3, 3),
        lambda p, x, w: two(p, lambda x, w: F.conv3d(x, w, padding=1), x, w, None, (1, 2, 3, 4)),
    ),
    "matmul, matrices": (
        lambda a, b: a @ b, [(4, 3), (3, 5)], (), lambda p, a, b: two(p, torch.matmul, a, b, None, (0,)),
    ),
    "matmul, a parameter": (
        lambda a, w: torch.matmul(a, w), [(2, 4, 3)], (3, 5), lambda p, a, w: two(p, torch.matmul, a, w, None, (0,)),
    ),
    "matmul, a parameter on the left": (
        lambda x, w: w @ x, [(2, 4, 3)], (5, 4), lambda p, x, w: p.site(p.operand(w, (1,)) @ p.operand(x)),
    ),
    "matmul, three dimensions": (
        lambda a, b: torch.matmul(a, b), [(2, 4, 3), (2, 3, 5)], (),
        lambda p, a, b: two(p, torch.matmul, a, b, LINEAR, LINEAR),
    ),
    "matmul, a vector": (lambda a, b: a @ b, [(4, 3), (3,)], (), lambda p, a, b: two(p, torch.matmul, a, b)),
    "matmul, a column": (
        lambda a, b: a @ b.unsqueeze(-1), [(2, 4, 3), (2, 3)], (),
        lambda p, a, b: two(p, torch.matmul, a, b.unsqueeze(-1), LINEAR, (-2,)),
    ),
    "matmul, a column and a row": (
        lambda a, b: a.unsqueeze(-1) @ b.unsqueeze(-2), [(2, 4), (2, 5)], (),
        lambda p, a, b: two(p, torch.matmul, a.unsqueeze(-1), b.unsqueeze(-2), (-2,), LINEAR),
    ),
    "matmul, a transposed view": (
        lambda a, b: a @ b.mT, [(2, 4, 3), (2, 5, 3)], (),
        lambda p, a, b: two(p, torch.matmul, a, b.mT, LINEAR, (-2,)),
    ),
    "matmul, a transposed view after a matrix": (
        lambda a, b: torch.linalg.matmul(a, b.mT), [(4, 3), (2, 5, 3)], (),
        lambda p, a, b: two(p, torch.matmul, a, b.mT, (1,), None),
    ),
    "matmul, a mask": (
        lambda a, b: a.tril() @ b, [(2, 4, 4), (2, 4, 5)], (),
        lambda p, a, b: p.site(p.operand(a.tril(), LINEAR).tril() @ p.operand(b, LINEAR)),
    ),
    "linear, a mask": (
        lambda x, w: F.linear(x, w.tril()), [(4, 5)], (5, 5),
        lambda p, x, w: p.site(p.operand(x) @ p.weight(w.tril()).tril().t()),
    ),
    "conv1d, a mask": (
        lambda x, w: F.conv1d(x, w * KERNEL_MASK), [IMAGE], WEIGHT,
        lambda p, x, w: p.site(F.conv1d(p.operand(x), p.weight(w * KERNEL_MASK) * KERNEL_MASK)),
    ),
    "mm": (lambda a, b: a.mm(b), [(4, 3), (3, 5)], (), lambda p, a, b: two(p, torch.mm, a, b, None, (0,))),
    "bmm": (
        lambda a, b: torch.bmm(a, b), [(2, 4, 3), (2, 3, 5)], (),
        lambda p, a, b: two(p, torch.bmm, a, b, LINEAR, LINEAR),
    ),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b), [(5,), (4, 3), (3, 5)], (),
        lambda p, c, a, b: c + two(p, torch.mm, a, b, None, (0,)),
    ),
    "addmm, method with factors": (
        lambda c, a, b: c.addmm(a, b, beta=0.5, alpha=2), [(4, 5), (4, 3), (3, 5)], (),
        lambda p, c, a, b: 0.5 * c + 2 * two(p, torch.mm, a, b, None, (0,)),
    ),
    "baddbmm": (
        lambda c, a, b: torch.baddbmm(c, a, b), [(2, 4, 5), (2, 4, 3), (2, 3, 5)], (),
        lambda p, c, a, b: c + two(p, torch.bmm, a, b, LINEAR, LINEAR),
    ),
    "addbmm": (
        lambda c, a, b: torch.addbmm(c, a, b, alpha=3), [(4, 5), (2, 4, 3), (2, 3, 5)], (),
        lambda p, c, a, b: c + 3 * two(p, lambda a, b: torch.bmm(a, b).sum(0), a, b, LINEAR, LINEAR),
    ),
    "mv": (lambda a, b: a.mv(b), [(4, 3), (3,)], (), lambda p, a, b: two(p, torch.mv, a, b)),
    "mv, a parameter": (
        lambda b, w: torch.mv(w, b), [(3,)], (4, 3), lambda p, b, w: p.site(p.weight(w).mv(p.operand(b))),
    ),
    "addmv": (
        lambda c, a, b: torch.addmv(c, a, b, beta=2), [(4,), (4, 3), (3,)], (),
        lambda p, c, a, b: 2 * c + two(p, torch.mv, a, b),
    ),
    "dot": (
        lambda a, b: torch.dot(input=a, tensor=b), [(5,), (5,)], (), lambda p, a, b: p.operand(a).dot(p.operand(b)),
    ),
    "vdot": (lambda a, b: a.vdot(b), [(5,), (5,)], (), lambda p, a, b: p.operand(a).dot(p.operand(b))),
    "inner": (lambda a, b: torch.inner(a, b), [(4, 3), (5, 3)], (), lambda p, a, b: two(p, torch.inner, a, b)),
    "multi_dot": (
        lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [(4, 3), (3, 5), (5, 2)], (),
        lambda p, a, b, c: p.site(p.operand(a) @ p.operand(b, (0,)) @ p.operand(c, (0,))),
    ),
    "multi_dot, vectors and a parameter": (
        lambda a, b, w: torch.linalg.multi_dot(tensors=(a, w, b)), [(3,), (5,)], (3, 5),
        lambda p, a, b, w: p.operand(a) @ p.operand(w, (0,)) @ p.operand(b),
    ),
    "chain_matmul": (
        lambda a, b, c: torch.chain_matmul(a, b, c), [(4, 3), (3, 5), (5, 2)], (),
        lambda p, a, b, c: p.site(p.operand(a) @ p.operand(b, (0,)) @ p.operand(c, (0,))),
    ),
    "vecdot": (
        lambda a, b: torch.linalg.vecdot(a, b), [(2, 4, 3), (4, 3)], (), lambda p, a, b: two(p, _vecdot(-1), a, b),
    ),
    "vecdot, a parameter": (
        lambda a, w: torch.linalg.vecdot(a, w, dim=1), [(2, 4, 3)], (1, 4, 3),
        lambda p, a, w: two(p, _vecdot(1), a, w, (1,), (1,)),
    ),
    "vecdot, a parameter that is broadcast": (
        lambda a, w: torch.linalg.vecdot(a, w, dim=2), [(2, 4, 3)], (3,),
        lambda p, a, w: two(p, _vecdot(2), a, w, None, (0,)),
    ),
    "matmul, reflected": (
        lambda a, b: b.__rmatmul__(a), [(4, 3), (3, 5)], (), lambda p, a, b: two(p, torch.matmul, a, b, None, (0,)),
    ),
    "tensordot": (
        lambda a, b: torch.tensordot(a, b, dims=1), [(4, 3), (3, 5)], (), lambda p, a, b: two(p, torch.mm, a, b),
    ),
    "tensordot, a parameter": (
        lambda a, w: torch.tensordot(a, w, dims=([1, 2], [0, 2])), [(2, 4, 3)], (4, 5, 3),
        lambda p, a, w: two(p, lambda a, b: torch.einsum("bij,ioj->bo", a, b), a, w, (1, 2), (0, 2)),
    ),
    "einsum": (
        lambda a, b: torch.einsum("bij,bjk->bik", a, b), [(2, 4, 3), (2, 3, 5)], (),
        lambda p, a, b: two(p, torch.bmm, a, b, LINEAR, LINEAR),
    ),
    "einsum, a list": (
        lambda a, b: torch.einsum("bi,oi->bo", [a, b]), [(4, 3)], (5, 3),
        lambda p, a, b: two(p, lambda a, b: a @ b.t(), a, b, None, (1,)),
    ),
    "einsum, a weight for each head": (
        lambda a, b: torch.einsum("bhi,hio->bho", a, b), [(4, 2, 3)], (2, 3, 5),
        lambda p, a, b: two(p, lambda a, b: torch.einsum("bhi,hio->bho", a, b), a, b, LINEAR, (1,)),
    ),
    "einsum, channels before positions": (
        lambda a, b: torch.einsum("...cl,...oc", a, b), [(2, 3, 4)], (1, 5, 3),
        lambda p, a, b: two(p, lambda a, b: torch.einsum("bcl,oc->blo", a, b[0]), a, b, (1,), (2,)),
    ),
    "bilinear": (
        lambda a, b, w: F.bilinear(a, b, w), [(4, 3), (4, 5)], (6, 3, 5),
        lambda p, a, b, w: p.site(F.bilinear(p.operand(a), p.operand(b), p.operand(w, (1, 2)))),
    ),
    "conv_transpose2d, keywords": (
        lambda x, w: F.conv_transpose2d(input=x, weight=w), [(2, 4, 5, 5)], (4, 3, 2, 2),
        lambda p, x, w: two(p, F.conv_transpose2d, x, w, None, (0, 2, 3)),
    ),
    "conv_transpose2d, groups, masked": (
        lambda x, w: F.conv_transpose2d(x, w * TRANSPOSED_MASK, stride=2, groups=2), [(2, 4, 5, 5)], (4, 3, 2, 2),
        lambda p, x, w: p.site(
            F.conv_transpose2d(
                p.operand(x),
                p.operand((w * TRANSPOSED_MASK).unflatten(0, (2, 2)), (1, 3, 4)).flatten(0, 1) * TRANSPOSED_MASK,
                stride=2,
                groups=2,
            )
        ),
    ),
    "sdpa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [ATTENTION] * 3, (),
        lambda p, q, k, v: p.attention(q, k, v, 8**-0.5)[0],
    ),
    "conv2d, groups": (
        lambda x, w: F.conv2d(x, w, groups=2), [(2, 4, 6, 6)], (6, 2, 3, 3),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, groups=2), x, w, None, (1, 2, 3)),
    ),
}  # fmt: skip
every_function = pytest.mark.parametrize("case", NUMERICS.values(), ids=NUMERICS)


def build(case):
    torch.manual_seed(0)
    function, shapes, weight, reference = case
    return Call(function, *weight), [randn(*shape) for shape in shapes], reference


@every_function
@pytest.mark.parametrize("bits", [2, 4, 7])
def test_equals_the_plain_formulas(case, bits):
    module, inputs, reference = build(case)
    weights = list(module.parameters())
    expected = results(module, inputs, lambda *x: reference(Plain(bits, 6), *x, *weights))
    bc.quantize(module, bc.Recipe.paper(gradients="nearest"), example_inputs=tuple(inputs))
    assert bc.summary(module).sites
    bc.set_bits(module, forward=bits, backward=6)
    for ours, theirs in zip(results(module, inputs), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@every_function
def test_full_precision_is_the_function_bit_for_bit(case):
    module, inputs, _ = build(case)
    expected = results(module, inputs)
    bc.quantize(module, example_inputs=tuple(inputs))
    for _ in range(2):
        assert all(torch.equal(a, b) for a, b in zip(results(module, inputs), expected, strict=True))
        bc.set_bits(module, forward=3, backward=3)
        assert not torch.equal(results(module, inputs)[0], expected[0])
        bc.set_bits(module, forward=None, backward=None)
    kind = type(bc.restore(module))
    assert kind is Call
    assert all(torch.equal(a, b) for a, b in zip(results(module, inputs), expected, strict=True))


@pytest.mark.slow
@every_function
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles_into_one_graph(case):
    torch._dynamo.reset()
    module, inputs, _ = build(case)
    bc.quantize(module, example_inputs=tuple(inputs))
    bc.set_bits(module, forward=4)
    compiled = torch.compile(copy.deepcopy(module), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*inputs), module(*inputs))


@pytest.mark.parametrize("granularity", ["row", "channel"])
def test_a_transposed_convolution_without_a_batch_has_the_grids_of_a_batch_of_one(granularity):
    x, weight = randn(4, 5, 5), (4, 3, 2, 2)
    module = Call(lambda x, w: F.conv_transpose2d(x, w), *weight)
    bc.quantize(module, bc.Recipe(activations=granularity), example_inputs=x)
    bc.set_bits(module, forward=3)
    torch.testing.assert_close(module(x), module(x.unsqueeze(0)).squeeze(0))


@pytest.mark.parametrize("name", [name for name in NUMERICS if "vecdot" in name])
def test_cost_of_products_of_vectors(name):
    """Torch's function multiplies elementwise, which no count of its operations includes."""
    module, inputs, _ = build(NUMERICS[name])
    assert bc.cost(module, tuple(inputs)).macs == bc.cost(bc.quantize(module), tuple(inputs)).macs == 24


IN_PLACE = {
    "addmm": ([(4, 5), (4, 3), (3, 5)], 4 * 5 * 3),
    "baddbmm": ([(2, 4, 5), (2, 4, 3), (2, 3, 5)], 2 * 4 * 5 * 3),
    "addbmm": ([(4, 5), (2, 4, 3), (2, 3, 5)], 2 * 4 * 5 * 3),
    "addmv": ([(4,), (4, 3), (3,)], 4 * 3),
}
every_sum = pytest.mark.parametrize("name", IN_PLACE)


def in_place(name, **factors):
    """A converted sum of a product in place, its inputs, and the same function not in place."""
    torch.manual_seed(0)
    inputs = [randn(*shape) for shape in IN_PLACE[name][0]]
    module = Call(lambda c, a, b: getattr(c, f"{name}_")(a, b, **factors))
    reference = Call(lambda c, a, b: getattr(c, name)(a, b, **factors))
    for each in (module, reference):
        bc.quantize(each, example_inputs=(inputs[0] * 1, *inputs[1:]))
        bc.set_bits(each, forward=3, backward=4)
    return module, inputs, reference


@every_sum
@pytest.mark.parametrize("factors", [{}, {"beta": 0.5, "alpha": -2}, {"beta": 0}])
def test_functions_in_place_write_to_their_tensor(name, factors):
    module, inputs, reference = in_place(name, **factors)
    for converted in (module, reference):
        assert [row.name for row in bc.summary(converted).sites] == [f":{name}"]
        assert bc.cost(converted, tuple(inputs)).macs == IN_PLACE[name][1]
    expected = reference(*inputs)
    if factors.get("beta") == 0:
        inputs[0].fill_(torch.nan)  # an input that is multiplied by 0 is ignored
    address = inputs[0].data_ptr()
    assert module(*inputs) is inputs[0]
    assert inputs[0].data_ptr() == address
    torch.testing.assert_close(inputs[0], expected, rtol=1e-12, atol=1e-12)


@every_sum
def test_gradients_of_functions_in_place(name):
    module, inputs, reference = in_place(name, beta=0.5)
    expected = results(reference, inputs)
    for ours, theirs in zip(results(module, inputs, lambda c, a, b: module(c * 1, a, b)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    leaf = inputs[0].clone().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        module(leaf, *inputs[1:])
    saved = leaf.exp()  # its gradient needs its value
    module(saved, *inputs[1:])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


@pytest.mark.slow
@every_sum
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_functions_in_place(name):
    torch._dynamo.reset()
    module, inputs, reference = in_place(name)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    written = inputs[0].clone()
    compiled(written, *inputs[1:])
    torch.testing.assert_close(written, reference(*inputs))
    training = torch.compile(lambda c, a, b: module(c * 1, a, b), fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(results(module, inputs, training), results(reference, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_function_in_place_refuses_another_shape():
    module, (_, a, b), _ = in_place("addmm")
    with pytest.raises(RuntimeError):
        module(randn(2, 4, 5), a, b)


@pytest.mark.parametrize("function", [torch.addmm, torch.baddbmm, torch.addbmm])
def test_the_type_of_sums_under_autocast(function):
    a, b = torch.randn(4, 4), torch.randn(2, 4, 4)
    operands = {"addmm": (a, a, a), "baddbmm": (b, b, b), "addbmm": (a, b, b)}[function.__name__]
    module = Call(function)
    with torch.autocast("cpu", torch.bfloat16):
        expected = module(*operands)
        bc.set_bits(bc.quantize(module, example_inputs=operands), forward=8)
        out = module(*operands)
    assert out.dtype is expected.dtype is torch.bfloat16
    torch.testing.assert_close(out, expected, rtol=0.1, atol=0.1)


def test_products_without_a_sum_are_no_sites():
    class Outer(nn.Module):
        def forward(self, a, b):
            return torch.outer(a, b), torch.kron(a, b), a.ger(b)

    module = bc.quantize(Outer(), example_inputs=(randn(3), randn(4)))
    assert not bc.summary(module).sites
    assert [row.skips for row in bc.summary(module).skipped] == [(Skip(SkipKind.NO_PRODUCT),)]
    assert type(bc.restore(module)) is Outer


def test_a_parameter_multiplies_the_features_of_a_token():
    """With one grid per row, the grids of ``weight @ x`` are columns of x, as in a linear layer over its transpose."""
    torch.manual_seed(0)
    module, x = Call(lambda x, w: w @ x, 5, 4), randn(2, 4, 3)
    plain = Plain(3, None)
    expected = plain.operand(module.weight, (1,)) @ plain.operand(x, (1,))
    bc.quantize(module, bc.Recipe(activations="row"), example_inputs=x)
    bc.set_bits(module, forward=3)
    torch.testing.assert_close(module(x), expected)


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this version of torch has no grouped product")
def test_grouped_products():
    torch.manual_seed(0)
    module = Call(lambda x, w: torch._grouped_mm(x, w, OFFSETS), 2, 16, 8).bfloat16()
    x = torch.randn(5, 16).bfloat16()
    expected = module(x)
    bc.quantize(module, bc.Recipe.paper(), example_inputs=x)
    assert [row.name for row in bc.summary(module).sites] == [":grouped_mm"]
    assert torch.equal(module(x), expected)
    bc.set_bits(module, forward=3, backward=8)
    plain = Plain(3, 8)
    rounded_x, rounded_w = plain.operand(x.double()), plain.operand(module.weight.detach().double(), (1,))
    wanted = torch.cat([rounded_x[:2] @ rounded_w[0], rounded_x[2:] @ rounded_w[1]])
    out = module(x)
    assert (out.double() - wanted).abs().max() < 0.02 * wanted.abs().max()
    out.float().square().sum().backward()
    assert module.weight.grad.isfinite().all()
    assert bc.cost(module, x).macs == 5 * 16 * 8


def test_a_chunked_cross_entropy_is_quantised():
    """Torch computes its gradients in the forward pass, in an operation that a compiler cannot trace."""
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    chunked = Call(lambda x, w: F.linear_cross_entropy(x, w, LABELS, options=options), 7, 5)
    whole = Call(lambda x, w: F.linear_cross_entropy(x, w, LABELS), 7, 5)
    whole.load_state_dict(chunked.state_dict())
    x = randn(3, 5)
    expected = chunked(x)
    for model in (chunked, whole):
        bc.quantize(model, bc.Recipe.paper(gradients="nearest"), example_inputs=x)
    assert torch.equal(chunked(x), expected)
    for model in (chunked, whole):
        bc.set_bits(model, forward=3, backward=4)
    assert all(map(torch.equal, results(chunked, [x]), results(whole, [x])))
    assert not torch.equal(chunked(x), expected)
