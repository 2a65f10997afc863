"""What one step of the training loop does, on trainings that take a moment."""

from types import SimpleNamespace

import pytest
import torch

from bitcycle.lab.runs.checkpoints import NAME, load_checkpoint, save_checkpoint
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train, update
from bitcycle.lab.tasks import task_named

RUN = RunConfig("graph", "CR:3-8:cycles=2", 4)


@pytest.fixture(scope="module", autouse=True)
def training():
    """The type of the training of the task. What a first training loads is not timed."""
    train(RUN)
    return type(task_named("graph").prepare(RUN))


def test_the_learning_rate_of_a_step_is_forgotten_after_it():
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for expected in (0.95, 0.9):
        update(SimpleNamespace(optimizer=optimizer, clip=None), weight.sum(), factor=0.5)
        assert weight.item() == pytest.approx(expected)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_every_step_has_random_numbers_of_its_own(training, monkeypatch):
    loss, drawn = training.loss, []
    monkeypatch.setattr(training, "loss", lambda self, step: drawn.append(torch.rand(()).item()) or loss(self, step))
    train(RUN)
    assert len(set(drawn)) == len(drawn) == RUN.steps


@pytest.mark.parametrize(("metrics", "best_step"), [([0.1, 0.9, 0.5, 0.2], 2), ([0.1, 0.9, 0.5, 0.9], 4)])
def test_the_best_weights_on_validation_are_tested(training, monkeypatch, metrics, best_step):
    """Of equal ones, the last."""
    monkeypatch.setattr(type(task_named("graph")), "evaluate_every", 1)
    values = iter(metrics)
    monkeypatch.setattr(training, "evaluate", lambda self, split: next(values))
    monkeypatch.setattr(training, "test", lambda self: (0.5, {}, None))
    result, _ = train(RUN)
    assert (result.best_step, result.validation) == (best_step, 0.9)


def test_runs_of_other_seeds_are_other_runs():
    first, same, other = (RunConfig("graph", "static:8", 4, seed) for seed in (0, 0, 1))
    assert first == same
    assert first != other
    assert first.condition == other.condition


def test_a_digest_of_another_content_is_found_out(tmp_path):
    """A checkpoint that torch can read, but that is not what was written."""
    contents = []
    for step in (1, 2):
        save_checkpoint(tmp_path, {}, {"step": step})
        contents.append((tmp_path / NAME).read_bytes())
    digest = 64
    (tmp_path / NAME).write_bytes(contents[0][:-digest] + contents[1][-digest:])
    assert load_checkpoint(tmp_path, {}) == {"step": 1}, "the previous one"
    assert (tmp_path / f"{NAME}.damaged").exists()
