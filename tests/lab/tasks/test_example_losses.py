"""The losses of test examples: one for each, in agreement with the metric, and recorded beside it."""

import math

import numpy as np
import pytest
import torch

from bitcycle.lab.data.splits import Split
from bitcycle.lab.models.retinanet import retinanet_loss
from bitcycle.lab.runs.result import TEST_LOSS
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.studies.store import Store
from bitcycle.lab.tasks import TASKS, task_named


@pytest.fixture(scope="module", params=sorted(TASKS))
def trained(request):
    """An untrained model is enough: what is compared are two ways to evaluate it."""
    task = task_named(request.param)
    torch.manual_seed(0)
    training = task.prepare(RunConfig(request.param, "static:8", 1))
    training.model.eval()
    return training


def test_one_finite_loss_per_example(trained):
    losses = trained.example_losses(Split.VALIDATION)
    assert losses.ndim == 1
    assert losses.isfinite().all()
    assert not losses.requires_grad
    if hasattr(trained, "held_out"):  # a text: stretches of 35 words, in ten columns
        length, columns = trained.held_out[Split.VALIDATION].shape
        assert len(losses) == math.ceil((length - 1) / 35) * columns
        whole = len(losses) - columns  # the last stretches are shorter
        mean = (losses[:whole].sum() * 35 + losses[whole:].sum() * ((length - 1) % 35 or 35)) / (length - 1) / columns
        assert math.exp(mean) == pytest.approx(trained.evaluate(Split.VALIDATION), rel=1e-4)
    else:
        assert len(losses) == len(trained.data[Split.VALIDATION])


@pytest.mark.slow
def test_one_pass_gives_what_single_passes_give(trained):
    metric, _, losses = trained.test()
    assert metric == trained.evaluate(Split.TEST)
    assert torch.equal(losses, trained.example_losses(Split.TEST))


def test_the_losses_of_images_with_objects_are_those_of_batches_of_one():
    training = task_named("detection").prepare(RunConfig("detection", "static:8", 1))
    training.model.eval()
    batch = training._batch(training.data.validation, [3])
    with torch.no_grad():
        alone = retinanet_loss(training.model(batch.images), batch.targets).total
    assert training.example_losses(Split.VALIDATION)[3] == pytest.approx(float(alone), rel=1e-4)


def test_a_run_records_them(tmp_path):
    run = RunConfig("graph", "CR:3-8:cycles=2", 4)
    result, _ = train(run)
    assert result.extra[TEST_LOSS] == pytest.approx(float(np.mean(result.example_losses)), rel=1e-6)
    assert "example_losses" not in result.as_dict()
    with Store(tmp_path / "s.sqlite") as store:
        store.write(result)
        other = RunConfig("graph", "static:8", 4)
        found = store.example_losses([other, run])
        assert list(found) == [run.name]
        assert (found[run.name] == result.example_losses).all()
        [record] = store.records([run])
        assert record.extra == result.extra
        assert record.example_losses is None
