"""Memory of an analysis does not grow with the number of resamples times the number of runs."""

import tracemalloc

import numpy as np
import pytest

from bitcycle._study.analysis import CorrelationKind, Over
from bitcycle._study.statistics import bootstrap
from bitcycle._study.statistics.bootstrap import RESAMPLES, blocks, counted, drawn, estimate
from bitcycle._study.statistics.correlations import Table, correlation, correlations


@pytest.fixture
def table():
    generator = np.random.default_rng(3)
    cost = np.arange(1.0, 10)
    quality = 0.9 + 0.01 * cost[:, None] + 0.02 * generator.normal(size=(9, 7))
    return Table.of([dict.fromkeys(range(7), c) for c in cost], [dict(enumerate(row)) for row in quality])


@pytest.mark.parametrize("block", [500, 5_000, 77_777])
def test_results_do_not_depend_on_the_size_of_blocks(monkeypatch, table, block):
    values = np.random.default_rng(1).gamma(2, size=37)
    whole = correlations(table), estimate(values), *map(np.concatenate, (map(list, (drawn(7), counted(7)))))
    monkeypatch.setattr(bootstrap, "BLOCK", block)
    assert len(list(blocks(63))) > 1
    parts = correlations(table), estimate(values), *map(np.concatenate, (map(list, (drawn(7), counted(7)))))
    assert parts[:2] == whole[:2]
    assert all((ours == theirs).all() for ours, theirs in zip(parts[2:], whole[2:], strict=True))


def test_draws_are_the_same_whether_kept_or_not(monkeypatch):
    kept = [np.concatenate(list(make(11))) for make in (drawn, counted)]
    monkeypatch.setattr(bootstrap, "_CACHED", 0)
    monkeypatch.setattr(bootstrap, "BLOCK", 3_000)
    again = [np.concatenate(list(make(11))) for make in (drawn, counted)]
    assert all((ours == theirs).all() for ours, theirs in zip(again, kept, strict=True))


@pytest.mark.parametrize("kind", CorrelationKind)
@pytest.mark.parametrize("over", Over)
def test_a_correlation_takes_little_memory(monkeypatch, kind, over):
    """With 2,000 runs the resamples have 10 million numbers, 80 MB for each array of them."""
    monkeypatch.setattr(bootstrap, "BLOCK", 100_000)
    generator = np.random.default_rng(0)
    cost = generator.random(400)
    table = Table.of(
        [dict.fromkeys(range(5), c) for c in cost], [dict(enumerate(c + generator.normal(size=5))) for c in cost]
    )
    tracemalloc.start()
    found = correlation(kind, over, table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.count * RESAMPLES * 8 > (40e6 if over == Over.RUNS else 10e6)
    assert found.low < found.value < found.high
    assert peak < 25e6
