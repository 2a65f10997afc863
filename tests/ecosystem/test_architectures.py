"""Real architectures with random weights: converted, trained a few steps on a schedule, summarised, restored."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn as pyg
    import transformers

import bitcycle as bc
from bitcycle.arithmetic.skip import SkipKind
from bitcycle.lab.models.cifar_resnet import CifarResNet

IDS = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def image(model, classes=10):
    return model, {"x": torch.randn(4, 3, 32, 32)}, lambda out: F.cross_entropy(out, torch.arange(4) % classes)


def resnet():
    return image(CifarResNet(8))


def depthwise():
    """Inverted residuals as in MobileNetV2."""

    class Inverted(nn.Module):
        def __init__(self, inside, outside, stride):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(inside, 4 * inside, 1, bias=False),
                nn.BatchNorm2d(4 * inside),
                nn.ReLU6(),
                nn.Conv2d(4 * inside, 4 * inside, 3, stride, 1, groups=4 * inside, bias=False),
                nn.BatchNorm2d(4 * inside),
                nn.ReLU6(),
                nn.Conv2d(4 * inside, outside, 1, bias=False),
                nn.BatchNorm2d(outside),
            )
            self.same = stride == 1 and inside == outside

        def forward(self, x):
            return x + self.layers(x) if self.same else self.layers(x)

    class Net(nn.Sequential):
        def forward(self, x):
            return super().forward(x)

    blocks = [Inverted(8, 8, 1), Inverted(8, 16, 2)]
    return image(Net(nn.Conv2d(3, 8, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)))


def torch_transformer():
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    return model, {"src": torch.randn(2, 5, 16), "tgt": torch.randn(2, 4, 16)}, lambda out: (out - 1).square().mean()


def lstm():
    model = nn.LSTM(6, 8, num_layers=2, bidirectional=True)
    return model, {"input": torch.randn(5, 3, 6)}, lambda out: (out[0] - 1).square().mean()


def bert(attention):
    config = transformers.BertConfig(**SIZES, vocab_size=50, num_labels=3, attn_implementation=attention)
    inputs = {"input_ids": IDS, "attention_mask": MASK, "labels": torch.tensor([0, 2])}
    return transformers.BertForSequenceClassification(config), inputs, lambda out: out.loss


def gpt2(attention):
    config = transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0,
        attn_implementation=attention, loss_type="ForCausalLM",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS, "labels": IDS}, lambda out: out.loss


def t5(attention):
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=50, decoder_start_token_id=0,
        attn_implementation=attention,
    )  # fmt: skip
    inputs = {"input_ids": IDS, "attention_mask": MASK, "labels": IDS}
    return transformers.T5ForConditionalGeneration(config), inputs, lambda out: out.loss


def vit(attention):
    config = transformers.ViTConfig(**SIZES, image_size=16, patch_size=8, attn_implementation=attention)
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
    return transformers.ViTForImageClassification(config), inputs, lambda out: out.loss


def llama(attention):
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=1, vocab_size=50, attn_implementation=attention)
    inputs = {"input_ids": IDS, "attention_mask": MASK, "labels": IDS}
    return transformers.LlamaForCausalLM(config), inputs, lambda out: out.loss


def graph(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = make(6, 8), make(8, 3)

        def forward(self, x, edges):
            return self.second(self.first(x, edges).relu(), edges)

    generator = torch.Generator().manual_seed(0)
    inputs = {"x": torch.randn(20, 6, generator=generator), "edges": torch.randint(0, 20, (2, 80), generator=generator)}
    return Net(), inputs, lambda out: F.cross_entropy(out, torch.arange(20) % 3)


def gin(inside, outside):
    return pyg.GINConv(nn.Sequential(nn.Linear(inside, 8), nn.ReLU(), nn.Linear(8, outside)))


PLAIN = {"resnet": resnet, "depthwise": depthwise, "nn.Transformer": torch_transformer, "lstm": lstm}
GRAPHS = {
    "gcn": pyg.GCNConv,
    "sage": pyg.SAGEConv,
    "gat": lambda inside, outside: pyg.GATConv(inside, outside, heads=2, concat=False),
    "gin": gin,
}
MODELS = {
    **{name: (make, bc.Recipe()) for name, make in PLAIN.items()},
    **{
        f"{make.__name__} {attention}": (lambda m=make, a=attention: m(a), bc.Recipe())
        for make in (bert, gpt2, t5, vit, llama)
        for attention in ("sdpa", "eager")
    },
    **{
        f"{name} {aggregation}": (lambda m=make: graph(m), bc.Recipe(aggregation=aggregation))
        for name, make in GRAPHS.items()
        for aggregation in ("full", "quantized")
    },
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*batch_first was not True.*:UserWarning")
def test_convert_train_restore(name):
    torch.manual_seed(0)
    make, recipe = MODELS[name]
    model, inputs, loss_of = make()
    float_model = copy.deepcopy(model)
    keys, parameters = list(model.state_dict()), list(model.parameters())

    bc.quantize(model, recipe)
    assert list(model.state_dict()) == keys
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    bc.set_bits(model, forward=None)
    model.eval()
    float_model.eval()
    with torch.no_grad():
        assert torch.equal(loss_of(model(**inputs)), loss_of(float_model(**inputs)))

    model.train()
    precision = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=6, backward_bits=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(6):
        optimizer.zero_grad()
        loss_of(model(**inputs)).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
        optimizer.step()
        precision.step()

    summary = bc.summary(model, inputs)
    assert all(row.ran for row in summary.sites), "a site that never runs"
    assert not [row for row in summary.skipped if any(s.kind is SkipKind.RAN_OUTSIDE_SITES for s in row.skips)]

    trained = copy.deepcopy(model.state_dict())
    bc.restore(model)
    float_model.load_state_dict(trained)
    assert [type(m) for m in model.modules()] == [type(m) for m in float_model.modules()]
    assert [set(vars(m)) for m in model.modules()] == [set(vars(m)) for m in float_model.modules()]
    model.eval()
    with torch.no_grad():
        assert torch.equal(loss_of(model(**inputs)), loss_of(float_model(**inputs)))
