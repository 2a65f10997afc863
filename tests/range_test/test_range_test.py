"""The range test: what it finds, on curves of a known shape and on a real model, and how it reads."""

import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

import bitcycle as bc
from bitcycle._range_test import Conclusion, LevelVerdict, range_test
from bitcycle._range_test.judging import _mann_whitney_z, _p_of_slope
from bitcycle.conversion.sites import named_sites, sites


class Made:
    """A step that returns a made-up loss instead of training: ``shape(bits, iteration)`` and noise."""

    def __init__(self, shape, noise=0.02, higher_is_better=False):
        self.model = bc.quantize(nn.Linear(2, 2))
        self.shape, self.noise, self.sign = shape, noise, -1 if higher_is_better else 1

    def step(self, batch):
        site = sites(self.model)[""]
        iteration = int(site.control[3])
        return self.sign * (self.shape(site.forward_bits, iteration) + self.noise * float(torch.randn(())))

    def test(self, **options):
        return range_test(self.model, self.step, range(100), higher_is_better=self.sign < 0, **options)


def falls_from(q_min, tau=15.0):
    """A loss that falls from 2 to 0.2, and hardly at fewer bits than q_min."""

    def shape(bits, iteration):
        gain = 1.8 if bits is None or bits >= q_min else 0.15
        return 2 - gain * (1 - math.exp(-iteration / tau))

    return shape


@pytest.mark.parametrize(("q_min", "higher_is_better"), [(3, False), (8, False), (5, True)])
def test_finds_the_level_from_which_on_training_works(q_min, higher_is_better):
    test = Made(falls_from(q_min), higher_is_better=higher_is_better).test()
    assert test.q_min == q_min
    assert [row.works for row in test.evidence] == [bits >= q_min for bits in range(2, 9)]
    assert test.conclusion is Conclusion.WORKS_FROM_Q_MIN
    assert test.reason.startswith(f"Training works from {q_min} bits up: {q_min} bits keep ")
    assert test.reference.progress == pytest.approx(1.75, abs=0.1)


@pytest.mark.slow
@settings(max_examples=25)
@example(q_min=3, noise=0.25, tau=3.0)  # falls at once, and is flat afterwards
@given(q_min=st.integers(3, 5), noise=st.floats(0.001, 0.25), tau=st.floats(3, 30))
def test_noise_does_not_move_the_level(q_min, noise, tau):
    """Each level has its own noise, up to a seventh of the whole progress."""

    def shape(bits, iteration):
        return falls_from(q_min, tau)(bits, iteration) + noise * math.sin(1e4 * (bits or 0) + 7.7 * iteration**2)

    assert Made(shape, noise).test(levels=range(2, 6)).q_min == q_min


@pytest.mark.parametrize(
    ("shape", "q_min", "conclusion", "reason"),
    [
        (falls_from(1), 2, Conclusion.EVERY_LEVEL_WORKS, "Every level works: 2 bits keep .* a lower one may work too."),
        (
            falls_from(9),
            None,
            Conclusion.NO_LEVEL_WORKS,
            "No level works: 8 bits keep 8 % of full precision's progress. Test higher levels.",
        ),
        (
            lambda bits, iteration: math.inf if iteration > 5 else 1.0,
            None,
            Conclusion.REFERENCE_DIVERGES,
            "Full precision itself diverges",
        ),
    ],
)
def test_conclusions(shape, q_min, conclusion, reason):
    test = Made(shape).test()
    assert (test.q_min, test.conclusion) == (q_min, conclusion)
    assert re.match(reason, test.reason)
    heads, *rows = str(test).partition("\n\n")[0].splitlines()
    assert heads.split() == ["bits", "progress", "keeps", "95", "%", "interval", "p", "verdict"]
    assert [row.split()[0] for row in rows] == [*(str(level.bits) for level in test.evidence), "full"]
    assert str(test).endswith(test.reason)


def test_a_training_that_does_not_learn_is_reported():
    test = Made(lambda bits, iteration: 2.0).test(longest=120)
    assert test.q_min is None
    assert test.evidence == ()
    assert test.iterations == 120
    assert test.reason.startswith("Full precision itself does not clearly learn in 120 iterations")
    assert test.conclusion is Conclusion.REFERENCE_DOES_NOT_LEARN
    assert test.reference.verdict is LevelVerdict.DOES_NOT_CLEARLY_LEARN
    assert test.reason.endswith("not the bits.")


def test_it_goes_on_until_training_has_begun():
    """Training begins with a plateau, as for transformers, on which bits cannot be judged."""

    def plateau(bits, iteration):
        return 2.0 if iteration < 100 else falls_from(4)(bits, iteration - 100)

    test = Made(plateau).test()
    assert test.iterations == 240
    assert test.q_min == 4


def test_a_level_that_diverges_does_not_work():
    def shape(bits, iteration):
        return math.nan if bits == 2 and iteration == 7 else falls_from(2)(bits, iteration)

    test = Made(shape).test()
    assert test.q_min == 3
    assert test.evidence[0].verdict is LevelVerdict.DIVERGES
    assert test.evidence[0].diverged == 3
    assert "diverges (3 of 3 seeds)" in str(test)
    assert [len(curve) for curve in test.evidence[0].curves] == [8, 8, 8]
    assert "2 bits diverge (infinite or NaN)" in test.reason
    assert json.loads(json.dumps(test.as_dict(), allow_nan=False))["evidence"][0]["kept"] is None


