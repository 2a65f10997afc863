"""Products that a module's own forward computes: each call is a site, with the numerics of any other site."""

import copy
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import bitcycle as bc
from tests.nn.reference import Plain


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


IMAGE, WEIGHT = (2, 4, 7), (6, 4, 3)
ATTENTION = (2, 4, 5, 8)
MASK = torch.arange(25).view(5, 5) % 3 != 1
LINEAR = (-1,)
OFFSETS = torch.tensor([2, 5], dtype=torch.int32)

# Name of the site: the code, the shapes of inputs, the shape of the weight, the reference at bits p.
NUMERICS = {
    "linear": (lambda x, w: F.linear(x, w), [(3, 5)], (7, 5), lambda p, x, w: p.linear(x, w)),
    "linear, keywords": (
        lambda x, w: F.linear(input=x, weight=w, bias=w[:, 0]), [(2, 3, 5)], (7, 5),
        lambda p, x, w: p.linear(x, w, w[:, 0]),
    ),
    "conv1d": (lambda x, w: F.conv1d(x, w), [IMAGE], WEIGHT, lambda p, x, w: two(p, F.conv1d, x, w, None, (1, 2))),
    "conv1d, stride and padding": (
        lambda x, w: F.conv1d(x, w, stride=2, padding=1), [IMAGE], WEIGHT,
        lambda p, x, w: two(p, lambda x, w: F.conv1d(x, w, stride=2, padding=1), x, w, None, (1, 2)),
    ),
    "conv2d": (
        lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), 2), [(2, 4, 7, 7)], (6, 4, 3, 2),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), 2), x, w, None, (1, 2, 3)),
    ),
    "conv2d, groups": (
        lambda x, w: F.conv2d(x, w, groups=2), [(2, 4, 6, 6)], (6, 2, 3, 3),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, groups=2), x, w, None, (1, 2, 3)),
    ),
    "conv2d, same": (
        lambda x, w: F.conv2d(x, w, padding="same"), [(2, 4, 6, 6)], (6, 4, 3, 3),
        lambda p, x, w: two(p, lambda x, w: F.conv2d(x, w, padding=1), x, w, None, (1, 2, 3)),
    ),
    "conv2d, unbatched": (
        lambda x, w: F.conv2d(x, w), [(4, 6, 6)], (6, 4, 3, 3),
        lambda p, x, w: two(p, F.conv2d, x, w, None, (1, 2, 3)),
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
    "matmul, four dimensions": (
        lambda a, b: a.matmul(b), [(2, 3, 4, 5), (2, 3, 5, 6)], (),
        lambda p, a, b: two(p, torch.matmul, a, b, LINEAR, LINEAR),
    ),
    "matmul, broadcast": (
        lambda a, b: a @ b, [(2, 3, 4, 5), (1, 3, 5, 6)], (),
        lambda p, a, b: two(p, torch.matmul, a, b, LINEAR, LINEAR),
    ),
    "matmul, a vector": (lambda a, b: a @ b, [(4, 3), (3,)], (), lambda p, a, b: two(p, torch.matmul, a, b)),
    "mm": (lambda a, b: a.mm(b), [(4, 3), (3, 5)], (), lambda p, a, b: two(p, torch.mm, a, b, None, (0,))),
    "bmm": (
        lambda a, b: torch.bmm(a, b), [(2, 4, 3), (2, 3, 5)], (),
        lambda p, a, b: two(p, torch.bmm, a, b, LINEAR, LINEAR),
    ),
    "bmm, keywords": (
        lambda a, b: torch.bmm(mat2=b, input=a), [(2, 4, 3), (2, 3, 5)], (),
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
    "addmm, keywords": (
        lambda c, a, b: torch.addmm(mat1=a, mat2=b, input=c), [(5,), (4, 3), (3, 5)], (),
        lambda p, c, a, b: c + two(p, torch.mm, a, b, None, (0,)),
    ),
    "baddbmm": (
        lambda c, a, b: torch.baddbmm(c, a, b), [(2, 4, 5), (2, 4, 3), (2, 3, 5)], (),
        lambda p, c, a, b: c + two(p, torch.bmm, a, b, LINEAR, LINEAR),
    ),
    "baddbmm, keywords": (
        lambda c, a, b: c.baddbmm(batch1=a, batch2=b, beta=0.25), [(2, 4, 5), (2, 4, 3), (2, 3, 5)], (),
        lambda p, c, a, b: 0.25 * c + two(p, torch.bmm, a, b, LINEAR, LINEAR),
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
    "bilinear": (
        lambda a, b, w: F.bilinear(a, b, w), [(4, 3), (4, 5)], (6, 3, 5),
        lambda p, a, b, w: p.site(F.bilinear(p.operand(a), p.operand(b), p.operand(w, (1, 2)))),
    ),
    "conv_transpose2d, keywords": (
        lambda x, w: F.conv_transpose2d(input=x, weight=w), [(2, 4, 5, 5)], (4, 3, 2, 2),
        lambda p, x, w: two(p, F.conv_transpose2d, x, w, None, (0, 2, 3)),
    ),
    "sdpa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [ATTENTION] * 3, (),
        lambda p, q, k, v: p.attention(q, k, v, 8**-0.5)[0],
    ),
    "sdpa, causal, scale": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7), [ATTENTION] * 3, (),
        lambda p, q, k, v: p.attention(q, k, v, 0.7, torch.full((5, 5), -1e300, dtype=torch.float64).triu(1))[0],
    ),
    "sdpa, mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=MASK), [ATTENTION] * 3, (),
        lambda p, q, k, v: p.attention(q, k, v, 8**-0.5, randn(5, 5).zero_().masked_fill(~MASK, -1e300))[0],
    ),
    "sdpa, grouped heads, floating-point mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, MASK.double(), enable_gqa=True),
        [ATTENTION, (2, 2, 5, 8), (2, 2, 5, 8)], (),
        lambda p, q, k, v: p.attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), 8**-0.5, MASK.double()
        )[0],
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
    bc.quantize(module, bc.Recipe(gradients="nearest"), example_inputs=tuple(inputs))
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


