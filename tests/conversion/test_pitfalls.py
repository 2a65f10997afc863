"""Regression tests: ways in which quantisation could silently not happen or go wrong."""

import collections
import functools
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.prune import l1_unstructured
from torch.utils.checkpoint import checkpoint

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn as pyg
    import transformers

import bitcycle as bc
from bitcycle.conversion.sites import named_sites, sites

# Products that go around the sites


@pytest.mark.parametrize("where", [nn.Linear, "*linear1"])
def test_the_fused_encoder_path_stays_off_when_only_parts_are_converted(where):
    torch.manual_seed(0)
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval(), torch.randn(2, 3, 8)
    with torch.no_grad():
        expected = layer(x)
        bc.quantize(layer, where=where)
        bc.set_bits(layer, forward=1)
        assert not torch.equal(layer(x), expected)


def test_an_attention_layer_with_a_forward_of_its_own_does_not_lend_its_projection():
    class Own(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x)[0]

    model = bc.quantize(nn.Sequential(Own(4, 1), nn.Linear(4, 4)))
    with pytest.warns(UserWarning, match=r"0 \(Own: runs [\w, ]+ outside any site\)"):
        model(torch.randn(3, 4))
    assert list(named_sites(model)) == ["1"]


def attend(q, k):
    return q @ k.mT


class AttendFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k):
        return q @ k.mT


class WithHelper(nn.Module):
    """Computes ``self.how(q, q)``, where ``how`` is an attribute of the instance."""

    def __init__(self, how):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.how = how

    def forward(self, x):
        q = self.layer(x)
        return self.how(q, q)


class OfFunction(WithHelper):
    def forward(self, x):
        return AttendFunction.apply(self.layer(x), x)


class OfBase(WithHelper):
    def forward(self, x):
        return x.sum() + super().forward(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WithHelper(attend),
        lambda: WithHelper(functools.partial(torch.matmul)),
        lambda: OfFunction(None),
        lambda: OfBase(attend),
    ],
)
def test_products_in_helpers_are_sites(make):
    model = bc.quantize(make())
    bc.set_bits(model, forward=2, backward=8)
    model(torch.randn(2, 4, 4))
    assert list(named_sites(model)) == [":matmul", "layer"]


def test_a_forward_that_extends_attention_has_the_grids_of_attention():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.Linear(4, 4)

        def forward(self, x):
            return (self.query(x) @ x.mT).softmax(-1) @ x

    class Residual(Attention):
        def forward(self, x):
            return x + super().forward(x)

    for kind in (Attention, Residual):
        assert bc.quantize(kind()).query.bitcycle.recipe.activations == "row"


@pytest.mark.parametrize(
    "function", [torch.cov, lambda x: torch.linalg.matrix_power(x, 3), lambda x: torch.ops.aten.mm(x, x)]
)
def test_functions_that_multiply_inside_are_named(function):
    class Layer(nn.Module):
        def forward(self, x):
            return function(x)

    model = bc.quantize(Layer())
    assert "become sites when it first runs" in bc.summary(model).skipped[0].reason
    with pytest.warns(UserWarning, match="the model itself .Layer: runs mm outside any site"):
        model(torch.randn(4, 4))
    (row,) = bc.summary(model).skipped
    assert row.reason == "runs mm outside any site"


class OwnLSTM(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class BelowTorchFunctions(nn.Module):
    def forward(self, x):
        return torch.ops.aten.mm(x, x.mT)


def replace_forward(layer):
    layer.forward = lambda x: attend(x, x)
    return layer


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: OwnLSTM(4, 4), "outside any site"),
        (lambda: replace_forward(nn.Linear(4, 4)), "its forward was replaced on the module itself: not converted"),
        (lambda: replace_forward(nn.Identity()), "runs mm outside any site"),
        (lambda: BelowTorchFunctions(), "runs mm outside any site"),
    ],
)
def test_products_that_example_inputs_do_not_make_sites_are_named(make, reason):
    model = nn.Sequential(make())
    with pytest.warns(UserWarning, match=reason) as caught:
        bc.quantize(model, example_inputs=torch.randn(3, 4))
    assert len(caught) == 1
    assert reason in bc.summary(model).skipped[0].reason
    assert bc.summary(model, torch.randn(3, 4)).skipped[0].reason.count("outside any site") == 1
    bc.restore(model)


