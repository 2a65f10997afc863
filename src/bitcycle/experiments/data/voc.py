"""Pascal VOC folders of any year, and other data sets laid out like them.

A folder holds ``Annotations/NAME.xml``, ``JPEGImages/NAME.jpg`` and ``ImageSets/Main/{train,val,test}.txt``. Pixels are
counted from 1 and both ends of a box belong to it, so that the box ``xmin ymin xmax ymax`` of a file is
``xmin - 1, ymin - 1, xmax, ymax`` here. Annotations are all read at once, images when they are asked for.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bitcycle._support.extras import need
from bitcycle.experiments.data.detection import DetectionData, DetectionSample
from bitcycle.experiments.data.errors import DataError

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The twenty classes of Pascal VOC, in its order."""
PARTS = ("Annotations", "ImageSets/Main", "JPEGImages")
SUFFIXES = (".jpg", ".jpeg", ".JPG", ".png")

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Annotation:
    """What a file of annotations says."""

    image: Path
    boxes: tuple[Box, ...]
    names: tuple[str, ...]
    difficult: tuple[bool, ...]


@dataclass(frozen=True)
class VocSplit:
    """The images of one split."""

    annotations: tuple[Annotation, ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.annotations)

    def sample(self, index: int) -> DetectionSample:
        """Decode an image."""
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} images, numbered from 0: no {index}")
        found = self.annotations[index]
        pixels = _decoded(found.image)
        _check_boxes(found.boxes, pixels.shape[1], pixels.shape[0], found.image)
        return DetectionSample(
            torch.tensor(found.boxes, dtype=torch.float32).reshape(-1, 4),
            torch.tensor([self.classes.index(name) for name in found.names], dtype=torch.int64),
            torch.tensor(found.difficult, dtype=torch.bool),
            torch.from_numpy(pixels).permute(2, 0, 1).contiguous(),
        )


def read_voc(folder: str | Path) -> DetectionData:
    """A Pascal VOC data set: the folder with its three parts, the devkit around it, or the folder around that.

    Classes are the twenty of VOC, or the names that the annotations give, sorted, if there are others. Where there is
    no test set, or none with annotations (VOC 2012 publishes none), the images of val are dealt out in turn: the first
    is for validation, the second for the test, and so on.

    ``data = read_voc("VOCdevkit/VOC2007")``, then ``data.train.sample(0).boxes``.
    """
    root = _root(Path(folder))
    train, validation = (_names(root, split) for split in ("train", "val"))
    test = _names(root, "test") if (root / "ImageSets/Main/test.txt").exists() else []
    if not any(_annotation_file(root, name).exists() for name in test):
        validation, test = validation[::2], validation[1::2]
        if not test:
            raise DataError(f"{root / 'ImageSets/Main/val.txt'} names one image: validation and test need one each")
    splits = [tuple(read_annotation(root, name) for name in names) for names in (train, validation, test)]
    named = {name for split in splits for annotation in split for name in annotation.names}
    if not named:
        raise DataError(f"{root / 'Annotations'} has no object in any file: there is nothing to detect")
    classes = CLASSES if named <= set(CLASSES) else tuple(sorted(named))
    return DetectionData(root.name, classes, *(VocSplit(split, classes) for split in splits))


def read_annotation(root: Path, name: str) -> Annotation:
    """The annotations of one image, with the image's file."""
    file = _annotation_file(root, name)
    image = next((path for suffix in SUFFIXES if (path := root / "JPEGImages" / (name + suffix)).is_file()), None)
    if image is None:
        raise DataError(f"{root / 'JPEGImages' / name}.jpg is missing, though a list in ImageSets/Main names it")
    tree = _parsed(file)
    objects = tree.findall("object")
    try:
        boxes = tuple(_box(element) for element in objects)
        size = tree.find("size")
        width, height = (math.inf, math.inf) if size is None else (_number(size, "width"), _number(size, "height"))
    except ValueError as error:
        raise DataError(f"{file} is not an annotation of Pascal VOC: {error}") from None
    _check_boxes(boxes, width, height, file)
    names = tuple((element.findtext("name") or "").strip() for element in objects)
    if not all(names):
        raise DataError(f"{file} has an object without a name")
    return Annotation(image, boxes, names, tuple(_flag(element, "difficult") for element in objects))


