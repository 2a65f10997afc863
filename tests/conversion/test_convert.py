"""Conversion: rules, summaries, and models of all kinds."""

import copy
import warnings

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.rules import POLICIES
from bitcycle.conversion.sites import sites
from bitcycle.lab.models.resnets import CifarResNet


def names(model):
    return list(sites(model))


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()
        self.attention = nn.MultiheadAttention(4, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = self.body(x)
        return self.head(self.attention(h, h, h)[0])


# Rules


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ({}, ["body.0", "body.2", "body.4", "attention", "head"]),
        ({"keep": "head"}, ["body.0", "body.2", "body.4", "attention"]),
        ({"keep": ("head", "body")}, ["attention"]),
        ({"keep": "body.[02]"}, ["body.4", "attention", "head"]),
        ({"keep": nn.MultiheadAttention}, ["body.0", "body.2", "body.4", "head"]),
        ({"keep": nn.Sequential}, ["attention", "head"]),
        ({"where": "body.*"}, ["body.0", "body.2", "body.4"]),
        ({"where": nn.Linear, "keep": "head"}, ["body.0", "body.2", "body.4"]),
    ],
)
def test_rules(rules, left):
    model = bc.quantize(Nested(), **rules)
    with_sites = [
        name for name, module in model.named_modules() if "bitcycle" in vars(module) and module.bitcycle.sites
    ]
    assert with_sites == left


def test_a_rule_may_name_one_site_of_a_layer():
    model = bc.quantize(Nested(), keep=("attention.scores", "*.out_proj"))
    bc.set_bits(model, forward=4)
    summary = bc.summary(model)
    rows = {row.name: (row.forward, row.skip) for row in summary.sites}
    assert rows["attention.scores"] == (None, Skip(SkipKind.KEPT_BY_RULE, ("attention.scores",)))
    assert rows["attention.out_proj"] == (None, Skip(SkipKind.KEPT_BY_RULE, ("*.out_proj",)))
    assert rows["attention.context"] == (4, None)
    assert "(kept by rule 'attention.scores')" in str(summary)


def test_rules_that_match_nothing_are_reported():
    with pytest.warns(UserWarning, match=r"matched nothing: 'haed' \(did you mean 'head'\?\)"):
        bc.quantize(Nested(), keep="haed")


def test_summary_gives_the_reasons():
    model = bc.quantize(Nested(), keep="head")
    reasons = {row.name: row.reason for row in bc.summary(model).skipped}
    assert reasons["head"] == "kept by rule 'head'"
    assert reasons["body.1"] == "no product"
    assert "attention.out_proj" not in reasons
    assert bc.summary(nn.Linear(2, 2)).skipped[0].reason == "not converted"


