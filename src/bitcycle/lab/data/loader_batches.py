"""The batches of a DataLoader as a function of (seed, step), so that a training can resume at any step.

A DataLoader has a place in its data that no checkpoint holds. Here the order of an epoch is drawn from the loader's own
sampler with the seed of that epoch, and everything random about a batch (augmentation, masks of a collate function)
with the seed of its step. ``random``, numpy and torch are seeded, and their states are put back afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from bitcycle.kernels.noise import mix


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Seed all global random states from these numbers, for the time of the context."""
    seed = mix(*numbers) >> 1
    of_python, of_numpy = random.getstate(), numpy.random.get_state()  # noqa: NPY002 - what users' data sets draw from
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(of_python)
            numpy.random.set_state(of_numpy)  # noqa: NPY002


class LoaderBatches:
    """The batch of each step: the batches of a DataLoader, epoch after epoch.

    Args:
        loader: A DataLoader over a data set with indices. Its sampler, batch size, collate function and worker
            processes are used. A sampler that has random numbers of its own must draw them from its ``generator`` or
            implement ``set_epoch``.
        seed: Random seed.

    Raises:
        ValueError: If the data set is a stream, or the loader does not make batches.

    Example:
        >>> batches = LoaderBatches(DataLoader(range(5), batch_size=2, shuffle=True), seed=0)
        >>> batches.per_epoch, sorted(torch.cat([batches(step) for step in range(3)]).tolist())
        (3, [0, 1, 2, 3, 4])
        >>> torch.equal(batches(1), batches(1))
        True
    """

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        if isinstance(loader.dataset, IterableDataset):
            raise ValueError(
                "the data set of the training loader is a stream, in which a resumed run cannot find its place: "
                "use one with indices, or write a bitcycle.tasks.Training"
            )
        if loader.batch_sampler is None:
            raise ValueError("the training loader makes no batches: give it a batch_size")
        self.loader, self.seed = loader, seed
        self.per_epoch = len(loader)
        if not self.per_epoch:
            raise ValueError("the training loader has no batch: its data set is empty, or smaller than one batch")
        self._data = _SeededBatches(loader, seed)
        self._epoch, self._order = -1, list[Any]()
        self._next, self._iterator = -1, iter(())

    def __call__(self, step: int) -> Any:
        """Return the batch of a step."""
        if not self.loader.num_workers:
            return self._data[self._request(step)]
        with seeded(self.seed, step):  # creating the iterator draws a random number
            if step != self._next:
                self._iterator = iter(self._in_worker_processes(step))
            self._next = step + 1
            return next(self._iterator)

    def _request(self, step: int) -> tuple[int, Sequence[Any]]:
        """Return a step and the indices of its batch."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            with seeded(self.seed, epoch, 1):
                self._epoch, self._order = epoch, self._order_of(epoch)
        return step, self._order[place]

    def _order_of(self, epoch: int) -> list[Any]:
        batch_sampler: Any = self.loader.batch_sampler
        for sampler in (batch_sampler, self.loader.sampler):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            generator = getattr(sampler, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(mix(self.seed, epoch, 2) >> 1)
        order = list(batch_sampler)
        if len(order) != self.per_epoch:
            raise ValueError(f"the training loader gives {len(order)} batches, but its length is {self.per_epoch}")
        return order

    def _in_worker_processes(self, first: int) -> DataLoader[Any]:
        """Return a loader of all batches from a step on, that prepares them in as many processes as the user's."""
        loader = self.loader
        return DataLoader(
            self._data,
            sampler=map(self._request, count(first)),  # read once
            batch_size=None,
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
        )


class _SeededBatches(Dataset[Any]):
    """A data set of whole batches, each made with the seed of its step."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self.data, self.collate, self.seed = loader.dataset, loader.collate_fn, seed

    def __getitem__(self, request: tuple[int, Sequence[Any]]) -> Any:
        step, indices = request
        with seeded(self.seed, step):
            several = getattr(self.data, "__getitems__", None)
            return self.collate(several(indices) if several else [self.data[index] for index in indices])