def test_a_slow_level_learns_too_little_and_a_rising_one_does_not_learn():
    def shape(bits, iteration):
        return {2: 2 + iteration / 60, 3: 2 - iteration / 100}.get(bits, falls_from(1)(bits, iteration))

    rising, slow, works, *_ = Made(shape).test().evidence
    verdicts = (rising.verdict, slow.verdict, works.verdict)
    assert verdicts == (LevelVerdict.DOES_NOT_LEARN, LevelVerdict.LEARNS_TOO_LITTLE, LevelVerdict.WORKS)
    assert rising.p > 0.99
    assert slow.p < 0.001
    assert slow.interval[0] < slow.kept < slow.interval[1] < 0.5


def test_a_level_below_one_that_fails_is_not_q_min():
    def shape(bits, iteration):
        return falls_from(9 if bits == 4 else 2)(bits, iteration)

    test = Made(shape).test()
    assert test.q_min == 5
    assert "Some levels below a failing level pass; more seeds can clarify this: 2 bits, 3 bits." in test.reason


def test_a_narrow_verdict_is_reported():
    def shape(bits, iteration):
        gain = 0.9 + 0.6 * float(torch.randn(())) if bits == 2 else 1.8
        return 2 - gain * (1 - math.exp(-iteration / 15))

    test = Made(shape, noise=0.3).test()
    assert test.evidence[0].narrow
    assert "Narrow results, which more seeds may change: 2 bits." in test.reason
    assert "(narrow)" in str(test).splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path, suffix):
    file = tmp_path / f"range.{suffix}"
    Made(lambda bits, iteration: math.nan if bits == 2 else falls_from(4)(bits, iteration)).test().plot(file)
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"</svg>" in content
    Made(lambda bits, iteration: 1.0).test(longest=60).plot(file)
    with pytest.raises(ValueError, match="a .png or .svg file"):
        Made(falls_from(1)).test(levels=(2,)).plot("range.jpg")


def regression():
    """A model that needs some precision, and its training step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    x = torch.randn(640, 16)
    y = torch.tanh(x @ torch.randn(16, 1))
    batches = [(x[i : i + 64], y[i : i + 64]) for i in range(0, 640, 64)]

    def step(batch):
        loss = (model(batch[0]) - batch[1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step, batches


@pytest.mark.slow
def test_a_real_model():
    model, optimizer, step, batches = regression()
    test = range_test(model, step, batches, optimizer=optimizer, levels=(1, 2, 4, 8))
    assert test.q_min in (2, 4)
    kept = [row.kept for row in test.evidence]
    assert kept[0] < 0.5 < kept[2]
    assert kept[-1] == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_same_again_gives_the_same_and_seeds_differ():
    model, optimizer, step, batches = regression()
    first, second = (range_test(model, step, batches, optimizer=optimizer, levels=(3,)) for _ in range(2))
    assert first == second
    assert len(set(first.evidence[0].curves)) == 3


class MultipliesItself(nn.Module):
    """A model whose product is discovered when it runs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 1, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        return x @ self.weight


def test_rounding_noise_of_discovered_sites_differs_with_the_seed_and_is_restored():
    model = bc.quantize(MultipliesItself())
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))

    def step(batch):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    test = range_test(model, step, [0], optimizer=optimizer, levels=(8,), backward_bits=2)
    assert len(set(test.evidence[0].curves)) == 3
    assert len(set(test.reference.curves)) == 1, "nothing else is random"
    ran = bc.quantize(MultipliesItself())
    ran(x)
    controls = [[site.control.tolist() for site in named_sites(each).values()] for each in (model, ran)]
    assert controls[0] == controls[1]
    assert len(controls[0]) == 1


@given(*[st.lists(st.integers(-5, 5).map(float), min_size=3, max_size=30)] * 2)
def test_the_slope_test_is_that_of_mann_and_whitney(before, after):
    if len({*before, *after}) > 1:
        z = _mann_whitney_z(np.array(before), np.array(after))
        theirs = stats.mannwhitneyu(after, before, alternative="less", use_continuity=False, method="asymptotic")
        assert stats.norm.cdf(z) == pytest.approx(theirs.pvalue)


def test_the_slope_test_is_right_about_nothing():
    """Five in a hundred trainings that learn nothing pass."""
    passed = [_p_of_slope(np.random.default_rng(i).normal(size=(3, 60)).tolist()) < 0.05 for i in range(1000)]
    assert 0.03 < np.mean(passed) < 0.07


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": ()}, "levels must contain at least one width"),
        ({"levels": (0, 4)}, "a level must be 1 or more"),
        ({"levels": (None, 4)}, "a level must be an integer"),
        ({"iterations": 5}, "iterations must be 10 or more to show a trend, got 5"),
        ({"seeds": 0}, "seeds must be 1 or more"),
        ({"share": 50}, "share must be a fraction above 0 and at most 1, got 50"),
        ({"backward_bits": 0}, "backward_bits"),
        ({"also": [object()]}, "must contain objects with state_dict and load_state_dict"),
    ],
)
def test_misuse_is_one_clear_line(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        Made(falls_from(3)).test(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("step", "batches", "message"),
    [
        (lambda batch: None, [1], "must return the loss or a metric as one number, got None"),
        (lambda batch: torch.zeros(2), [1], "as one number"),
        (lambda batch: 1.0, [], "batches must not be empty"),
        (lambda batch: 1.0, 7, "batches must be a DataLoader, a list or another iterable, got int"),
    ],
)
def test_invalid_steps_and_batches(step, batches, message):
    with pytest.raises(ValueError, match=message):
        range_test(nn.Linear(2, 2), step, batches)
