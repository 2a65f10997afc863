"""The options of the detection task: pretrained backbones, frozen norms, and COCO's measure beside VOC's."""

import pytest
import torch
from torch import nn

from bitcycle.lab.models.resnets import ImageNetResNet
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks import detection as detection_task
from bitcycle.lab.tasks import task_named


@pytest.fixture
def weights(tmp_path):
    """A ResNet-18 as torchvision would save it."""
    torch.manual_seed(7)
    path = tmp_path / "resnet18.pth"
    torch.save(ImageNetResNet(18).state_dict(), path)
    return path


def prepared(model="", **options):
    return task_named("detection").prepare(
        RunConfig("detection", "full", 1, model=model, batch_size=1, options=options)
    )


def norms_train(training):
    training.model.train()
    return {module.training for module in training.model.modules() if isinstance(module, nn.BatchNorm2d)}


def test_a_pretrained_backbone(weights):
    training = prepared("retinanet-18", backbone=weights)
    expected = torch.load(weights, weights_only=True)
    assert torch.equal(training.model.backbone.conv1.weight, expected["conv1.weight"])
    assert training.optimizer.param_groups[0]["lr"] == 1e-5
    assert norms_train(training) == {False}
    training.size = 128  # the full size takes long
    training.loss(0).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in training.model.parameters())
    assert torch.equal(training.model.backbone.bn1.running_mean, expected["bn1.running_mean"])


@pytest.mark.parametrize(
    ("pretrained", "chosen", "frozen"),
    [(True, "no", False), (True, "auto", True), (False, "yes", True), (False, "auto", False)],
)
def test_norms_can_be_frozen_or_not(weights, pretrained, chosen, frozen):
    training = prepared("retinanet-18", backbone=weights if pretrained else "", frozen_norm=chosen)
    assert norms_train(training) == {not frozen}
    assert training.optimizer.param_groups[0]["lr"] == (1e-5 if pretrained else 1e-4)


def test_misuse(weights):
    with pytest.raises(ValueError, match="retinanet-small has no pretrained backbone: choose retinanet-18"):
        prepared(backbone=weights)
    with pytest.raises(ValueError, match="does not fit the backbone"):
        prepared("retinanet-50", backbone=weights)
    with pytest.raises(ValueError, match="nowhere.pth is not a file"):
        prepared("retinanet-18", backbone="nowhere.pth")
    with pytest.raises(ValueError, match="frozen_norm must be 'auto' or 'yes' or 'no'"):
        prepared(frozen_norm="true")


@pytest.mark.slow
def test_coco_beside_voc(capsys):
    training = prepared()
    training.model.eval()
    metric, extra, losses = training.test()
    assert metric == training.evaluate("test")
    assert torch.equal(losses, training.example_losses("test"))
    assert len(losses) == len(training.data.test)
    assert list(extra) == ["COCO mAP"]
    assert 0 <= extra["COCO mAP"] <= metric + 1e-6  # a mean over stricter overlaps
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_without_the_extra_a_training_still_ends(monkeypatch):
    def missing(*arguments):
        raise detection_task.MissingExtraError("COCO mAP needs faster_coco_eval")

    monkeypatch.setattr(detection_task, "coco_map", missing)
    with pytest.warns(UserWarning, match="COCO mAP was not computed: COCO mAP needs faster_coco_eval"):
        assert prepared().test().extra == {}
