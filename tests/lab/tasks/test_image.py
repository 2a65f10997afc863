"""The image task on official data, and how often it looks at validation."""

import os

import pytest

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import task_named
from bitcycle.lab.tasks.image import ImageTraining

pytestmark = pytest.mark.slow

DATA = os.environ.get("BITCYCLE_DATA")


@pytest.mark.skipif(not DATA, reason="BITCYCLE_DATA names no folder with official data")
def test_fashion_mnist_is_learned(monkeypatch):
    """``bitcycle train image --model resnet-8 --data fashion-mnist --schedule full --steps 550``: 85 % in a minute."""
    monkeypatch.setattr(ImageTraining, "evaluation_interval", lambda self, usual, total: total)  # it takes a while, too
    run = RunConfig(
        "image", "full", 550, backward_bits=None, model="resnet-8", data=os.path.join(DATA, "fashion-mnist")
    )
    result, _ = train(run)
    assert result.test > 0.85


def test_validation_is_looked_at_often_but_does_not_take_over():
    training = task_named("image").prepare(RunConfig("image", "full", 1))
    assert training.evaluation_interval(50, 400) == 50
    assert training.evaluation_interval(50, 64_000) == 1600
    assert training.evaluation_interval(50, 60) == 15
    training.batch = 1
    assert training.evaluation_interval(50, 400) == 10 * len(training.data.validation) // 3
