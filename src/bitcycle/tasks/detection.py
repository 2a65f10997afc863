"""Object detection by RetinaNet: Adam, gradients clipped, mean average precision at an overlap of 0.5 (VOC)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bitcycle.data.detection import DetectionBatch, DetectionData, DetectionSplit, collate
from bitcycle.data.digit_scenes import digit_scenes
from bitcycle.data.voc import read_voc
from bitcycle.metrics.detection import voc_map
from bitcycle.models.detecting import detect, retinanet_loss
from bitcycle.models.retinanet import RetinaNet
from bitcycle.noise import mix
from bitcycle.runs import Run
from bitcycle.tasks.task import Batches, Task, Training, register_task

WARM_UP = 20  # steps


@register_task
class DetectionTask(Task):
    """Boxes around the objects of an image, and what they are."""

    name = "detection"
    about = "object detection"
    metric = "mAP"
    bits = (3, 8)
    steps = 250
    evaluate_every = 50
    models = ("retinanet-small", "retinanet-18", "retinanet-34", "retinanet-50")
    embedded = "scenes composed of scikit-learn's digits"
    official = "Pascal VOC folders of any year"

    def prepare(self, run: Run) -> Training:
        data = read_voc(run.data) if run.data else digit_scenes(train=4000)
        name = self.chosen_model(run)
        small = name == "retinanet-small"
        classes = len(data.classes)
        model = RetinaNet.small(classes) if small else RetinaNet(classes, depth=int(name.rpartition("-")[2]))
        return DetectionTraining(run, data, model, size=64 if small else 512, rate=6e-3 if small else 1e-4)


class DetectionTraining(Training):
    """Images resized to squares; real photographs are flipped at random, digits are not."""

    policy = "retinanet"

    def __init__(self, run: Run, data: DetectionData, model: RetinaNet, size: int, rate: float) -> None:
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

    @torch.no_grad()
    def evaluate(self, part: str) -> float:
        split: DetectionSplit = getattr(self.data, part)
        found, truth = [], []
        for start in range(0, len(split), 32):
            batch = self._batch(split, list(range(start, min(start + 32, len(split)))))
            found += detect(self.model(batch.images.to(self.device)))
            truth += batch.targets
        return voc_map(found, truth)

    def example(self) -> Tensor:
        return torch.zeros(self.batch, 3, self.size, self.size, device=self.device)

    def _batch(self, split: DetectionSplit, rows: list[int], flip: Tensor | None = None) -> DetectionBatch:
        return collate([split.sample(row) for row in rows], self.size, flip)