def _root(folder: Path) -> Path:
    """Where the three parts lie: here, or one or two folders down."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; a Pascal VOC folder holds {', '.join(PARTS)}")
    for places in ([folder], folder.glob("*"), folder.glob("VOCdevkit/*")):
        found = sorted(path for path in places if all((path / part).is_dir() for part in PARTS))
        if len(found) > 1:
            raise DataError(f"{folder} holds {', '.join(path.name for path in found)}: name one of these folders")
        if found:
            return found[0].resolve()
    raise DataError(
        f"{folder} is no Pascal VOC folder: neither it nor VOCdevkit/VOC20xx in it holds {', '.join(PARTS)}"
    )


def _names(root: Path, split: str) -> list[str]:
    """The images that a list names; a list for one class has a second column, which is not for us."""
    file = root / "ImageSets/Main" / f"{split}.txt"
    try:
        names = [line.split()[0] for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {_reason(error)}") from None
    if not names:
        raise DataError(f"{file} is empty: it names the images of {split}, one a line")
    for name in names:
        if Path(name).name != name:
            raise DataError(f"{file} names {name!r}, which is not the plain name of an image")
    return names


def _annotation_file(root: Path, name: str) -> Path:
    return root / "Annotations" / f"{name}.xml"


class _PlainTree(ElementTree.TreeBuilder):
    """Refuses a DOCTYPE, without which no entity can be declared: nothing expands, nothing is fetched."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise DataError("a DOCTYPE has no place in an annotation")


def _parsed(file: Path) -> ElementTree.Element:
    try:
        tree: ElementTree.Element = ElementTree.fromstring(
            file.read_bytes(), ElementTree.XMLParser(target=_PlainTree())
        )
    except (OSError, ElementTree.ParseError, DataError, LookupError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {_reason(error)}") from None
    if tree.tag != "annotation":
        raise DataError(f"{file} is not an annotation of Pascal VOC: it begins with <{tree.tag[:40]}>")
    return tree


def _box(element: ElementTree.Element) -> Box:
    box = element.find("bndbox")  # a direct child: the parts of a person have boxes of their own, further down
    if box is None:
        raise ValueError("an object has no bndbox")
    return _number(box, "xmin") - 1, _number(box, "ymin") - 1, _number(box, "xmax"), _number(box, "ymax")


def _number(element: ElementTree.Element, tag: str) -> float:
    text = (element.findtext(tag) or "").strip()
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{tag} is {text[:40]!r}, not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{tag} is {text[:40]!r}, not a finite number")
    return value


def _flag(element: ElementTree.Element, tag: str) -> bool:
    return (element.findtext(tag) or "0").strip() == "1"


def _check_boxes(boxes: tuple[Box, ...], width: float, height: float, file: Path) -> None:
    for x1, y1, x2, y2 in boxes:
        if x1 >= x2 or y1 >= y2:
            raise DataError(f"{file} has an empty box: {x1 + 1:g} {y1 + 1:g} {x2:g} {y2:g}")
        if x1 < 0 or y1 < 0 or x2 > width or y2 > height:
            raise DataError(
                f"{file} has a box outside of the image of {width:g} x {height:g} pixels: "
                f"{x1 + 1:g} {y1 + 1:g} {x2:g} {y2:g}"
            )


def _decoded(file: Path) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    pillow = need("PIL.Image", "study", "decoding images")
    try:
        with pillow.open(file) as image:
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be decoded: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What went wrong, in one line and without the path, which the message names already."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text.splitlines()[0]
