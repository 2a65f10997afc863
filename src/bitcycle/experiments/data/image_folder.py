"""ImageNet-style folders: train/<class>/*.jpg, and val/ or test/ with the same classes."""

from __future__ import annotations

from pathlib import Path

import torch

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.image_data import FileImages, ImageData, hold_out

_ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm"))


def is_image_folder(folder: Path) -> bool:
    """Whether there is a `train` folder of folders."""
    return bool(_classes(folder / "train"))


def read_image_folder(folder: Path, size: int) -> ImageData:
    """The folder's classes in alphabetical order; its `val` is the test part, or `test` where there is no `val`."""
    if size < 1:
        raise ValueError(f"size is the side of the images in pixels, at least 1, not {size}")
    classes = _classes(folder / "train")
    held = next((folder / name for name in ("val", "test") if (folder / name).is_dir()), None)
    if held is None:
        raise DataError(f"{folder}: has train/ alone; it should have val/ or test/ with the same classes beside it")
    unknown = sorted(set(_classes(held)) - set(classes))
    if unknown:
        raise DataError(f"{held}: has the class {unknown[0]!r}, which train/ does not have; they should be the same")
    train = _split(folder / "train", classes, size)
    missing = sorted(set(range(len(classes))) - set(train.labels.tolist()))
    if missing:
        raise DataError(f"{folder / 'train' / classes[missing[0]]}: holds no image; it should hold files such as *.jpg")
    if len(train) < 2:
        raise DataError(f"{folder / 'train'}: holds one image; it should hold at least two")
    return ImageData(folder.absolute().name, classes, 3, size, *hold_out(train), _split(held, classes, size))


def _classes(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    return tuple(sorted(child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")))


def _split(folder: Path, classes: tuple[str, ...], size: int) -> FileImages:
    files = [
        (file, label)
        for label, name in enumerate(classes)
        for file in sorted((folder / name).rglob("*"))
        if file.suffix.lower() in _ENDINGS and not file.name.startswith(".") and file.is_file()
    ]
    if not files:
        raise DataError(f"{folder}: holds no image; it should hold files such as {classes[0]}/*.jpg")
    labels = torch.tensor([label for _, label in files], dtype=torch.int64)
    return FileImages(tuple(file for file, _ in files), labels, size)
