"""Object detection by RetinaNet: Adam, gradients clipped, mean average precision at an overlap of 0.5 (VOC).

The paper starts from weights pretrained on ImageNet: ``--option backbone=FILE`` takes such a file, in torchvision's
names. Learning rates are then the paper's, 1e-5 and for ResNet-101 3e-6, and 1e-4 from scratch.
"""

from __future__ import annotations

import math
import warnings
from typing import ClassVar

import torch
from torch import Tensor

from bitcycle._support.extras import MissingExtraError
from bitcycle.experiments.data.detection import DetectionBatch, DetectionData, DetectionSplit, Target, collate
from bitcycle.experiments.data.digit_scenes import digit_scenes
from bitcycle.experiments.data.official import find_official
from bitcycle.experiments.data.voc import read_voc
from bitcycle.experiments.metrics.detection import coco_map, voc_map
from bitcycle.experiments.models.backbones import freeze_batch_norm, load_backbone
from bitcycle.experiments.models.boxes import Detections
from bitcycle.experiments.models.detecting import detect, retinanet_loss
from bitcycle.experiments.models.retinanet import RetinaNet
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks.task import Batches, Option, Task, Training, register_task
from bitcycle.kernels.noise import mix

WARM_UP = 20  # steps


@register_task
class DetectionTask(Task):
    """Boxes around the objects of an image, and what they are."""

    name = "detection"
    about = "object detection"
    metric = "mAP"
    bits = (3, 8)
    steps = 160
    evaluate_every = 40
    models = ("retinanet-small", "retinanet-18", "retinanet-34", "retinanet-50", "retinanet-101")
    options: ClassVar = {
        "backbone": Option(
            "", "a file with pretrained weights of the ResNet, torchvision's names, .pth or .safetensors"
        ),
        "frozen_norm": Option(
            "auto", "keep the statistics of batch norms; auto: with a pretrained backbone", ("auto", "yes", "no")
        ),
    }
    embedded = "scenes composed of scikit-learn's digits"
    official = "Pascal VOC folders of any year"

    def prepare(self, run: RunConfig) -> Training:
        name, options = self.chosen_model(run), self.chosen_options(run)
        weights = options["backbone"]
        data = read_voc(find_official(run.data)) if run.data else digit_scenes(train=4000)
        classes = len(data.classes)
        if name == "retinanet-small":
            if weights:
                raise ValueError("retinanet-small has no pretrained backbone: choose retinanet-18, -34, -50 or -101")
            model, size, rate = RetinaNet.small(classes), 64, 6e-3
        else:
            depth = int(name.rpartition("-")[2])
            model, size, rate = RetinaNet(classes, depth), 512, 1e-4
            if weights:
                load_backbone(model, weights)
                rate = 3e-6 if depth == 101 else 1e-5
        if options["frozen_norm"] == "yes" or (options["frozen_norm"] == "auto" and weights):
            freeze_batch_norm(model)
        return DetectionTraining(run, data, model, size, rate)


class DetectionTraining(Training):
    """Images resized to squares; real photographs are flipped at random, digits are not."""

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
        """A short warm-up, then down along a cosine."""
        return min((step + 1) / WARM_UP, 1.0) * (1 + math.cos(math.pi * step / total)) / 2

    def loss(self, step: int) -> Tensor:
        flip = None
        if self.flips:
            generator = torch.Generator().manual_seed(mix(self.seed, step, 1) >> 1)
            flip = torch.rand(self.batch, generator=generator) < 0.5
        batch = self._batch(self.data.train, self.batches(step).tolist(), flip)
        return retinanet_loss(self.model(batch.images.to(self.device)), batch.targets).total

    def evaluate(self, part: str) -> float:
        return voc_map(*self._found_and_true(part))

    def extra_metrics(self, part: str) -> dict[str, float]:
        """COCO's mean average precision, over overlaps from 0.5 to 0.95, where faster-coco-eval is installed."""
        try:
            return {"COCO mAP": coco_map(*self._found_and_true(part))["map"]}
        except MissingExtraError as error:  # no reason to lose a training that is done
            warnings.warn(f"COCO mAP is left out: {error}", stacklevel=2)
            return {}

    @torch.no_grad()
    def _found_and_true(self, part: str) -> tuple[list[Detections], list[Target]]:
        """What the model finds in each image of a part, and what is there."""
        split: DetectionSplit = getattr(self.data, part)
        found: list[Detections] = []
        true: list[Target] = []
        for start in range(0, len(split), 32):
            batch = self._batch(split, list(range(start, min(start + 32, len(split)))))
            found += detect(self.model(batch.images.to(self.device)))
            true += batch.targets
        return found, true

    def example(self) -> Tensor:
        return torch.zeros(self.batch, 3, self.size, self.size, device=self.device)

    def _batch(self, split: DetectionSplit, rows: list[int], flip: Tensor | None = None) -> DetectionBatch:
        return collate([split.sample(row) for row in rows], self.size, flip)