def test_example_inputs_do_not_make_sites_of_products_that_compute_a_weight():
    model = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)))
    bc.quantize(model, example_inputs=torch.randn(3, 4))
    assert list(named_sites(model)) == ["0"]


def test_products_in_hooks_are_named():
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_forward_hook(lambda module, inputs, output: attend(output, output))
    bc.quantize(model)
    with pytest.warns(UserWarning, match=r"0 \(Linear: runs mm outside any site\)"):
        model(torch.randn(3, 4))


def test_products_that_are_recomputed_without_their_module_are_named():
    class Checkpointing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def multiply(self, x):
            return x @ self.weight

        def forward(self, x):
            return checkpoint(self.multiply, x, use_reentrant=True)

    model = bc.quantize(Checkpointing())
    with pytest.warns(UserWarning, match=r"what it checkpoints \(matmul\) is recomputed in full precision"):
        model(torch.randn(3, 4, requires_grad=True))


class MultiplyFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight.mT, x.mT @ grad_output


def test_gradient_products_of_autograd_functions_are_named():
    class Multiply(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            return MultiplyFunction.apply(x, self.weight)

    model = Multiply()
    bc.quantize(model)
    with pytest.warns(UserWarning, match=r"backward of its autograd functions \(MultiplyFunction\) computes in full"):
        model(torch.randn(3, 4))
    c = bc.cost(model, torch.randn(3, 4, requires_grad=True))
    [row] = c.rows
    assert (row.name, row.quantized, row.macs, row.input_gradient, row.weight_gradient) == (":matmul", True, 48, 0, 0)
    assert c.uncounted == ("gradient products of MultiplyFunction at :matmul",)


class Propagate(nn.Module):
    def forward(self, x):
        return torch.eye(3).to_sparse() @ x


class Spectral(nn.Module):
    def forward(self, x):
        return torch.fft.irfft(torch.einsum("bki,bko->bio", *2 * [torch.fft.rfft(x, dim=1)]), dim=1)


@pytest.mark.parametrize(("make", "shape", "name"), [(Propagate, (3, 4), "matmul"), (Spectral, (2, 8, 4), "einsum")])
def test_products_of_sparse_and_of_complex_tensors_are_named(make, shape, name):
    model, x = make(), torch.randn(shape)
    expected = model(x)
    bc.set_bits(bc.quantize(model), forward=2, backward=8)
    assert torch.equal(model(x), expected)
    assert not named_sites(model)
    [row] = bc.summary(model).skipped
    assert row.reason == f"products of sparse or complex tensors ({name}) stay in full precision"


@pytest.mark.parametrize(
    ("multiply", "name"),
    [
        (lambda x, out: torch.matmul(x, x, out=out), "matmul"),
        (lambda x, out: torch.addmm(x, x, x, out=out), "addmm"),
        (lambda x, out: torch.linalg.multi_dot([x, x], out=out), "multi_dot"),
        (lambda x, out: torch.tensordot(x, x, 1, out=out), "tensordot"),
        (lambda x, out: torch.linalg.vecdot(x, x, out=out), "vecdot"),
    ],
)
def test_products_with_output_options_are_named(multiply, name):
    class WithOut(nn.Module):
        def forward(self, x, out):
            return multiply(x, out)

    model, x = bc.quantize(WithOut()), torch.randn(3, 3)
    bc.set_bits(model, forward=2)
    out = torch.empty(3 if "vecdot" in name else (3, 3))
    assert torch.equal(model(x, out), multiply(x, torch.empty_like(out)))
    assert not named_sites(model)
    (row,) = bc.summary(model).skipped
    assert row.reason == f"products with out= or out_dtype= ({name}) stay in full precision"
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x, out), out)
    assert not torch.equal(model(x, None), multiply(x, None))
    assert len(named_sites(model)) == 1


