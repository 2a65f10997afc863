"""The range test changes nothing: everything that a step can change is restored bit for bit."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bitcycle as bc
from bitcycle._range_test import range_test
from bitcycle.conversion.sites import named_sites


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.last = (
            nn.Linear(6, 8),
            nn.BatchNorm1d(8),
            nn.Dropout(0.2),
            nn.Linear(8, 2),
        )
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(2), persistent=False)

    def forward(self, x):
        self.seen = self.seen + 1  # replaced, not changed in place
        self.hidden += random.random()
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


class Setting:
    """An interrupted training: optimiser and scheduler have state, gradients exist, one layer is in evaluation mode."""

    def __init__(self, converted=True):
        torch.manual_seed(1)
        np.random.seed(3)  # noqa: NPY002
        self.model = Net()
        if converted:
            bc.quantize(self.model)
        if converted is True:
            bc.set_bits(self.model, forward=5, backward=7, evaluate=6)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        self.batches = [(torch.randn(8, 6), torch.randint(0, 2, (8,))) for _ in range(7)]
        self.calls = 0
        for batch in self.batches[:4]:
            self.step(batch)
        self.model.norm.eval()

    def step(self, batch):
        self.calls += 1
        x, y = batch
        self.model.train()
        loss = nn.functional.cross_entropy(self.model(x + np.random.rand()), y)  # noqa: NPY002
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def test(self, step=None, **settings):
        settings = {"optimizer": self.optimizer, "also": [self.scheduler], "levels": (2, 8), "longest": 60, **settings}
        return range_test(self.model, step or self.step, self.batches, iterations=10, **settings)

    def everything(self):
        objects = {
            "parameters": [id(parameter) for parameter in self.model.parameters()],
            "buffers": [id(buffer) for buffer in self.model.buffers()],
            "gradients": [id(parameter.grad) for parameter in self.model.parameters()],
            "moments": [id(state["exp_avg"]) for state in self.optimizer.state.values()],
            "classes": [type(module) for module in self.model.modules()],
        }
        contents = {
            "model": self.model.state_dict(),
            "hidden": self.model.hidden,
            "gradients": [parameter.grad for parameter in self.model.parameters()],
            "modes": [module.training for module in self.model.modules()],
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "sites": [site.control for site in named_sites(self.model).values()],
            "random": (torch.get_rng_state(), random.getstate(), np.random.get_state()),  # noqa: NPY002
        }
        return objects, copy.deepcopy(contents)


def same(a, b):
    if isinstance(a, (torch.Tensor, np.ndarray)):
        return bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("converted", [True, False, "without bits"])
def test_everything_is_restored_whatever_happens(error, converted):
    setting = Setting(converted)
    before = setting.everything()

    def step(batch):
        value = setting.step(batch)
        if error and setting.calls == 50:
            raise error
        return value

    with pytest.raises(error) if error else nullcontext():
        setting.test(step)
    assert setting.calls >= (50 if error else 4 + 3 * 3 * 10)
    after = setting.everything()
    for part in before[0]:
        assert before[0][part] == after[0][part], part
    for part in before[1]:
        assert same(before[1][part], after[1][part]), part
    if converted == "without bits":
        with pytest.warns(UserWarning, match="its bits were never set"):
            setting.model.eval()(setting.batches[0][0])


def test_training_goes_on_as_if_there_had_been_no_test():
    curves = []
    for tested in (False, True):
        setting = Setting()
        if tested:
            setting.test()
        curves.append([setting.step(batch) for batch in setting.batches])
    assert curves[0] == curves[1]


def test_an_optimizer_that_was_not_given_is_refused_before_it_steps():
    setting = Setting()
    before = setting.everything()
    with pytest.raises(ValueError, match=r"uses an optimiser \(Adam\) that the range test cannot restore"):
        setting.test(optimizer=None)
    assert same(before, setting.everything())
    Setting().step(setting.batches[0])  # afterwards every optimiser steps freely


@pytest.mark.slow
def test_other_threads_train_freely_meanwhile():
    setting, other = Setting(), Setting()

    def step(batch):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(other.optimizer.step).result()
        return setting.step(batch)

    setting.test(step)  # an optimiser that is refused would raise here


def test_a_step_that_sets_bits_is_refused():
    setting = Setting()
    precision = bc.PrecisionScheduler(setting.model, "static:4", total_steps=100)

    def step(batch):
        precision.step()
        return setting.step(batch)

    with pytest.raises(ValueError, match="leave precision.step\\(\\) out"):
        setting.test(step)


def test_a_model_without_shapes_is_refused():
    with pytest.raises(ValueError, match="has uninitialised parameters: run the model once first"):
        range_test(nn.Sequential(nn.LazyLinear(3)), lambda batch: 1.0, [1])


def seen_by(batches):
    """Return the batches of a step at each level, seed by seed."""
    seen = []
    model = bc.quantize(nn.Linear(2, 2))

    def step(batch):
        seen.append(float(torch.as_tensor(batch if not isinstance(batch, list) else batch[0]).sum()))
        return -float((len(seen) - 1) % 10)

    range_test(model, step, batches, levels=(4,), iterations=10, seeds=2, longest=10)
    return [seen[i : i + 10] for i in range(0, len(seen), 10)]


@pytest.mark.parametrize("batches", [list(range(10)), iter(range(1000))], ids=["list", "iterator"])
def test_all_levels_get_the_same_batches(batches):
    full_0, full_1, level_0, level_1 = seen_by(batches)
    assert (full_0, full_1) == (level_0, level_1)
    assert sorted(full_0) == sorted(full_1) == list(range(10))
    assert full_0 != full_1, "each seed has its own order"


def test_a_data_loader_shuffles_itself_and_its_generator_is_restored():
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(TensorDataset(torch.arange(10.0)), shuffle=True, generator=generator)
    before = generator.get_state()
    full_0, full_1, level_0, level_1 = seen_by(loader)
    assert (full_0, full_1) == (level_0, level_1)
    assert full_0 != full_1
    assert torch.equal(generator.get_state(), before)


def test_few_batches_are_gone_through_again():
    assert set(seen_by([1, 2, 3])[0]) == {1, 2, 3}
