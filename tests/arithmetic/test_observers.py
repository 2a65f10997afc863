"""Observers belong to a context, and concurrent trainings do not affect each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic import Observer, observing
from bitcycle.arithmetic.observers import current_observers
from tests.kernels.uniform_noise import uniform


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


def test_two_threads_count_two_models_as_one_thread_does():
    small = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    large = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    inputs = {small: torch.zeros(3, 6), large: torch.zeros(5, 16)}
    expected = {model: bc.cost(model, x) for model, x in inputs.items()}
    together = threading.Barrier(2)

    def count(model):
        together.wait()
        return [bc.cost(model, inputs[model]) for _ in range(20)]

    with ThreadPoolExecutor(2) as pool:
        for model, counted in zip(inputs, pool.map(count, inputs), strict=True):
            assert all(c == expected[model] for c in counted)


def test_two_threads_draw_the_noise_that_one_thread_draws():
    like = torch.empty(5000)
    expected = [[uniform(like, thread, draw) for draw in range(100)] for thread in range(2)]
    together = threading.Barrier(2)

    def draw(thread):
        together.wait()
        return [uniform(like, thread, draw) for draw in range(100)]

    with ThreadPoolExecutor(2) as pool:
        for drawn, alone in zip(pool.map(draw, range(2)), expected, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(drawn, alone, strict=True))


def test_two_threads_train_as_one_thread_does():
    def train(model, start=lambda: None):
        p = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=30, backward_bits=3)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        start()
        for step in range(30):
            x = torch.randn(64, 6, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            p.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    expected = [train(model_of_two(seed)) for seed in range(2)]
    models = [model_of_two(seed) for seed in range(2)]
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for trained, alone in zip(pool.map(lambda m: train(m, together.wait), models), expected, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(trained, alone, strict=True))
