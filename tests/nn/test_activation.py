"""Conversion replaces ReLU by one that saves less, and nothing else about it changes."""

import copy
import pickle

import torch
from torch import nn

import bitcycle as bc


def network(inplace=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace), nn.Linear(8, 2))


def step(model, x):
    model.zero_grad()
    out = model(x)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters())]


def test_same_training_step():
    x = torch.randn(16, 8)
    for inplace in (False, True):
        light, plain = network(inplace), network(inplace)
        bc.quantize(light, execute="simulated")
        bc.quantize(plain, execute="simulated")
        plain[2] = nn.ReLU(inplace)
        for model in (light, plain):
            bc.set_bits(model, forward=4, backward=8)
        for ours, theirs in zip(step(light, x), step(plain, x), strict=True):
            assert torch.equal(ours, theirs)


def test_it_stays_a_relu():
    model = network()
    names = list(model.state_dict())
    bc.quantize(model)
    assert isinstance(model[2], nn.ReLU)
    assert repr(model[2]) == "ReLU()"
    assert list(model.state_dict()) == names
    assert [row.layer for row in bc.summary(model).skipped] == ["BatchNorm1d", "ReLU"]
    assert [row.name for row in bc.summary(model).sites] == ["0", "3"]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other[2]) is type(model[2])
    bc.restore(model)
    assert type(model[2]) is nn.ReLU
    assert "bitcycle" not in vars(model[2])


def test_relu_of_an_encoder_layer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    before = layer.activation
    bc.quantize(layer)
    assert layer.activation is not before
    bc.restore(layer)
    assert layer.activation is before
    gelu = bc.quantize(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True))
    assert gelu.activation is torch.nn.functional.gelu


def test_a_forward_of_its_own_is_left_alone():
    class Shifted(nn.ReLU):
        def forward(self, input):
            return super().forward(input) + 1

    model = nn.Sequential(nn.Linear(2, 2), Shifted())
    x = torch.tensor([[-1.0, 2.0]])
    expected = model[1](x)
    bc.quantize(model)
    assert isinstance(model[1], Shifted)
    assert torch.equal(model[1](x), expected)
