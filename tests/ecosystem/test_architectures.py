"""Real architectures with random weights: converted, trained a few steps on a schedule, summarised, restored."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import bitcycle as bc
from bitcycle.arithmetic.skip import SkipKind
from bitcycle.conversion.running import run_model
from bitcycle.lab.models.resnets import CifarResNet
from tests.ecosystem.test_coverage import GRAPHS, IMAGES, OWN, build_transformer, quiet

__all__ = ["quiet"]


def transformer(name, attention):
    model, inputs = build_transformer(name)
    model.set_attn_implementation(attention)
    if "attention_mask" in inputs:
        inputs = {**inputs, "attention_mask": torch.tensor([[1] * 12, [1] * 9 + [0] * 3])}
    return model, inputs


def torch_transformer():
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    return model, {"src": torch.randn(2, 5, 16), "tgt": torch.randn(2, 4, 16)}


MODELS = {
    "resnet": (lambda: (CifarResNet(8), IMAGES), {}),
    "depthwise": (OWN["timm-like EfficientNet"], {}),
    "nn.Transformer": (torch_transformer, {}),
    "lstm": (lambda: (nn.LSTM(6, 8, num_layers=2, bidirectional=True), torch.randn(5, 3, 6)), {}),
    **{
        f"{name} {attention}": (lambda n=name, a=attention: transformer(n, a), {})
        for name in ("BERT", "GPT-2", "T5", "ViT", "Llama")
        for attention in ("sdpa", "eager")
    },
    **{
        f"{name} {aggregation}": (GRAPHS[name], {"aggregation": aggregation})
        for name in ("GCN", "SAGE", "GAT", "GIN")
        for aggregation in ("full", "quantized")
    },
}


def loss_of(model, inputs):
    outputs = [x for x in tree_leaves(run_model(model, inputs)) if isinstance(x, Tensor)]
    return (outputs[0] - 1).square().mean()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*batch_first was not True.*:UserWarning")
def test_convert_train_restore(name):
    torch.manual_seed(0)
    make, recipe = MODELS[name]
    model, inputs = make()
    float_model = copy.deepcopy(model)
    keys, parameters = list(model.state_dict()), list(model.parameters())

    bc.quantize(model, bc.Recipe(**recipe))
    assert list(model.state_dict()) == keys
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    bc.set_bits(model, forward=None)
    model.eval()
    float_model.eval()
    with torch.no_grad():
        assert torch.equal(loss_of(model, inputs), loss_of(float_model, inputs))

    model.train()
    precision = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=4, backward_bits=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(model, inputs).backward()
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
        assert torch.equal(loss_of(model, inputs), loss_of(float_model, inputs))
