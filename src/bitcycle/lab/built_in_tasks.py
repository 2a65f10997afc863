"""The built-in tasks: their names, models and presets, and what the paper used.

This table does not load torch, so that shell completion and advice can read it. The task of a name is the class in the
module of that name in :mod:`bitcycle.lab.tasks`; it takes its models from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class Preset:
    """Settings of the paper, at full size, which replace the defaults of a task. The user provides the data."""

    model: str
    """One of the task's models; the task's default if empty."""
    bits: tuple[int, int]
    """q_min and q_max."""
    batch_size: int
    """Samples per step; 0 = the task's default."""
    about: str
    """One line for ``bitcycle tasks``."""
    cycles: int = 8
    """Number of cycles of the schedule."""
    steps: int = 0
    """Training steps; 0 = given by ``epochs``."""
    epochs: int = 0
    """Passes through the training data, where the paper counts epochs instead of steps."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the task. The user's options take precedence."""


@dataclass(frozen=True)
class BuiltInTask:
    """What is known about a task without loading it."""

    models: tuple[str, ...]
    """Names of the models, the default first."""
    paper_q_min: int
    """The q_min that the paper used in this domain."""
    paper_setting: str
    """The data and the model with which it did so."""
    presets: dict[str, Preset]
    """The settings of the paper's experiments, by name."""


_PRETRAINED = "(--option backbone=FILE), 120 epochs"

BUILT_IN: dict[str, BuiltInTask] = {
    "detection": BuiltInTask(
        models=("retinanet-small", *(f"retinanet-{depth}" for depth in (18, 34, 50, 101))),
        paper_q_min=5,
        paper_setting="Pascal VOC with RetinaNet",
        presets={
            "paper": Preset(
                "retinanet-18",
                (5, 8),
                8,
                f"Pascal VOC, RetinaNet with a pretrained ResNet-18 {_PRETRAINED}",
                epochs=120,
            ),
            "paper-101": Preset(
                "retinanet-101",
                (5, 8),
                2,
                f"Pascal VOC, RetinaNet with a pretrained ResNet-101 {_PRETRAINED}",
                epochs=120,
            ),
        },
    ),
    "entailment": BuiltInTask(
        models=("bert-tiny", "bert-mini"),
        paper_q_min=5,
        paper_setting="XNLI with BERT",
        presets={
            "paper": Preset(
                "",
                (5, 8),
                64,
                "XNLI, a pretrained multilingual BERT (--model FOLDER), 2 epochs",
                cycles=2,
                epochs=2,
                options={"activations": "tensor"},
            ),
        },
    ),
    "graph": BuiltInTask(
        models=("gcn", "sage", "gat"),
        paper_q_min=3,
        paper_setting="OGBN-Arxiv and OGBN-Products",
        presets={
            "paper": Preset(
                "gcn",
                (3, 8),
                0,
                "OGBN-Arxiv, GCN of 3 layers with 512 units, 500 epochs",
                steps=500,
                options={"layers": "3", "hidden": "512"},
            ),
            "paper-products": Preset(
                "sage",
                (3, 8),
                1024,
                "OGBN-Products, GraphSAGE of 2 layers with 512 units, 32 neighbours per layer, 80 epochs",
                epochs=80,
                options={"batches": "neighbours", "fan_out": "32", "layers": "2", "hidden": "512"},
            ),
        },
    ),
    "image": BuiltInTask(
        models=(
            *(f"resnet-{depth}" for depth in (8, 20, 38, 74, 110, 152)),
            *(f"imagenet-resnet-{depth}" for depth in (18, 34, 50, 101)),
            "mobilenet-v2",
        ),
        paper_q_min=3,
        paper_setting="CIFAR with ResNets; it used 4 for MobileNetV2 and for ImageNet",
        presets={
            "paper": Preset("resnet-74", (3, 8), 128, "CIFAR-10/100, ResNet-74, 64k iterations", steps=64_000),
            "paper-mobilenet": Preset("mobilenet-v2", (4, 8), 128, "CIFAR-10/100, MobileNetV2", steps=64_000),
            "paper-imagenet": Preset("imagenet-resnet-18", (4, 8), 256, "ImageNet, ResNet-18, 90 epochs", epochs=90),
        },
    ),
    "language": BuiltInTask(
        models=("lstm", "lstm-2", "transformer"),
        paper_q_min=5,
        paper_setting="Penn Treebank with an LSTM",
        presets={
            "paper": Preset(
                "lstm",
                (5, 8),
                20,
                "Penn Treebank, LSTM with 800 units, 40 epochs",
                epochs=40,
                options={"activations": "tensor"},
            ),
        },
    ),
}
"""The built-in tasks, by name."""


def preset_named(task: str, name: str) -> Preset:
    """Return a preset of a task.

    Raises:
        ValueError: If the task has no preset of this name.
    """
    presets = BUILT_IN[task].presets if task in BUILT_IN else {}
    if name not in presets:
        raise ValueError(f"the task {task} has no preset {name!r}; {nearest(name, presets)}")
    return presets[name]
