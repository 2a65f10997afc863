"""Image classification: SGD with momentum; the learning rate is divided by 10 at 50 % and 75 % of training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.noise import mix
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.image_files import read_images
from bitcycle.lab.data.images import ImageData, digits
from bitcycle.lab.data.official import find_official
from bitcycle.lab.data.splits import Split
from bitcycle.lab.models.mobilenet_v2 import MobileNetV2
from bitcycle.lab.models.resnets import CifarResNet, ImageNetResNet
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.batches import Batches
from bitcycle.lab.tasks.one_pass import OnePassTraining, classification_figures
from bitcycle.lab.tasks.task import FinalFigures, Task, Training, register_task

SMALL_IMAGES = 64  # up to this size in pixels, networks have the strides for CIFAR
PADDING = 4  # pixels, before a random crop


@register_task
class ImageTask(Task):
    """Classification of images."""

    name = "image"
    about = "image classification"
    metric = "accuracy"
    bits = (2, 8)
    steps = 400
    evaluate_every = 50
    models = BUILT_IN["image"].models
    embedded = "scikit-learn's digits"
    official = "MNIST and Fashion-MNIST idx files, CIFAR-10/100 python batches, ImageNet-style folders"

    def prepare(self, run: RunConfig) -> Training:
        data = read_images(find_official(run.data)) if run.data else digits()
        return ImageTraining(run, data, _model(self.chosen_model(run), data))


class ImageTraining(OnePassTraining):
    """SGD with learning rate 0.1 (0.03 for MobileNetV2), momentum 0.9 and weight decay 1e-4."""

    def __init__(self, run: RunConfig, data: ImageData, model: nn.Module) -> None:
        self.model, self.data, self.seed = model, data, run.seed
        self.recipe = Recipe.paper()
        self.policy = "imagenet-resnet" if isinstance(model, ImageNetResNet) else "cifar-resnet"
        rate = 0.03 if isinstance(model, MobileNetV2) else 0.1
        self.optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-4)
        self.batch = run.batch_size or 128
        self.batches = Batches(len(data.train), self.batch, run.seed)
        self.steps_per_epoch = self.batches.per_epoch
        sample = data.train.images(torch.arange(min(1000, len(data.train))))
        self.mean, self.std = sample.mean((0, 2, 3), keepdim=True), sample.std((0, 2, 3), keepdim=True)
        self.augments = 28 < data.size <= SMALL_IMAGES and data.channels == 3

    def learning_rate(self, step: int, total: int) -> float:
        return step_decay(step, total, (0.5, 0.75), 0.1)

    def evaluation_interval(self, usual: int, total: int) -> int:
        """Return an interval that gives four evaluations or more, unless they would take more than a tenth of the time.

        A training step takes the time of about three forward passes.
        """
        interval = super().evaluation_interval(min(usual, total // 4), total)
        return max(1, interval, 10 * len(self.data.validation) // (3 * self.batch))

    def loss(self, step: int) -> Tensor:
        rows = self.batches(step)
        x = self.data.train.images(rows)
        if self.augments:
            x = crop_and_flip(x, torch.Generator().manual_seed(mix(self.seed, step, 1) >> 1))
        return F.cross_entropy(self.model(self._normalised(x)), self.data.train.labels[rows].to(self.device))

    @torch.no_grad()
    def figures(self, split: Split) -> FinalFigures:
        """Return the accuracy and the cross entropy of each image."""
        return classification_figures(self._outputs(split))

    def example(self) -> Tensor:
        return torch.zeros(self.batch, self.data.channels, self.data.size, self.data.size, device=self.device)

    def _outputs(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits and labels in batches."""
        images = self.data[split]
        for rows in torch.arange(len(images)).split(512):
            yield self.model(self._normalised(images.images(rows))), images.labels[rows].to(self.device)

    def _normalised(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).to(self.device)


def step_decay(step: int, total: int, boundaries: tuple[float, ...], factor: float) -> float:
    """Return the factor to the power of the number of boundaries, as fractions of training, that have been reached.

    >>> [step_decay(step, 100, (0.5, 0.75), 0.1) for step in (0, 50, 80)]
    [1.0, 0.1, 0.010000000000000002]
    """
    return factor ** sum(step >= boundary * total for boundary in boundaries)


def crop_and_flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """Pad each image by 4 pixels, crop it at random to its size, and flip it horizontally at random."""
    n, _, height, width = x.shape
    padded = F.pad(x, (PADDING,) * 4)
    tops, lefts = torch.randint(0, 2 * PADDING + 1, (2, n), generator=generator).tolist()
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
        raise ValueError(
            f"{name} takes images of 3 channels, {data.name} has {data.channels}: choose a model such as resnet-20"
        )
    if name == "mobilenet-v2":
        return MobileNetV2(classes, small_images=data.size <= SMALL_IMAGES)
    return ImageNetResNet(int(name.removeprefix("imagenet-resnet-")), classes)
