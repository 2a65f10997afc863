"""Presets: the settings of the paper's experiments, at full size."""

from __future__ import annotations

from dataclasses import dataclass, field

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class Preset:
    """Settings that replace the defaults of a task. The user provides the data."""

    model: str
    """One of the task's models; the task's default if empty."""
    bits: tuple[int, int]
    """q_min and q_max."""
    cycles: int
    """Number of cycles of the schedule."""
    batch_size: int
    """Samples per step; 0 = the task's default."""
    about: str
    """One line for ``bitcycle tasks``."""
    steps: int = 0
    """Training steps; 0 = given by ``epochs``."""
    epochs: int = 0
    """Passes through the training data, where the paper counts epochs instead of steps."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the task. The user's options take precedence."""


PRESETS: dict[str, dict[str, Preset]] = {
    "image": {
        "paper": Preset("resnet-74", (3, 8), 8, 128, "CIFAR-10/100, ResNet-74, 64k iterations", steps=64_000),
        "paper-mobilenet": Preset("mobilenet-v2", (4, 8), 8, 128, "CIFAR-10/100, MobileNetV2", steps=64_000),
        "paper-imagenet": Preset("imagenet-resnet-18", (4, 8), 8, 256, "ImageNet, ResNet-18, 90 epochs", epochs=90),
    },
    "detection": {
        "paper": Preset(
            "retinanet-18",
            (5, 8),
            8,
            8,
            "Pascal VOC, RetinaNet with a pretrained ResNet-18 (--option backbone=FILE), 120 epochs",
            epochs=120,
        ),
        "paper-101": Preset(
            "retinanet-101",
            (5, 8),
            8,
            2,
            "Pascal VOC, RetinaNet with a pretrained ResNet-101 (--option backbone=FILE), 120 epochs",
            epochs=120,
        ),
    },
    "graph": {
        "paper": Preset(
            "gcn",
            (3, 8),
            8,
            0,
            "OGBN-Arxiv, GCN of 3 layers with 512 units, 500 epochs",
            steps=500,
            options={"layers": "3", "hidden": "512"},
        ),
        "paper-products": Preset(
            "sage",
            (3, 8),
            8,
            1024,
            "OGBN-Products, GraphSAGE of 2 layers with 512 units, 32 neighbours per layer, 80 epochs",
            epochs=80,
            options={"batches": "neighbours", "fan_out": "32", "layers": "2", "hidden": "512"},
        ),
    },
    "language": {
        "paper": Preset(
            "lstm",
            (5, 8),
            8,
            20,
            "Penn Treebank, LSTM with 800 units, 40 epochs",
            epochs=40,
            options={"activations": "tensor"},
        ),
    },
    "entailment": {
        "paper": Preset(
            "",
            (5, 8),
            2,
            64,
            "XNLI, a pretrained multilingual BERT (--model FOLDER), 2 epochs",
            epochs=2,
            options={"activations": "tensor"},
        ),
    },
}


def preset_named(task: str, name: str) -> Preset:
    """Return a preset of a task.

    Raises:
        ValueError: If the task has no preset of this name.
    """
    known = PRESETS.get(task, {})
    if name not in known:
        raise ValueError(f"the task {task} has no preset {name!r}; {nearest(name, known)}")
    return known[name]
