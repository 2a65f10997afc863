"""Measurements along training: right by re-computation, and without any trace in the training."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bitcycle._cost import Meter
from bitcycle.conversion.convert import quantize
from bitcycle.lab.runs.diagnostics import Diagnostics
from bitcycle.lab.runs.result import Diagnostic
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, Training, task_named
from bitcycle.scheduler import PrecisionScheduler
from tests.lab.runs.test_training import assert_resumes_exactly


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_measured_training_is_the_same_training(name, monkeypatch, tmp_path):
    steps = 4 if name == "detection" else 12
    monkeypatch.setattr(type(task_named(name)), "evaluate_every", steps // 2)
    runs = [RunConfig(name, "CR:3-8:cycles=2", steps, seed=1, diagnostics=measured) for measured in (False, True)]
    (plain, model), (measured, other) = (train(run) for run in runs)
    assert (plain.test, plain.bitops) == (measured.test, measured.bitops)
    for key, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key
    for point, more in zip(plain.curve, measured.curve, strict=True):
        assert point.items() <= more.items()
        wanted = {Diagnostic.GRADIENT_OVER_NOISE, Diagnostic.GRADIENT_DIVERSITY}
        wanted |= {Diagnostic.FISHER_INFORMATION} if name != "detection" else set()
        assert wanted <= more.keys()
    assert any(
        Diagnostic.GRADIENT_AFTER_CHANGE in point and Diagnostic.UPDATE_AFTER_CHANGE in point
        for point in measured.curve
    )


@pytest.mark.slow
def test_a_measured_training_resumes_bit_for_bit(tmp_path):
    assert_resumes_exactly(RunConfig("graph", "CR:3-8:cycles=2", 40, diagnostics=True), tmp_path, 22)


class Toy(Training):
    """A linear classifier on a fixed batch for each step."""

    def __init__(self, rows=64, classes=3):
        torch.manual_seed(0)
        self.model = nn.Linear(5, classes, bias=False)
        self.x, self.y = torch.randn(4, rows, 5), torch.randint(classes, (4, rows))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def loss(self, step):
        return F.cross_entropy(self.model(self.x[step % 4]), self.y[step % 4])

    def evaluate(self, split):
        return 0.0

    def example(self):
        return self.x[0]


def measured(toy, schedule="static:4", total=10):
    quantize(toy.model)
    scheduler = PrecisionScheduler(toy.model, schedule, total, None)
    return Diagnostics(toy, toy.model, scheduler, Meter(toy.model), seed=0), scheduler


def gradient(toy, step, weight):
    weight = weight.detach().requires_grad_()
    loss = F.cross_entropy(toy.x[step] @ weight.t(), toy.y[step])
    return torch.autograd.grad(loss, weight)[0]


def test_fisher_information_of_a_linear_classifier_in_closed_form():
    """tr F = E_x |x|^2 sum_c p_c (1 - p_c), here over the very batch; the estimate is right on average."""
    toy = Toy(rows=256)
    diagnostics, _ = measured(toy, "full")
    p = (toy.x[0] @ toy.model.weight.detach().t()).softmax(1)
    exact = float((toy.x[0].square().sum(1) * (p * (1 - p)).sum(1)).mean())
    found = []
    for seed in range(300):
        diagnostics.seed = seed
        found.append(diagnostics._fisher(0))
    error = torch.tensor(found).std() / math.sqrt(len(found))
    assert sum(found) / len(found) == pytest.approx(exact, abs=4 * float(error))
    assert float(error) < 0.1 * exact


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_fisher_information_does_not_depend_on_how_the_mean_is_taken(reduction):
    class Reduced(Toy):
        def loss(self, step):
            losses = F.cross_entropy(self.model(self.x[step % 4]), self.y[step % 4], reduction=reduction)
            return losses.sum() / len(self.y[step % 4])

    usual, reduced = (measured(toy, "full")[0]._fisher(0) for toy in (Toy(), Reduced()))
    assert reduced == pytest.approx(usual, rel=1e-5)


def test_diversity_by_hand():
    toy = Toy()
    diagnostics, _ = measured(toy, "full")
    a, b = (gradient(toy, step, toy.model.weight) for step in (0, 1))
    expected = float((a.square().sum() + b.square().sum()) / (a + b).square().sum())
    found = diagnostics.measure(0)
    assert found[Diagnostic.GRADIENT_DIVERSITY] == pytest.approx(expected, rel=1e-5)
    assert Diagnostic.GRADIENT_OVER_NOISE not in found  # full precision has no noise


def test_noise_grows_as_bits_fall():
    ratios = []
    for bits in (2, 4, 8):
        diagnostics, _ = measured(Toy(), f"static:{bits}")
        ratios.append(diagnostics.measure(0)[Diagnostic.GRADIENT_OVER_NOISE])
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 10


def test_changes_of_bits_are_compared_with_the_step_before():
    toy = Toy()
    diagnostics, scheduler = measured(toy, "join(static:8, 2, static:3)", total=4)
    norms = []
    for step in range(4):
        toy.optimizer.zero_grad()
        toy.loss(step).backward()
        norms.append(float(toy.model.weight.grad.norm()))
        with diagnostics.observe_update(step):
            toy.optimizer.step()
        scheduler.step()
    [(gradients, updates)] = diagnostics.ratios
    assert gradients == pytest.approx(norms[2] / norms[1], rel=1e-5)
    assert updates == pytest.approx(
        norms[2] / norms[1], rel=1e-4
    )  # plain SGD: the update is a multiple of the gradient