@every_function
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles_into_one_graph(case):
    torch._dynamo.reset()
    module, inputs, _ = build(case)
    bc.quantize(module, example_inputs=tuple(inputs))
    bc.set_bits(module, forward=4)
    compiled = torch.compile(copy.deepcopy(module), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*inputs), module(*inputs))


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this version of torch has no grouped product")
def test_grouped_products():
    torch.manual_seed(0)
    module = Call(lambda x, w: torch._grouped_mm(x, w, OFFSETS), 2, 16, 8).bfloat16()
    x = torch.randn(5, 16).bfloat16()
    expected = module(x)
    bc.quantize(module, example_inputs=x)
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


def test_both_forms_of_the_operator():
    class Reflected(nn.Module):
        def forward(self, a, b):
            return b.__rmatmul__(a) + (a @ b)

    a, b = randn(4, 3), randn(3, 5)
    module = bc.quantize(Reflected(), example_inputs=(a, b))
    assert torch.equal(module(a, b), 2 * (a @ b))
    assert [row.name for row in bc.summary(module).sites] == [":matmul", ":matmul#2"]
    bc.set_bits(module, forward=3)
    torch.testing.assert_close(module(a, b), 2 * two(Plain(3, None), torch.matmul, a, b, None, (0,)))


class Attention(nn.Module):
    def __init__(self, fused=True):
        super().__init__()
        self.qkv, self.out, self.fused = nn.Linear(8, 24), nn.Linear(8, 8), fused

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if not self.fused:
            return self.out(((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.hand, self.head = Attention(), Attention(fused=False), nn.Linear(8, 3)

    def forward(self, x):
        x = x + self.attn(x)
        return self.head(x + self.hand(x))


X = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(1))
LAYERS = [f"{block}.{layer}" for block in ("attn", "hand") for layer in ("qkv", "out")]
SITES = [*LAYERS, "attn:sdpa.scores", "attn:sdpa.context", "hand:matmul", "hand:matmul#2", "head"]


def model():
    torch.manual_seed(0)
    return Model()


def names(converted):
    return [row.name for row in bc.summary(converted).sites]


def bits_of(converted):
    return {row.name: (row.forward, row.backward) for row in bc.summary(converted).sites}


def train(converted, steps, scheduler, optimizer, run=None):
    for _ in range(steps):
        optimizer.zero_grad()
        (converted if run is None else run)(X).square().mean().backward()
        optimizer.step()
        scheduler.step()


def test_sites_are_found_at_the_first_call_or_from_example_inputs():
    later, now = bc.quantize(model()), bc.quantize(model(), example_inputs=X)
    assert sorted(names(now)) == sorted(SITES)
    assert sorted(names(later)) == sorted(name for name in SITES if ":" not in name)
    assert {row.name for row in bc.summary(later).skipped} >= {"attn", "hand"}
    later(X)
    assert names(later) == names(now)
    assert not {row.name for row in bc.summary(later).skipped} & {"attn", "hand"}


def test_state_dict_has_the_same_keys():
    keys = list(model().state_dict())
    converted = bc.quantize(model(), example_inputs=X)
    assert list(converted.state_dict()) == keys
    model().load_state_dict(converted.state_dict())


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("attn:sdpa", ["attn:sdpa.scores", "attn:sdpa.context"]),
        ("attn:sdpa.scores", ["attn:sdpa.scores"]),
        ("hand:matmul#2", ["hand:matmul#2"]),
        ("*:*", ["attn:sdpa.scores", "attn:sdpa.context", "hand:matmul", "hand:matmul#2"]),
        (("*:matmul", "head"), ["hand:matmul", "head"]),
        ("attn", ["attn:sdpa.scores", "attn:sdpa.context", "attn.qkv", "attn.out"]),
        (Attention, [name for name in SITES if name != "head"]),
    ],
)
def test_keep_by_module_by_site_and_by_class(keep, kept):
    converted = bc.quantize(model(), keep=keep)
    bc.set_bits(converted, forward=3, backward=8)
    converted(X)
    quantised = {row.name for row in bc.summary(converted).sites if row.skip is None}
    assert quantised == set(SITES) - set(kept)
    cost = bc.cost(converted, X)
    assert {row.name for row in cost.rows if row.quantized} == quantised
    assert cost.macs == bc.cost(model(), X).macs