def test_a_conversion_that_fails_leaves_a_float_model():
    model = nn.Sequential(nn.Linear(3, 4), WithHelper(attend))
    with pytest.raises(RuntimeError):
        bc.quantize(model, example_inputs=torch.randn(2, 7))
    assert type(model[0]) is nn.Linear
    assert type(model[1]) is WithHelper
    bc.quantize(model, example_inputs=torch.randn(2, 3))


@pytest.mark.parametrize("make", [lambda: pyg.RGCNConv(4, 4, 2), lambda: pyg.GatedGraphConv(4, 2)])
@pytest.mark.parametrize("aggregation", ["full", "quantized"])
def test_products_inside_of_message_passing_are_sites(make, aggregation):
    layer = bc.quantize(make(), bc.Recipe(aggregation=aggregation))
    edges = torch.tensor([[0, 1], [1, 0]])
    inputs = (torch.randn(2, 4), edges) + ((torch.tensor([0, 1]),) if isinstance(layer, pyg.RGCNConv) else ())
    summary = bc.summary(layer, inputs)
    assert any(":" in row.name for row in summary.sites)
    assert not any("outside" in row.reason for row in summary.skipped)


# Input that torch refuses


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"key_padding_mask": torch.zeros(1, 2, dtype=torch.bool)}, "key_padding_mask must have the shape"),
        ({"attn_mask": torch.zeros(1, 4)}, "attn_mask must have the shape"),
        ({"attn_mask": torch.zeros(4)}, "attn_mask must have the shape"),
        ({"key_padding_mask": torch.zeros(1, 4, dtype=torch.long)}, "Boolean or floating-point, got torch.int64"),
        ({"is_causal": True}, "must be given with it"),
    ],
)
def test_masks_that_do_not_fit_are_refused(masks, message):
    layer = bc.quantize(nn.MultiheadAttention(4, 1, batch_first=True))
    bc.set_bits(layer, forward=8)
    x = torch.randn(1, 4, 4)
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        layer(x, x, x, **masks)
    with pytest.raises(ValueError, match="batch of 3"):
        layer(torch.randn(3, 4, 4), x, x)


