"""Discovery: the products of a module's own forward become sites at its first call, and behave as all sites do."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

import bitcycle as bc
from tests.nn.reference import Plain


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


def test_sites_that_are_found_in_inference_mode_are_used_outside_it():
    converted = bc.quantize(model())
    bc.set_bits(converted, forward=4, backward=8)
    with torch.inference_mode():
        converted(X)
    assert bc.cost(converted, X).macs > 0
    converted.load_state_dict(converted.state_dict())
    bc.set_bits(converted, forward=8)
    converted(X).sum().backward()


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
    converted = bc.quantize(model().attn, bc.Recipe.paper(), keep=("qkv", "out"))
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
    bc.quantize(outer, bc.Recipe.paper())
    bc.set_bits(outer, forward=4)
    torch.testing.assert_close(outer(X), expected)
    assert sorted(names(outer)) == [":matmul", "inner:linear", "layer"]


class SeenFunctions(TorchFunctionMode):
    """Collects the names of the functions that run inside it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class WithMode(nn.Module):
    """Multiplies, and runs a layer under a mode of its own."""

    def __init__(self):
        super().__init__()
        self.layer = Inner()
        self.seen = SeenFunctions()

    def forward(self, x):
        with self.seen:
            y = self.layer(x)
        return y @ x.mT


def test_kept_layers_are_hidden_from_interceptors_and_from_no_other_mode():
    converted, around = bc.quantize(WithMode(), keep="layer"), SeenFunctions()
    bc.set_bits(converted, forward=4, backward=8)
    with around:
        converted(X)
    assert "linear" in converted.seen.names
    assert "linear" in around.names
    assert names(converted) == [":matmul"]


def test_an_error_inside_a_kept_layer_leaves_the_modes_as_they_were():
    converted = bc.quantize(Outer(), keep="layer")
    with torch.device("cpu"):
        before = _get_current_function_mode_stack()
        with pytest.raises(RuntimeError):
            converted(X[..., :4])
        assert _get_current_function_mode_stack() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kept_and_nested_layers_compile_into_one_graph():
    torch._dynamo.reset()
    converted = bc.quantize(Outer(), keep="layer")
    bc.set_bits(converted, forward=4, backward=8)
    compiled = torch.compile(converted, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(X), converted(X))


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


@pytest.mark.parametrize("how", ["kept", "set"])
def test_a_site_is_discovered_while_the_others_are_in_full_precision(how):
    class Branches(nn.Module):
        def forward(self, x):
            y = x @ x.mT
            return y @ x if self.training else y

    keep = ":matmul" if how == "kept" else None
    model = bc.quantize(Branches().eval(), bc.Recipe.paper(), keep=keep, example_inputs=X)
    bc.set_bits(model, forward=2, backward=8)
    if how == "set":
        bc.set_bits(model, forward=None, backward=None, where=":matmul")
    model.train()
    p = Plain(2, None)
    torch.testing.assert_close(model(X), p.row(X @ X.mT) @ p.row(X))
    assert names(model) == [":matmul", ":matmul#2"]


def test_set_bits_of_a_discovered_site():
    converted = bc.quantize(model(), example_inputs=X)
    bc.set_bits(converted, forward=4, backward=8)
    bc.set_bits(converted, forward=7, where="hand:matmul#2")
    bc.set_bits(converted, forward=6, where="attn:sdpa")
    bits = bits_of(converted)
    assert [name for name, pair in bits.items() if pair == (7, 8)] == ["hand:matmul#2"]
    assert [name for name, pair in bits.items() if pair == (6, 8)] == ["attn:sdpa.scores", "attn:sdpa.context"]
    with pytest.raises(ValueError, match="no site matches 'hand:bmm'; did you mean 'hand:matmul'"):
        bc.set_bits(converted, forward=4, where="hand:bmm")
    with pytest.raises(ValueError, match="no site matches 'hand:matmul'; .* run it once, or call bc.quantize"):
        bc.set_bits(bc.quantize(model()), forward=4, where="hand:matmul")


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    plain, saving = (bc.quantize(model()) for _ in range(2))
    for converted in (plain, saving):
        bc.set_bits(converted, forward=4, backward=4)
    plain(X).square().sum().backward()
    checkpoint(saving, X.clone().requires_grad_(), use_reentrant=reentrant).square().sum().backward()
    assert names(plain) == names(saving)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), saving.parameters(), strict=True))


@pytest.mark.slow
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


def test_rules_exclude_modules_of_user_code():
    class Scores(nn.Module):
        def forward(self, x):
            return x @ x.mT

    for rules in ({"keep": "0"}, {"keep": Scores}, {"where": "1"}):
        model = bc.quantize(nn.Sequential(Scores(), nn.Linear(X.shape[-2], 4)), example_inputs=X, **rules)
        bc.set_bits(model, forward=3)
        assert names(model) == ["1"]
        assert [row.name for row in bc.summary(model).skipped] == ["0"]
        assert torch.equal(model[0](X), X @ X.mT)
