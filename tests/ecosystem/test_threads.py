"""Two threads that train or count at the same time get what each would get alone."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import bitcycle as bc


@pytest.fixture(autouse=True)
def _switch_often():
    """Let threads take turns a thousand times more often than usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


class Draws(nn.Module):
    """A module that draws from torch's random state and takes its time."""

    def forward(self, x):
        noise = torch.rand(1)
        time.sleep(0.002)
        return x + noise


class Multiplies(nn.Module):
    """A module whose own forward has products."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, width * width).reshape(width, width))

    def forward(self, x):
        return (x @ self.weight) @ self.weight.T


def perceptron(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), Multiplies(width), nn.Linear(width, 4))


def convolutional(width):
    return nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, width, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))


def together(first, second):
    """Call two functions in two threads that start at the same time, and return both results."""
    start = threading.Barrier(2)

    def run(function):
        start.wait()
        return function()

    with ThreadPoolExecutor(2) as threads:
        return [future.result() for future in [threads.submit(run, function) for function in (first, second)]]


def initialised(model, seed):
    """Give the parameters values that do not depend on torch's random state, which all threads share."""
    model(torch.zeros(2, 6))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return model


def train(model, seed, counting=False):
    """Train a converted model for 15 steps and return its weights, the losses and its result in evaluation."""
    bc.quantize(model, bc.Recipe(seed=seed))
    precision = bc.PrecisionScheduler(model, "CR:2-6:cycles=3", total_steps=15, backward_bits=3)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(15):
        x = torch.randn(8, 6, generator=generator)
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        precision.step()
        losses.append(loss.detach())
        if counting:
            bc.cost(model, x)
    model.eval()
    with torch.no_grad():
        return [*(p.detach().clone() for p in model.parameters()), torch.stack(losses), model(x)]


@pytest.mark.slow
@pytest.mark.parametrize("counting", [False, True])
def test_two_trainings_equal_those_alone(counting):
    for seed in range(10):
        makes = [(perceptron, 8 + seed, seed), (convolutional if seed % 2 else perceptron, 5, seed + 100)]

        def models(makes=makes):
            return [(initialised(make(width), number), number) for make, width, number in makes]

        alone = [train(*model, counting=counting) for model in models()]
        first, second = models()
        pair = together(lambda a=first: train(*a, counting=counting), lambda b=second: train(*b, counting=counting))
        for expected, result in zip(alone, pair, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True)), f"seed {seed} differs"


def test_two_counts_equal_those_alone_and_leave_the_random_state():
    x = torch.zeros(3, 6)
    for width in range(2, 22):
        models = [initialised(make(width), width).insert(1, Draws()) for make in (perceptron, convolutional)]
        alone = [bc.cost(model, x) for model in models]
        before = torch.get_rng_state()
        pair = together(*(lambda model=model: bc.cost(model, x) for model in models))
        assert [cost.rows for cost in pair] == [cost.rows for cost in alone]
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_two_conversions_of_one_class_can_be_restored():
    for _ in range(20):
        kind = type("Layer", (nn.Linear,), {})

        def convert(kind=kind):
            return bc.quantize(nn.Sequential(*(kind(2, 2) for _ in range(20))))

        models = together(convert, convert)
        assert type(models[0][0]) is type(models[1][0])
        for model in models:
            assert {type(layer) for layer in bc.restore(model)} == {kind}


@pytest.mark.slow
def test_first_runs_in_two_threads_leave_the_compiler_as_it_was():
    """Torch has one stance for all threads; the run that begins first ends first."""
    import torch._dynamo

    second_runs, first_ends = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def __init__(self, started, ends):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))
            self.started, self.ends = started, ends

        def forward(self, x):
            self.started.set()
            self.ends.wait(10)
            return x @ self.weight

    before = torch._dynamo.eval_frame._stance.stance
    runs, ends = [threading.Event(), second_runs], [second_runs, first_ends]
    models = [bc.quantize(Waits(started, end)) for started, end in zip(runs, ends, strict=True)]
    threads = [threading.Thread(target=model, args=(torch.ones(1, 2),)) for model in models]
    threads[0].start()
    runs[0].wait(10)
    threads[1].start()
    threads[0].join()
    first_ends.set()
    threads[1].join()
    assert torch._dynamo.eval_frame._stance.stance == before
