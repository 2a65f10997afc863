"""Reader of Pascal VOC folders of any year, and of other data sets in the same layout.

A folder holds ``Annotations/NAME.xml``, ``JPEGImages/NAME.jpg`` and ``ImageSets/Main/{train,val,test}.txt``. The files
count pixels from 1 and include both ends of a box, so that their box ``xmin ymin xmax ymax`` is
``xmin - 1, ymin - 1, xmax, ymax`` here. Annotations are read at once, images on access.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bitcycle.lab.data.detection import DetectionData, DetectionSample
from bitcycle.lab.data.files import DataError, lines_of, open_image, read_bytes

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The twenty classes of Pascal VOC, in its order."""
FOLDERS = ("Annotations", "ImageSets/Main", "JPEGImages")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".JPG", ".png")

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Annotation:
    """The content of an annotation file."""

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
        """Decode an image and return it with its objects."""
        annotation = self.annotations[index]
        pixels = _decoded(annotation.image)
        _check_boxes(annotation.boxes, pixels.shape[1], pixels.shape[0], annotation.image)
        return DetectionSample(
            torch.tensor(annotation.boxes, dtype=torch.float32).reshape(-1, 4),
            torch.tensor([self.classes.index(name) for name in annotation.names], dtype=torch.int64),
            torch.tensor(annotation.difficult, dtype=torch.bool),
            torch.from_numpy(pixels).permute(2, 0, 1).contiguous(),
        )


def read_voc(folder: str | Path) -> DetectionData:
    """Read a Pascal VOC data set: ``data = read_voc("VOCdevkit/VOC2007")``, then ``data.train.sample(0).boxes``.

    The classes are the twenty of VOC or, if the annotations have others, the sorted names of the annotations. If there
    is no test set with annotations (VOC 2012 publishes none), the images of val are divided alternately between
    validation and test.

    Args:
        folder: The folder with ``Annotations``, ``ImageSets/Main`` and ``JPEGImages``, or a folder one or two levels
            above it.

    Raises:
        DataError: If there is no such folder, or a file is missing or damaged.
    """
    root = _root(Path(folder))
    train, validation = (_image_names(root, split) for split in ("train", "val"))
    test = _image_names(root, "test") if (root / "ImageSets/Main/test.txt").exists() else []
    if not any(_annotation_file(root, name).exists() for name in test):
        validation, test = validation[::2], validation[1::2]
        if not test:
            raise DataError(
                f"{root / 'ImageSets/Main/val.txt'} names only one image: validation and test need one each"
            )
    read = {name: read_annotation(root, name) for name in dict.fromkeys((*train, *validation, *test))}
    splits = [tuple(read[name] for name in listed) for listed in (train, validation, test)]
    names = {name for split in splits for annotation in split for name in annotation.names}
    if not names:
        raise DataError(f"{root / 'Annotations'} has no object in any file; there should be objects to detect")
    classes = CLASSES if names <= set(CLASSES) else tuple(sorted(names))
    return DetectionData(root.name, classes, *(VocSplit(split, classes) for split in splits))


def read_annotation(root: Path, name: str) -> Annotation:
    """Read the annotation of one image."""
    file = _annotation_file(root, name)
    image = next((path for suffix in IMAGE_SUFFIXES if (path := root / "JPEGImages" / (name + suffix)).is_file()), None)
    if image is None:
        raise DataError(f"{root / 'JPEGImages' / name}.jpg is missing, but a list in ImageSets/Main names it")
    tree = _parsed(file)
    objects = tree.findall("object")
    try:
        boxes = tuple(_box(element) for element in objects)
        size = tree.find("size")
        width, height = (math.inf, math.inf) if size is None else (_number(size, "width"), _number(size, "height"))
    except ValueError as error:
        raise DataError(f"{file} is not a Pascal VOC annotation: {error}") from None
    _check_boxes(boxes, width, height, file)
    names = tuple((element.findtext("name") or "").strip() for element in objects)
    if not all(names):
        raise DataError(f"{file} has an object without a name")
    return Annotation(image, boxes, names, tuple(_flag(element, "difficult") for element in objects))


def _root(folder: Path) -> Path:
    """Return the folder that holds the three folders: this one, or one that is one or two levels below."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; a Pascal VOC folder holds {', '.join(FOLDERS)}")
    for candidates in ([folder], folder.glob("*"), folder.glob("VOCdevkit/*")):
        roots = sorted(path for path in candidates if all((path / name).is_dir() for name in FOLDERS))
        if len(roots) > 1:
            raise DataError(f"{folder} holds {', '.join(path.name for path in roots)}: name one of these folders")
        if roots:
            return roots[0].resolve()
    raise DataError(
        f"{folder} is not a Pascal VOC folder: neither it nor VOCdevkit/VOC20xx in it holds {', '.join(FOLDERS)}"
    )


def _image_names(root: Path, split: str) -> list[str]:
    """Return the images of a list. Lists for one class have a second column, which is ignored."""
    file = root / "ImageSets/Main" / f"{split}.txt"
    names = [line.split()[0] for line in lines_of(file) if line.strip()]
    if not names:
        raise DataError(f"{file} is empty: it should name the images of {split}, one per line")
    for name in names:
        if Path(name).name != name:
            raise DataError(f"{file} names {name!r}, which is not a plain image name")
    return names


def _annotation_file(root: Path, name: str) -> Path:
    return root / "Annotations" / f"{name}.xml"


class _PlainTree(ElementTree.TreeBuilder):
    """Rejects a DOCTYPE: without one, no entity can be declared, so that nothing is expanded or fetched."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError("an annotation must not have a DOCTYPE")


def _parsed(file: Path) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_PlainTree())
    content = read_bytes(file)
    try:
        tree: ElementTree.Element = ElementTree.fromstring(content, parser)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise DataError(f"{file}: cannot be read ({error}); it should be a Pascal VOC annotation") from None
    if tree.tag != "annotation":
        raise DataError(f"{file} is not a Pascal VOC annotation: it begins with <{tree.tag[:40]}>")
    return tree


def _box(element: ElementTree.Element) -> Box:
    box = element.find("bndbox")  # a direct child: the parts of a person have boxes at a deeper level
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
                f"{file} has a box outside the image of {width:g} x {height:g} pixels: "
                f"{x1 + 1:g} {y1 + 1:g} {x2:g} {y2:g}"
            )


def _decoded(file: Path) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    with open_image(file) as image:
        return np.array(image.convert("RGB"))