def test_kept_layers_inside_such_a_module_stay_float():
    converted = bc.quantize(model().attn, keep=("qkv", "out"))
    bc.set_bits(converted, forward=3)
    reference = model().attn
    q, k, v = reference.qkv(X).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    y, _ = Plain(3, None).attention(q, k, v, 0.5, torch.full((5, 5), -1e30).triu(1))
    torch.testing.assert_close(converted(X), reference.out(y.transpose(1, 2).flatten(2)))
    assert type(bc.restore(converted).qkv) is nn.Linear


def test_kept_products_leave_the_layers_inside_quantised():
    converted = bc.quantize(model().attn, bc.Recipe(activations="tensor"), keep=":sdpa")
    bc.set_bits(converted, forward=3)
    reference, plain = model().attn, Plain(3, None)
    q, k, v = plain.linear(X, reference.qkv.weight, reference.qkv.bias).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    torch.testing.assert_close(converted(X), plain.linear(y, reference.out.weight, reference.out.bias))


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return F.linear(x, self.weight)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x) @ self.layer(x).mT


def test_nested_modules_are_rounded_once():
    torch.manual_seed(0)
    outer = Outer()
    plain = Plain(4, None)
    inner = plain.linear(X, outer.inner.weight)
    layer = plain.linear(X, outer.layer.weight, outer.layer.bias)
    expected = plain.row(inner) @ plain.row(layer).mT  # a transposed operand keeps the grids of its vectors
    bc.quantize(outer)
    bc.set_bits(outer, forward=4)
    torch.testing.assert_close(outer(X), expected)
    assert sorted(names(outer)) == [":matmul", "inner:linear", "layer"]


def test_restore_gives_the_same_classes_and_outputs():
    plain = model()
    expected, classes, attributes = (
        plain(X),
        [type(m) for m in plain.modules()],
        [set(vars(m)) for m in plain.modules()],
    )
    converted = bc.quantize(plain, keep="attn.qkv")
    bc.set_bits(converted, forward=2, backward=2)
    converted(X).sum().backward()
    bc.restore(converted)
    assert [type(m) for m in converted.modules()] == classes
    assert [set(vars(m)) for m in converted.modules()] == attributes
    assert torch.equal(converted(X), expected)


def test_copies_and_pickles():
    converted = bc.quantize(model())
    bc.set_bits(converted, forward=3, backward=8)
    before = copy.deepcopy(converted)
    expected = converted(X)
    for other in (before, copy.deepcopy(converted), pickle.loads(pickle.dumps(converted))):
        assert torch.equal(other(X), expected)
        assert names(other) == names(converted)
        bc.set_bits(other, forward=6)
        assert set(bits_of(other).values()) == {(6, 8)}
        assert not torch.equal(other(X), expected)
    assert set(bits_of(converted).values()) == {(3, 8)}
    assert torch.equal(converted(X), expected)


