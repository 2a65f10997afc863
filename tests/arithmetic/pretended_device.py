"""Train a step on a pretended device, whose tensors have no values: whatever reads one raises an error.

Run it in a process of its own: the device is registered for the whole process. torch without CUDA cannot differentiate
on a pretended "cuda", but it can on the device that it keeps for backends written in Python.
"""

import os
import sys
import traceback

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import bitcycle as bc
from bitcycle.conversion.sites import sites

DEVICE = "pretended"


class Pretending(TorchDispatchMode):
    """Create tensors on the pretended device as fake tensors. Tensors on the CPU are real ones."""

    def __init__(self):
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is None or torch.device(device).type != DEVICE:
            return func(*args, **kwargs)
        with self.fake:
            return func(*args, **kwargs)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 16, 3, padding=1)
        self.lstm = nn.LSTM(16, 12)
        self.attention = nn.MultiheadAttention(12, 3)
        self.linear = nn.Linear(12, 4)

    def forward(self, x):
        h = self.convolution(x).flatten(2).permute(2, 0, 1)
        h, _ = self.lstm(h)
        h, _ = self.attention(h, h, h)
        return self.linear(h)


def move(model):
    """Give a model parameters on the pretended device."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.empty(parameter.shape, device=DEVICE)))


def train(recipe, execute):
    """Train a step, evaluate, and return how the sites computed."""
    model = bc.quantize(Model(), recipe, execute=execute)
    precision = bc.PrecisionScheduler(model, "CR:3-8", total_steps=10, backward_bits=8)
    with Pretending():
        move(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        x = torch.empty(9, 3, 2, 1, device=DEVICE, requires_grad=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        precision.step()
        assert x.grad.device.type == loss.device.type == DEVICE
        assert all(parameter.grad is not None for parameter in model.parameters())
        model.eval()
        with torch.no_grad():
            model(x)
        try:
            loss.item()
        except DataDependentOutputException:
            pass
        else:
            raise AssertionError("a value of the pretended device was read")
    return {str(site.plan) for site in sites(model).values()}


def main():
    _setup_privateuseone_for_python_backend(DEVICE)
    computed = set()
    for execute in ("simulated", "integer"):
        for recipe in (
            bc.Recipe(),
            bc.Recipe(gradients="nearest", bias=True),
            bc.Recipe(activations="row"),
            bc.Recipe(weights="tensor", activations="tensor"),
        ):
            computed |= train(recipe, execute)
    assert "integer" in computed


if __name__ == "__main__":
    status = 0
    try:
        main()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)  # the threads of the pretended device do not end by themselves