@pytest.mark.parametrize("need_weights", [True, False])
def test_queries_that_attend_to_nothing_are_not_a_number_only_where_they_are_in_float(need_weights):
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 4, 8)
    causal, padded = torch.ones(4, 4, dtype=torch.bool).triu(1), torch.zeros(2, 4, dtype=torch.bool)
    padded[0, 0] = True  # the first query of the first sample may attend to the first key only
    options = {"attn_mask": causal, "key_padding_mask": padded, "need_weights": need_weights}
    expected, _ = layer(x, x, x, **options)
    bc.quantize(layer)
    bc.set_bits(layer, forward=16, backward=None)
    out, _ = layer(x, x, x, **options)
    assert expected.isnan().any() == need_weights
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2, equal_nan=True)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("padding", ["left", "minus infinity"])
def test_masked_rows_of_a_language_model(implementation, padding):
    """What attends to nothing is what the float model makes of it, at any mask."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.LlamaConfig(**sizes, vocab_size=50, attn_implementation=implementation)
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.randint(0, 50, (2, 4))
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    if padding == "minus infinity":
        allowed = torch.ones(4, 4, dtype=torch.bool).tril() & (mask[:, None, None, :] > 0)
        mask = torch.zeros(2, 1, 4, 4).masked_fill(~allowed, -torch.inf)
    expected = model(tokens, attention_mask=mask).logits
    bc.set_bits(bc.quantize(model), evaluate=16)
    torch.testing.assert_close(model(tokens, attention_mask=mask).logits, expected, rtol=0, atol=2e-3, equal_nan=True)


@pytest.mark.parametrize(
    ("make", "state"), [(nn.LSTM, ((1, 1, 4), (1, 1, 4))), (nn.GRU, (2, 6, 4)), (nn.RNN, (1, 6, 3))]
)
def test_states_that_do_not_fit_are_refused(make, state):
    layer = bc.quantize(make(4, 4))
    bc.set_bits(layer, forward=8)
    hx = tuple(map(torch.zeros, state)) if make is nn.LSTM else torch.zeros(state)
    with pytest.raises(RuntimeError, match="Expected hidden"):
        layer(torch.randn(5, 6, 4), hx)


# Names, rules and noise


def test_copies_of_a_converted_layer_have_names_and_noise_of_their_own():
    layer = bc.quantize(nn.TransformerEncoderLayer(8, 2, 16))
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    found = named_sites(model)
    assert {"layers.0.linear1", "layers.1.linear1"} <= set(found)
    assert len({site.key for site in found.values()}) == len(found)


def test_parts_that_were_converted_on_their_own_are_addressed_in_the_whole():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = bc.quantize(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), keep="1")
            self.decoder = bc.quantize(nn.Sequential(nn.Linear(2, 2)))

    model = Whole()
    bc.set_bits(model, forward=3, where="encoder.*")
    assert {row.name: row.forward for row in bc.summary(model).sites} == {"encoder.0": 3, "decoder.0": None}
    assert {row.name: row.reason for row in bc.summary(model).skipped}["encoder.1"] == "kept by rule '1'"


def test_a_class_rule_may_mean_the_model_itself():
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="no quantised layer"):
        sites(bc.quantize(model, keep=nn.Sequential))
    bc.restore(model)
    assert list(sites(bc.quantize(model, where=nn.Sequential))) == ["0"]


def test_a_shared_module_goes_by_all_its_names():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.c = nn.Linear(2, 2)

    assert list(named_sites(bc.quantize(Shared(), keep="b"))) == ["c"]


# What is no unknown product


def test_no_false_alarms():
    class Scaled(nn.Embedding):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Scaled(5, 2), parametrizations.spectral_norm(nn.Linear(2, 2)))
    bc.quantize(model)
    reasons = {row.name: row.reason for row in bc.summary(model).skipped}
    assert reasons["0"].startswith("embeddings stay in full precision")


# Gradients


def test_one_infinite_activation_does_not_spoil_the_whole_weight_gradient():
    x = torch.ones(4, 3)
    x[2, 1] = torch.inf
    layer = bc.quantize(nn.Linear(3, 2))
    bc.set_bits(layer, forward=4, backward=None)
    layer(x)[[0, 1, 3]].sum().backward()
    assert layer.weight.grad[:, [0, 2]].isfinite().all()
    assert not layer.weight.grad[:, 1].isfinite().any()


@pytest.mark.parametrize(("inside", "outside"), [(4, 0), (0, 4)])
def test_layers_without_inputs_or_outputs(inside, outside):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = bc.quantize(nn.Linear(inside, outside))
    bc.set_bits(layer, forward=4, backward=8)
    layer(torch.randn(3, inside, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("norm", [parametrizations.weight_norm, functools.partial(l1_unstructured, amount=0.5)])
def test_recurrent_weights_that_are_made_of_others(norm):
    layer = nn.LSTM(4, 4)
    norm(layer, name="weight_hh_l0")
    bc.quantize(layer)
    bc.set_bits(layer, forward=4, backward=8)
    layer(torch.randn(5, 2, 4))[0].sum().backward()


# Schedulers, summaries, schedules


def test_a_total_that_does_not_fit_changes_nothing():
    p = bc.PrecisionScheduler(bc.quantize(nn.Linear(2, 2)), "deficit(3@0..50, static:8)", total_steps=100)
    with pytest.raises(ValueError, match="is outside"):
        p.total_steps = 20
    assert p.total_steps == 100


def test_a_summary_takes_any_mapping_and_changes_no_statistics():
    model = bc.quantize(nn.Sequential(collections.OrderedDict(conv=nn.Conv2d(1, 2, 3), norm=nn.BatchNorm2d(2))))
    before, random = model.norm.running_mean.clone(), torch.get_rng_state()
    bc.summary(model, collections.UserDict(input=torch.randn(2, 1, 5, 5, generator=torch.Generator())))
    assert torch.equal(model.norm.running_mean, before)
    assert torch.equal(torch.get_rng_state(), random)
