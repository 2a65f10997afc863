"""Image classification: SGD with momentum, learning rate divided by 10 at 50 and 75 % of training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.experiments.data.images import ImageData, ImageSplit, digits, read_images
from bitcycle.experiments.data.official import find_official
from bitcycle.experiments.models.cifar_resnet import CifarResNet
from bitcycle.experiments.models.imagenet_resnet import ImageNetResNet
from bitcycle.experiments.models.mobilenet_v2 import MobileNetV2
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks.task import Batches, Task, Training, at_boundaries, register_task
from bitcycle.kernels.noise import mix

SMALL_IMAGES = 64  # up to this size the strides of CIFAR networks apply
CROP = 4


@register_task
class ImageTask(Task):
    """Images of one object each."""

    name = "image"
    about = "image classification"
    metric = "accuracy"
    bits = (2, 8)
    steps = 400
    evaluate_every = 50
    models = (
        *(f"resnet-{depth}" for depth in (8, 20, 38, 74, 110, 152)),
        *(f"imagenet-resnet-{depth}" for depth in (18, 34, 50, 101)),
        "mobilenet-v2",
    )
    embedded = "scikit-learn's digits"
    official = "MNIST and Fashion-MNIST idx files, CIFAR-10/100 python batches, ImageNet-style folders"

    def prepare(self, run: RunConfig) -> Training:
        data = read_images(find_official(run.data)) if run.data else digits()
        return ImageTraining(run, data, _model(self.chosen_model(run), data))


class ImageTraining(Training):
    """SGD .1 (.03 for MobileNetV2), momentum .9, weight decay 1e-4."""

    def __init__(self, run: RunConfig, data: ImageData, model: nn.Module) -> None:
        self.model, self.data, self.seed = model, data, run.seed
        self.policy = "imagenet-resnet" if isinstance(model, ImageNetResNet) else "cifar-resnet"
        rate = 0.03 if isinstance(model, MobileNetV2) else 0.1
        self.optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-4)
        self.batch = run.batch_size or 128
        self.batches = Batches(len(data.train), self.batch, run.seed)
        self.steps_per_epoch = self.batches.per_epoch
        some = data.train.images(torch.arange(min(1000, len(data.train))))
        self.mean, self.std = some.mean((0, 2, 3), keepdim=True), some.std((0, 2, 3), keepdim=True)
        self.augments = 28 < data.size <= SMALL_IMAGES and data.channels == 3

    def learning_rate(self, step: int, total: int) -> float:
        return at_boundaries(step, total, (0.5, 0.75), 0.1)

    def evaluation_interval(self, usual: int, total: int) -> int:
        """Four looks or more, if validation takes no more than a tenth of the time: a step is three forward passes."""
        often = super().evaluation_interval(min(usual, total // 4), total)
        return max(1, often, 10 * len(self.data.validation) // (3 * self.batch))

    def loss(self, step: int) -> Tensor:
        rows = self.batches(step)
        x = self.data.train.images(rows)
        if self.augments:
            x = crop_and_flip(x, torch.Generator().manual_seed(mix(self.seed, step, 1) >> 1))
        return F.cross_entropy(self.model(self._normalised(x)), self._labels(self.data.train, rows))

    @torch.no_grad()
    def evaluate(self, part: str) -> float:
        split: ImageSplit = getattr(self.data, part)
        right = 0
        for rows in torch.arange(len(split)).split(512):
            logits = self.model(self._normalised(split.images(rows)))
            right += int((logits.argmax(1) == self._labels(split, rows)).sum())
        return right / len(split)

    def example(self) -> Tensor:
        return torch.zeros(self.batch, self.data.channels, self.data.size, self.data.size, device=self.device)

    def _normalised(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).to(self.device)

    def _labels(self, split: ImageSplit, rows: Tensor) -> Tensor:
        return split.labels[rows].to(self.device)


def crop_and_flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """A random crop after padding by 4 pixels, and a random horizontal flip, for each image of its own."""
    n, _, height, width = x.shape
    padded = F.pad(x, (CROP,) * 4)
    tops, lefts = torch.randint(0, 2 * CROP + 1, (2, n), generator=generator).tolist()
    flips = (torch.rand(n, generator=generator) < 0.5).tolist()
    crops = []
    for image, top, left, flip in zip(padded, tops, lefts, flips, strict=True):
        crop = image[:, top : top + height, left : left + width]
        crops.append(crop.flip(-1) if flip else crop)
    return torch.stack(crops)


def _model(name: str, data: ImageData) -> nn.Module:
    classes = len(data.classes)
    if name.startswith("resnet-"):
        return CifarResNet(int(name.removeprefix("resnet-")), classes, data.channels)
    if data.channels != 3:
        raise ValueError(f"{name} takes colour images, {data.name} has {data.channels} channel(s): take a resnet-20")
    if name == "mobilenet-v2":
        return MobileNetV2(classes, small_images=data.size <= SMALL_IMAGES)
    return ImageNetResNet(int(name.rpartition("-")[2]), classes)