def test_policies_of_the_paper():
    assert set(POLICIES) == {"cifar-resnet", "imagenet-resnet", "retinanet", "gnn", "lstm", "bert"}
    total = len(names(bc.quantize(CifarResNet(8))))
    cifar, imagenet = (names(bc.quantize(CifarResNet(8), policy=p)) for p in ("cifar-resnet", "imagenet-resnet"))
    assert len(cifar) == total - 1
    assert "fc" not in cifar
    assert "conv1" in cifar
    assert len(imagenet) == total - 2
    assert not {"fc", "conv1"} & set(imagenet)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "imagenet"}, "did you mean 'imagenet-resnet'"),
        ({"keep": 3}, "a rule must be a name"),
        ({"keep": (3,)}, "a rule must be a name such as 'fc'"),
        ({"recipe": "paper"}, "recipe must be a bc.Recipe"),
    ],
)
def test_misuse(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bc.quantize(mlp(), **arguments)


def test_converting_twice_is_refused():
    with pytest.raises(ValueError, match="the model is already quantised: call bc.restore"):
        bc.quantize(bc.quantize(mlp()))


def test_what_is_no_model():
    with pytest.raises(TypeError, match=r"takes a torch.nn.Module, got Tensor"):
        bc.quantize(torch.zeros(3))
    with pytest.raises(ValueError, match="convert it first with bc.quantize"):
        bc.set_bits(mlp(), forward=4)


@pytest.mark.parametrize("bits", [0, 17, 2.5, "4", True])
def test_widths_out_of_range(bits):
    model = bc.quantize(mlp())
    with pytest.raises(ValueError, match="forward must be an integer from 1 to 16 or None"):
        bc.set_bits(model, forward=bits)
    assert sites(model)["0"].forward_bits is None


def test_bits_of_some_sites():
    model = bc.quantize(Nested())
    bc.set_bits(model, forward=8, backward=8)
    bc.set_bits(model, forward=3, where="body.*")
    bc.set_bits(model, backward=None, where=["head", "attention.scores"])
    bits = {name: (site.forward_bits, site.backward_bits) for name, site in sites(model).items()}
    assert bits["body.0"] == (3, 8)
    assert bits["head"] == (8, None)
    assert bits["attention.scores"] == (8, None)
    assert bits["attention.context"] == (8, 8)
    with pytest.raises(ValueError, match="no site matches 'tail'"):
        bc.set_bits(model, forward=3, where="tail")
    for where in (nn.Linear, 0):
        with pytest.raises(ValueError, match="where must be names of sites"):
            bc.set_bits(model, forward=3, where=where)


# What is not known


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return self.mixed(x)

    def mixed(self, x):
        return torch.einsum("bi,oi->bo", x, self.weight)


class OwnLinear(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_what_multiplies_and_is_not_known_is_named_once():
    class OwnLSTM(nn.LSTM):
        def forward(self, x):
            return super().forward(x)[0]

    model = bc.quantize(nn.Sequential(OwnLSTM(4, 4), OwnLSTM(4, 4), nn.Linear(4, 4)))
    both = r"0 \(OwnLSTM: runs \w+ outside any site\); 1 \(OwnLSTM: runs \w+ outside any site\)"
    with pytest.warns(UserWarning, match=f"^these products stay in full precision: {both}$") as caught:
        model(torch.randn(3, 4))
    assert len(caught) == 1
    assert [row.name for row in bc.summary(model).skipped] == ["0", "1"]
    model(torch.randn(3, 4))  # a second warning would be an error


def test_products_in_code_become_sites_when_it_runs():
    model = bc.quantize(nn.Sequential(Unknown(), OwnLinear(4, 4), nn.Linear(4, 4)))
    reasons = {row.name: row.reason for row in bc.summary(model).skipped}
    assert reasons["0"] == "products in its code become sites when it first runs"
    model(torch.randn(3, 4))
    assert [row.name for row in bc.summary(model).sites] == ["0:einsum", "1:linear", "2"]
    assert not {"0", "1"} & {row.name for row in bc.summary(model).skipped}


def test_signal_to_noise_grows_by_six_decibels_a_bit():
    torch.manual_seed(0)
    model, x = bc.quantize(nn.Linear(64, 64)), torch.randn(256, 64)
    ratios = []
    for bits in (2, 4, 8):
        bc.set_bits(model, forward=bits)
        ratios.append(bc.summary(model, x).sites[0].snr)
    for operand in ("a", "b"):
        assert 8 < ratios[1][operand] - ratios[0][operand] < 18
        assert 20 < ratios[2][operand] - ratios[1][operand] < 28
    assert "SNR" in str(bc.summary(model, x))


# Models of every make


def test_tied_weights_and_shared_modules():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.shared = nn.Linear(8, 8)
            self.again = self.shared
            self.decode = nn.Linear(8, 10, bias=False)
            self.decode.weight = self.embed.weight

        def forward(self, x):
            return self.decode(self.again(self.shared(self.embed(x))))

    model = bc.quantize(Tied())
    bc.set_bits(model, forward=4, backward=8)
    assert [name for name in names(model) if ":" not in name] == ["shared", "decode"]
    model(torch.tensor([1, 2])).sum().backward()
    assert model.decode.weight is model.embed.weight
    assert bc.restore(model).again is model.shared


def test_parametrised_weights():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)))
    x, kind = torch.randn(3, 6), type(model[0])
    expected = model(x)
    bc.quantize(model)
    bc.set_bits(model, forward=3, backward=8)
    assert not torch.equal(model(x), expected)
    model(x).sum().backward()
    assert model[0].parametrizations.weight.original0.grad is not None
    assert torch.equal(copy.deepcopy(model)(x), model(x))
    bc.restore(model)
    assert type(model[0]) is kind
    assert torch.equal(model(x), expected)