def test_a_scheduler_drives_sites_that_are_discovered_later():
    converted = bc.quantize(model())
    scheduler = bc.PrecisionScheduler(converted, "CR:3-8:cycles=2", total_steps=12, backward_bits=8)
    scheduler.step()
    converted(X)
    seen = []
    for _ in range(10):
        assert set(bits_of(converted).values()) == {(scheduler.bits, 8)}
        steps = {int(site.control[3]) for module in converted.modules() if hasattr(module, "bitcycle")
                 for site in module.bitcycle.sites.values()}  # fmt: skip
        assert len(steps) == 1
        seen.append(scheduler.bits)
        scheduler.step()
    assert len(set(seen)) > 3


def test_set_bits_of_a_discovered_site():
    converted = bc.quantize(model(), example_inputs=X)
    bc.set_bits(converted, forward=4, backward=8)
    bc.set_bits(converted, forward=7, where="hand:matmul#2")
    bc.set_bits(converted, forward=6, where="attn:sdpa")
    bits = bits_of(converted)
    assert [name for name, pair in bits.items() if pair == (7, 8)] == ["hand:matmul#2"]
    assert [name for name, pair in bits.items() if pair == (6, 8)] == ["attn:sdpa.scores", "attn:sdpa.context"]
    with pytest.raises(ValueError, match="no site matches 'hand:bmm'"):
        bc.set_bits(converted, forward=4, where="hand:bmm")


def test_a_resumed_training_is_equal_to_an_uninterrupted_one():
    def start():
        converted = bc.quantize(model())
        optimizer = torch.optim.SGD(converted.parameters(), 0.1, momentum=0.9)
        return converted, bc.PrecisionScheduler(converted, "CR:3-8:cycles=2", 10, backward_bits=4), optimizer

    whole, scheduler, optimizer = start()
    train(whole, 10, scheduler, optimizer)
    first, scheduler, optimizer = start()
    train(first, 4, scheduler, optimizer)
    states = copy.deepcopy([part.state_dict() for part in (first, scheduler, optimizer)])
    parts = start()
    for part, state in zip(parts, states, strict=True):
        part.load_state_dict(state)
    resumed, scheduler, optimizer = parts
    train(resumed, 6, scheduler, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    plain, saving = (bc.quantize(model()) for _ in range(2))
    for converted in (plain, saving):
        bc.set_bits(converted, forward=4, backward=4)
    plain(X).square().sum().backward()
    checkpoint(saving, X.clone().requires_grad_(), use_reentrant=reentrant).square().sum().backward()
    assert names(plain) == names(saving)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), saving.parameters(), strict=True))


@pytest.mark.parametrize("first", ["compiled", "eager"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_one_compiled_graph_over_a_schedule_with_the_noise_of_eager_mode(first):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager, own = bc.quantize(model()), bc.quantize(model())
    if first == "eager":
        own(X)
    compiled = torch.compile(own, fullgraph=True, backend="aot_eager")
    for converted, run in ((eager, eager), (own, compiled)):
        scheduler = bc.PrecisionScheduler(converted, "CR:3-8:cycles=2", total_steps=8, backward_bits=3)
        train(converted, 8, scheduler, torch.optim.SGD(converted.parameters(), 0.05), run)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert names(eager) == names(own)
    for a, b in zip(eager.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_a_product_in_hidden_code_is_found_by_example_inputs():
    functions = {"multiply": torch.matmul}

    class Hidden(nn.Module):
        def forward(self, x):
            return functions["multiply"](x, x.mT)

    hidden = bc.quantize(nn.Sequential(Hidden()), example_inputs=X)
    assert names(hidden) == ["0:matmul"]
    bc.set_bits(hidden, forward=3)
    rounded = Plain(3, None).row(X)
    torch.testing.assert_close(hidden(X), rounded @ rounded.mT)


def test_attention_with_its_own_forward_is_named():
    class OwnAttention(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x)[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bc.quantize(nn.Sequential(OwnAttention(8, 2)))
    assert ["0 (OwnAttention" in str(w.message) for w in caught] == [True]
