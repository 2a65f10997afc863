"""The three lines of advice do what they say."""

import torch
from torch import nn

import bitcycle as bc
from bitcycle.lab.advice import advise


def test_the_three_lines_run():
    advice = advise("cost", "graph", steps=4000)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    names = {"bc": bc, "model": model}
    exec(advice.code, names)
    precision = names["precision"]
    assert precision.current_step == 1
    assert precision.schedule == advice.schedule
    assert precision.backward_bits == 8
    model(torch.ones(2, 4)).sum().backward()
