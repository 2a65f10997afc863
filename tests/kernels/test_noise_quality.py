"""The quality of the noise: uniform, unbiased, and independent wherever a training could notice.

The tests look at streams as a training draws them: for a seed, a site, a step, a draw and a rank. Their keys are fixed,
so each test always gives the same result. Each docstring states the probability that noise from a perfect generator
would fail. Native kernels and reference draw the same noise (test_native.py), so one of them is tested here.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from bitcycle.kernels.noise import noise_key, site_key
from bitcycle.kernels.rounding import round_to_grid
from tests.kernels.uniform_noise import uniform

SIZE = 2**20
LAGS = 4096


def stream(seed=0, site="layer1.0.conv1", step=0, draw=0, rank=0, size=SIZE):
    """The noise of a site as a training draws it, as numbers of mean 0 and variance 1."""
    numbers = (site_key(seed, site), step, draw, *((rank,) if rank else ()))
    noise = uniform(torch.empty(size), *numbers).numpy().astype(np.float64)
    return (noise + 0.5) / np.sqrt((2.0**32 - 1) / 12)


NEIGHBOURS = {
    "the next step": {"step": 1},
    "the step after it": {"step": 2},
    "a far step": {"step": 2**20},
    "the next draw": {"draw": 1},
    "the next rank": {"rank": 1},
    "another rank": {"rank": 7},
    "the next seed": {"seed": 1},
    "another site": {"site": "layer1.0.conv2"},
    "a site with a similar name": {"site": "layer1.1.conv1"},
}


def largest_correlation(x, y, lags):
    """The largest correlation of x with y shifted by each of the lags, forwards and backwards, by Fourier transform."""
    size = len(x)
    spectrum = np.fft.rfft(x, 2 * size).conj() * np.fft.rfft(y, 2 * size)
    products = np.fft.irfft(spectrum)[np.concatenate([lags, -lags])]
    terms = size - np.concatenate([lags, lags])
    return np.abs(products / np.sqrt(terms)).max()


def bound(count, alarm=1e-6):
    """The size that the largest of ``count`` normal numbers exceeds with the probability ``alarm``, at most."""
    return stats.norm.isf(alarm / count / 2)


def chi_square(counts):
    """The probability of counts that are at least this uneven, and of counts that are at least this even."""
    expected = counts.sum() / counts.size
    statistic = ((counts - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, counts.size - 1), stats.chi2.cdf(statistic, counts.size - 1)


def cells(x, count):
    """The cell of each number of a stream, among ``count`` cells of equal probability."""
    return np.floor((x * np.sqrt((2.0**32 - 1) / 12) + 32768) / 65536 * count).astype(np.int64)


@pytest.mark.parametrize("neighbour", [{}, {"step": 1}, {"site": "fc"}, {"rank": 1}], ids=str)
def test_all_65536_numbers_are_equally_frequent(neighbour):
    """Chi-square over 65,536 cells with 64 numbers each, not too uneven nor too even. False alarm: 2e-6 a stream."""
    counts = np.bincount(cells(stream(**neighbour, size=2**22), 65536), minlength=65536)
    assert min(chi_square(counts)) > 1e-6


@pytest.mark.slow
def test_noise_is_uncorrelated_at_all_lags():
    """Correlation of a stream with itself at lags 1 to 4096. False alarm: 1e-6 over all lags and streams."""
    streams = [stream(step=step) for step in range(4)]
    lags = np.arange(1, LAGS + 1)
    assert max(largest_correlation(x, x, lags) for x in streams) < bound(2 * LAGS * len(streams))


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 16, 64, 100, 1024])
def test_serial_pairs_fill_the_square_evenly(lag):
    """Chi-square of pairs (x_i, x_{i + lag}) over 64 x 64 cells, in disjoint pairs. False alarm: 2e-6 a lag."""
    x = cells(stream(step=3, size=2**21), 64)
    blocks = x[: len(x) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    counts = np.bincount((blocks[:, 0] * 64 + blocks[:, 1]).ravel(), minlength=64 * 64)
    assert min(chi_square(counts)) > 1e-6


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_neighbouring_streams_are_independent(neighbour):
    """Correlation at lags -4096 to 4096, and pairs over 64 x 64 cells. False alarm: 3e-6 a pair of streams."""
    x, y = stream(), stream(**neighbour)
    assert largest_correlation(x, y, np.arange(LAGS + 1)) < bound(2 * (LAGS + 1))
    counts = np.bincount(cells(x, 64) * 64 + cells(y, 64), minlength=64 * 64)
    assert min(chi_square(counts)) > 1e-6


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_rounding_with_a_key_is_unbiased(bits):
    """The mean error of 2^20 roundings, in standard errors of the exact variance f(1 - f). False alarm: 1e-6 a width.

    ``f`` is the distance to the grid below, in steps.
    """
    t = np.linspace(0, 2**bits - 1, SIZE)
    x = torch.from_numpy(t).float()
    rounded = round_to_grid(x, bits, None, noise_key(1, 2, 3)).double().numpy()
    scaled = x.double().numpy()
    fraction = scaled - np.floor(scaled)
    error = (rounded - scaled).sum() / np.sqrt((fraction * (1 - fraction)).sum())
    assert abs(error) < bound(1)
    # The same for each sixteenth of the distance to the grid: the error does not depend on where a value lies.
    for part in range(16):
        here = (fraction * 16).astype(int) == part
        deviation = (rounded - scaled)[here].sum() / np.sqrt((fraction * (1 - fraction))[here].sum())
        assert abs(deviation) < bound(16)
