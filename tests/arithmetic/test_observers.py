"""Observers belong to a context, and see nothing of other threads."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import Observer, observing
from bitcycle.arithmetic.observers import current_observers


class Names(Observer):
    def __init__(self):
        self.names = []

    def multiplied(self, site, product, a, b, out):
        self.names.append((site.name, product.kind))


def model_of_two(seed=0):
    torch.manual_seed(seed)
    model = bc.quantize(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)))
    bc.set_bits(model, forward=4, backward=3)
    return model


def test_an_observer_sees_products_inside_its_block_alone():
    model, x = model_of_two(), torch.randn(3, 6)
    outer, inner = Names(), Names()
    with observing(outer):
        model(x)
        with observing(inner):
            model[0](x)
    model(x)
    assert outer.names == [("0", "Linear"), ("2", "Linear"), ("0", "Linear")]
    assert inner.names == [("0", "Linear")]


def test_an_observer_does_not_see_another_thread():
    model, x, observer = model_of_two(), torch.randn(3, 6), Names()

    def run():
        model(x)
        return current_observers()

    with observing(observer), ThreadPoolExecutor(1) as pool:
        assert pool.submit(run).result() == ()
    assert observer.names == []


def test_backward_is_not_observed():
    model, observer = model_of_two(), Names()
    loss = model(torch.randn(3, 6)).sum()
    with observing(observer):
        loss.backward()
    assert observer.names == []
