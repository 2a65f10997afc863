"""Measure how much slower a simulated low-precision training step is than a float step.

    python benchmarks/training_step.py [--rounds 15]

Float and quantised steps alternate in one process, on one thread. Prints the ratio of the median times. Simulation
rounds values and then multiplies in float, so it is always slower: its saving is counted in BitOps, not in time.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bitcycle as bc
from bitcycle.experiments.models.cifar_resnet import CifarResNet


def image_model() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    x, y = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
    return CifarResNet(20), lambda model: F.cross_entropy(model(x), y)


class Language(nn.Module):
    """Embedding, LSTM, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, 200)
        self.lstm = nn.LSTM(200, 200)
        self.decode = nn.Linear(200, 2000)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decode(self.lstm(self.embed(tokens))[0])


def language_model() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    tokens = torch.randint(0, 2000, (36, 20))
    return Language(), lambda model: F.cross_entropy(model(tokens[:-1]).flatten(0, 1), tokens[1:].flatten())


def transformer_model() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    x = torch.randn(16, 64, 128)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), lambda model: model(x).square().mean()


MODELS = {"ResNet-20": image_model, "LSTM": language_model, "Transformer": transformer_model}


def measure(make: Callable[[], tuple[nn.Module, Callable[[nn.Module], Tensor]]], rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    model, loss_of = make()
    steps = {}
    settings = {"float": None, "stochastic": bc.Recipe(), "nearest": bc.Recipe(gradients="nearest")}
    for name, recipe in settings.items():
        candidate = copy.deepcopy(model)
        scheduler = None
        if recipe is not None:
            bc.quantize(candidate, recipe)
            scheduler = bc.PrecisionScheduler(candidate, "CR:3-8", total_steps=10 * rounds)
        optimizer = torch.optim.SGD(candidate.parameters(), lr=0.01)
        steps[name] = (candidate, scheduler, optimizer)
    seconds: dict[str, list[float]] = {name: [] for name in settings}
    warm_up = 2
    for turn in range(warm_up + rounds):
        for name, (candidate, scheduler, optimizer) in steps.items():
            start = time.perf_counter()
            optimizer.zero_grad()
            loss_of(candidate).backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed steps of each kind; default: 15")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'model':12}  {'float':>9}  {'stochastic':>10}  {'nearest':>8}")
    for name, make in MODELS.items():
        times = measure(make, rounds)
        ratios = [times[kind] / times["float"] for kind in ("stochastic", "nearest")]
        print(f"{name:12}  {1000 * times['float']:6.1f} ms  {ratios[0]:9.2f}x  {ratios[1]:7.2f}x")


if __name__ == "__main__":
    main()
