"""Object detection with RetinaNet: Adam, gradient clipping, mean average precision at an IoU of 0.5 (Pascal VOC).

The paper starts from weights pretrained on ImageNet: ``--option backbone=FILE`` reads such a file, with torchvision's
names. The learning rates are then the paper's, 1e-5 or, for ResNet-101, 3e-6. From scratch the learning rate is 1e-4.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

import torch
from torch import Tensor

from bitcycle._support.extras import MissingExtraError
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.noise import mix
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.detection import DetectionBatch, DetectionData, DetectionSplit, Target, collate
from bitcycle.lab.data.digit_scenes import digit_scenes
from bitcycle.lab.data.official import find_official
from bitcycle.lab.data.splits import Split
from bitcycle.lab.data.voc import read_voc
from bitcycle.lab.metrics.detection import coco_map, voc_map
from bitcycle.lab.models.backbones import freeze_batch_norm, load_backbone
from bitcycle.lab.models.boxes import Detections
from bitcycle.lab.models.retinanet import Outputs, RetinaNet, detect, retinanet_loss
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.batches import Batches
from bitcycle.lab.tasks.task import AUTO, FinalFigures, Option, Task, Training, register_task

WARM_UP = 20  # steps
MODELS = BUILT_IN["detection"].models
SMALL = MODELS[0]


class FrozenNorm(StrEnum):
    """Whether the statistics of batch norms stay fixed."""

    AUTO = "auto"
    """Only with a pretrained backbone."""
    YES = "yes"
    NO = "no"


@register_task
class DetectionTask(Task):
    """Detection of the objects in an image: their boxes and classes."""

    name = "detection"
    about = "object detection"
    metric = "mAP"
    bits = (3, 8)
    steps = 160
    evaluate_every = 40
    models = MODELS
    options: ClassVar = {
        "backbone": Option(
            "", "a file with pretrained weights of the ResNet, with torchvision's names, .pth or .safetensors"
        ),
        "frozen_norm": Option(
            FrozenNorm.AUTO,
            "keep the statistics of batch norms fixed; auto = only with a pretrained backbone",
            tuple(FrozenNorm),
        ),
        "size": Option(
            AUTO, f"images are scaled to squares of this many pixels; auto = 64 for {SMALL}, else 512", kind=int
        ),
    }
    embedded = "scenes composed of scikit-learn's digits"
    official = "Pascal VOC folders of any year"

    def prepare(self, run: RunConfig) -> Training:
        name, options = self.chosen_model(run), self.chosen_options(run)
        weights, frozen = options["backbone"], FrozenNorm(options["frozen_norm"])
        data = read_voc(find_official(run.data)) if run.data else digit_scenes(train=4000)
        classes = len(data.classes)
        if name == SMALL:
            if weights:
                raise ValueError(f"{SMALL} has no pretrained backbone: choose {', '.join(MODELS[1:])}")
            model, usual, rate = RetinaNet.small(classes), 64, 6e-3
        else:
            depth = int(name.removeprefix("retinanet-"))
            model, usual, rate = RetinaNet(classes, depth), 512, 1e-4
            if weights:
                load_backbone(model.backbone, weights)
                rate = 3e-6 if depth == 101 else 1e-5
        if frozen is FrozenNorm.YES or (frozen is FrozenNorm.AUTO and weights):
            freeze_batch_norm(model)
        return DetectionTraining(run, data, model, options["size"] or usual, rate)


class DetectionTraining(Training):
    """Images are padded to squares of one size. Photographs are flipped at random, digits are not."""

    recipe = Recipe.paper()
    policy = "retinanet"

    def __init__(self, run: RunConfig, data: DetectionData, model: RetinaNet, size: int, rate: float) -> None:
        self.model, self.data, self.size, self.seed = model, data, size, run.seed
        self.flips = bool(run.data)
        self.clip = 0.1 if run.data else 1.0
        self.optimizer = torch.optim.Adam(model.parameters(), rate)
        self.batch = run.batch_size or (8 if run.data else 12)
        self.batches = Batches(len(data.train), self.batch, run.seed)
        self.steps_per_epoch = self.batches.per_epoch

    def learning_rate(self, step: int, total: int) -> float:
        """Return the factor: a short linear warm-up times a cosine from 1 to 0."""
        return min((step + 1) / WARM_UP, 1.0) * (1 + math.cos(math.pi * step / total)) / 2

    def loss(self, step: int) -> Tensor:
        flip = None
        if self.flips:
            generator = torch.Generator().manual_seed(mix(self.seed, step, 1) >> 1)
            flip = torch.rand(self.batch, generator=generator) < 0.5
        batch = self._batch(self.data.train, self.batches(step).tolist(), flip)
        return retinanet_loss(self.model(batch.images.to(self.device)), batch.targets).total

    @torch.no_grad()
    def evaluate(self, split: Split) -> float:
        detections: list[Detections] = []
        targets: list[Target] = []
        for outputs, of_batch in self._outputs(split):
            detections += detect(outputs)
            targets += of_batch
        return voc_map(detections, targets)

    @torch.no_grad()
    def test(self) -> FinalFigures:
        """Return the mean average precision, COCO's if faster-coco-eval is installed, and the losses, in one pass."""
        detections: list[Detections] = []
        targets: list[Target] = []
        losses: list[Tensor] = []
        for outputs, of_batch in self._outputs(Split.TEST):
            detections += detect(outputs)
            targets += of_batch
            losses += _image_losses(outputs, of_batch)
        try:
            extra = {"COCO mAP": coco_map(detections, targets)["map"]}
        except MissingExtraError as error:  # do not lose a finished training
            warnings.warn(f"COCO mAP was not computed: {error}", stacklevel=2)
            extra = {}
        return FinalFigures(voc_map(detections, targets), extra, torch.stack(losses))

    @torch.no_grad()
    def example_losses(self, split: Split) -> Tensor:
        """Return RetinaNet's loss of each image: focal loss plus smooth L1 loss."""
        return torch.stack([loss for batch in self._outputs(split) for loss in _image_losses(*batch)])

    def _outputs(self, split: Split) -> Iterator[tuple[Outputs, list[Target]]]:
        """Yield outputs and targets in batches."""
        samples = self.data[split]
        for start in range(0, len(samples), 32):
            batch = self._batch(samples, list(range(start, min(start + 32, len(samples)))))
            yield self.model(batch.images.to(self.device)), batch.targets

    def example(self) -> Tensor:
        return torch.zeros(self.batch, 3, self.size, self.size, device=self.device)

    def _batch(self, samples: DetectionSplit, rows: list[int], flip: Tensor | None = None) -> DetectionBatch:
        return collate([samples.sample(row) for row in rows], self.size, flip)


def _image_losses(outputs: Outputs, targets: list[Target]) -> list[Tensor]:
    return [retinanet_loss(outputs.of_image(row), [target]).total for row, target in enumerate(targets)]
