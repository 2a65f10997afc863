"""Batches of a DataLoader as a function of (seed, step)."""

import random

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from bitcycle.lab.data.loader_batches import LoaderBatches


class Augmented(Dataset):
    """Rows whose values are drawn from all three global random states."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, row):
        noise = random.random() + numpy.random.random() + torch.rand(()).item()  # noqa: NPY002 - as users draw
        return torch.tensor([row, noise], dtype=torch.float64)


def with_random_mask(samples):
    rows = torch.stack(samples)
    return torch.cat([rows, torch.rand(len(rows), 1, dtype=torch.float64)], 1)


def make(rows=7, size=3, seed=0, **arguments):
    given = {"batch_size": size, "shuffle": True, "collate_fn": with_random_mask, **arguments}
    return LoaderBatches(DataLoader(Augmented(rows), **given), seed)


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 4), st.booleans(), st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_a_batch_depends_on_seed_and_step_alone(rows, size, drop_last, steps):
    """In any order, from a new object as after a resume, and whatever else draws random numbers."""
    if drop_last and size > rows:
        size = rows
    one = make(rows, size, drop_last=drop_last)
    for step in steps:
        torch.rand(3), random.random()
        assert torch.equal(one(step), make(rows, size, drop_last=drop_last)(step))


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 3))
def test_an_epoch_has_every_row_once_and_epochs_differ(rows, size, epoch):
    batches = make(rows, size)
    steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
    assert sorted(int(row) for step in steps for row in batches(step)[:, 0]) == list(range(rows))


def test_global_random_states_are_left_alone():
    batches = make()
    for number_of in (lambda: torch.rand(()).item(), random.random, numpy.random.random):
        torch.manual_seed(5), random.seed(5), numpy.random.seed(5)  # noqa: NPY002
        expected = number_of()
        torch.manual_seed(5), random.seed(5), numpy.random.seed(5)  # noqa: NPY002
        batches(4)
        assert number_of() == expected


def test_worker_processes_make_the_same_batches():
    alone, shared = make(), make(num_workers=2)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    for step in (0, 1, 2, 3, 9, 10, 1):  # on, and with jumps as of the range test
        assert torch.equal(alone(step), shared(step)), step
    assert torch.equal(torch.get_rng_state(), state)


def test_samplers_with_a_generator_or_an_epoch():
    generator = torch.Generator().manual_seed(3)
    batches = make(shuffle=True, generator=generator)
    first = batches(0)
    generator.manual_seed(99)
    assert torch.equal(batches(0), first)
    assert torch.equal(make(shuffle=True, generator=torch.Generator())(0), first)

    class ByEpoch(torch.utils.data.Sampler):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter([self.epoch % 7] * 6)

        def __len__(self):
            return 6

    batches = make(shuffle=False, sampler=ByEpoch())
    assert [int(batches(step)[0, 0]) for step in (0, 5, 2)] == [0, 2, 1]
    weighted = make(shuffle=False, sampler=WeightedRandomSampler([1.0] * 7, 7))
    assert torch.equal(weighted(3), make(shuffle=False, sampler=WeightedRandomSampler([1.0] * 7, 7))(3))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Stream(), batch_size=2), "is a stream, in which a resumed run cannot find its place"),
        (DataLoader(Augmented(3), batch_size=None), "makes no batches: give it a batch_size"),
        (DataLoader(Augmented(3), batch_size=4, drop_last=True), "has no batch: its data set is empty, or smaller"),
    ],
)
def test_loaders_that_cannot_be_used(loader, message):
    with pytest.raises(ValueError, match=message):
        LoaderBatches(loader, 0)