def test_a_layer_that_was_changed_after_conversion_is_refused_before_any_is_restored():
    model = bc.quantize(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    bc.set_bits(model, forward=4)
    nn.utils.parametrizations.weight_norm(model[1])
    classes = [type(layer) for layer in model]
    with pytest.raises(ValueError, match="changed after conversion"):
        bc.restore(model)
    assert [type(layer) for layer in model] == classes
    assert [row.forward for row in bc.summary(model).sites] == [4, 4]
    nn.utils.parametrize.remove_parametrizations(model[1], "weight")
    assert [type(layer) for layer in bc.restore(model)] == [nn.Linear, nn.Linear]


def test_lazy_modules_learn_their_shape_and_are_quantised():
    model = bc.quantize(nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(3)))
    bc.set_bits(model, forward=3, backward=8)
    x = torch.randn(2, 3, 6, 6)
    model(x).sum().backward()
    assert all(row.ran for row in bc.summary(model, x).sites)
    bc.restore(model)
    assert [type(module) for module in model] == [nn.Conv2d, nn.Flatten, nn.Linear]
    untouched = bc.restore(bc.quantize(nn.LazyLinear(3)))
    untouched(torch.randn(2, 5))
    assert type(untouched) is nn.Linear


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", [nn.DataParallel, torch.compile])
def test_wrapped_models_are_refused(wrapper):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = wrapper(mlp())
    with pytest.raises(ValueError, match="convert it first, then"):
        bc.quantize(wrapped)


def test_packed_sequences():
    for make in (nn.LSTM, nn.GRU, nn.RNN):
        torch.manual_seed(0)
        layer = make(4, 5, 2, bidirectional=True).double()
        sequences = [torch.randn(n, 4, dtype=torch.float64) for n in (3, 7, 5)]
        packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
        bc.quantize(layer, bc.Recipe(activations="row"))  # with a grid a row, no sequence depends on another
        bc.set_bits(layer, forward=4)
        out, last = layer(packed)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
        assert lengths.tolist() == [3, 7, 5]
        for i, sequence in enumerate(sequences):
            alone, alone_last = layer(sequence)
            torch.testing.assert_close(padded[: len(sequence), i], alone)
            for a, b in zip(
                last if isinstance(last, tuple) else (last,),
                alone_last if isinstance(alone_last, tuple) else (alone_last,),
                strict=True,
            ):
                torch.testing.assert_close(a[:, i], b)


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
def test_variants_of_recurrent_layers_at_sixteen_bits():
    for layer, x in (
        (nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), torch.randn(5, 2, 4)),
        (nn.LSTM(4, 6, batch_first=True, bias=False), torch.randn(2, 5, 4)),
        (nn.GRU(4, 6), torch.randn(5, 4)),
        (nn.RNN(4, 6, nonlinearity="relu"), torch.randn(5, 2, 4)),
    ):
        expected, _ = layer(x)
        bc.quantize(layer)
        bc.set_bits(layer, forward=16)
        torch.testing.assert_close(layer(x)[0], expected, rtol=1e-3, atol=1e-3)


def test_initial_states_are_used():
    layer, x = bc.quantize(nn.LSTM(4, 6)), torch.randn(5, 2, 4)
    bc.set_bits(layer, forward=16)
    state = (torch.randn(1, 2, 6), torch.randn(1, 2, 6))
    got, _ = layer(x, state)
    bc.set_bits(layer, forward=None)
    torch.testing.assert_close(got, layer(x, state)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"bias": False}, {"batch_first": True}]
)
@pytest.mark.parametrize("per_head", [True, False])
def test_masks_of_attention_at_sixteen_bits(options, per_head):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, **options)
    q, k = (torch.randn(2, n, 8) for n in (4, 5))
    if not options.get("batch_first"):
        q, k = q.transpose(0, 1), k.transpose(0, 1)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    mask = torch.ones(4, 5, dtype=torch.bool).triu(2)
    if per_head:
        mask = torch.zeros(4, 4, 5).masked_fill(mask, -torch.inf)
        padding = torch.zeros(2, 5).masked_fill(padding, -torch.inf)
    arguments = {"key_padding_mask": padding, "attn_mask": mask, "average_attn_weights": not per_head}
    expected = layer(q, k, k, **arguments)
    bc.quantize(layer)
    bc.set_bits(layer, forward=16)
    for ours, theirs in zip(layer(q, k, k, **arguments), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert layer(q, k, k, need_weights=False)[1] is None


@pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
def test_the_fused_path_of_an_encoder_does_not_go_around_the_sites():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False, False, False, True, True]])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        bc.quantize(model)
        bc.set_bits(model, forward=None)
        assert torch.equal(model(x, src_key_padding_mask=padding), expected)
        bc.set_bits(model, forward=2)
        fused = model(x, src_key_padding_mask=padding)
    plain = model(x, src_key_padding_mask=padding)
    assert torch.equal(fused, plain)
    assert (fused - expected)[0].abs().max() > 0.05
