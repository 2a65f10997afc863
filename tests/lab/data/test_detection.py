"""Scenes of digits, Pascal VOC folders, and batches of both."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bitcycle.lab.data.detection import DetectionSample, collate
from bitcycle.lab.data.digit_scenes import _source, digit_scenes
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.voc import CLASSES, read_voc
from tests.lab.data.official import official

NAMES = ("a", "b", "c", "d")
OBJECT = (
    "<object><name>{name}</name><difficult>{difficult}</difficult>"
    "<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
)


def thing(name="dog", box=(1, 1, 10, 10), difficult=0):
    x1, y1, x2, y2 = box
    return OBJECT.format(name=name, difficult=difficult, x1=x1, y1=y1, x2=x2, y2=y2)


def annotation(*objects, size=(30, 20)):
    width, height = size
    return f"<annotation><size><width>{width}</width><height>{height}</height></size>{''.join(objects)}</annotation>"


@pytest.fixture
def voc(tmp_path):
    """A data set of four images of 30 x 20 pixels: two to train, two to validate, no test."""
    root = tmp_path / "VOCdevkit" / "VOC2031"
    for part in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (root / part).mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    for name in NAMES:
        Image.fromarray(pixels).save(root / "JPEGImages" / f"{name}.jpg")
        (root / "Annotations" / f"{name}.xml").write_text(annotation(thing()))
    (root / "ImageSets/Main/train.txt").write_text("a\nb\n")
    (root / "ImageSets/Main/val.txt").write_text("c\nd\n")
    return root


def same(one, other):
    return all(torch.equal(getattr(one, field), getattr(other, field)) for field in ("image", *FIELDS))


FIELDS = ("boxes", "labels", "difficult")


# Scenes of digits


@given(st.integers(0, 10**6), st.sampled_from(("train", "validation", "test")), st.integers(0, 19))
def test_a_scene_is_a_pure_function_of_its_seed_split_and_number(seed, split, index):
    first = getattr(digit_scenes(20, 20, 20, seed=seed), split).sample(index)
    again = getattr(digit_scenes(50, 70, 90, seed=seed), split).sample(index)  # how many others there are is no matter
    assert same(first, again)


@given(st.integers(0, 10**6), st.integers(24, 100))
def test_a_scene_holds_its_boxes(seed, size):
    sample = digit_scenes(1, 1, 1, size, seed).train.sample(0)
    assert sample.image.shape == (3, size, size)
    assert sample.image.dtype == torch.uint8
    assert sample.boxes.dtype == torch.float32
    assert sample.labels.dtype == torch.int64
    assert 1 <= len(sample.boxes) <= 4
    assert len(sample.boxes) == len(sample.labels) == len(sample.difficult)
    x1, y1, x2, y2 = sample.boxes.unbind(1)
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= size) & (y2 <= size) & (x2 - x1 >= 1) & (y2 - y1 >= 4)).all()
    assert not sample.difficult.any()


def test_boxes_are_tight_around_the_ink():
    scenes = digit_scenes(200).train
    for sample in (scenes.sample(i) for i in range(200)):
        if len(sample.boxes) > 1:
            continue
        grey = sample.image.float().mean(0)
        ink = grey > grey.median() + 28
        rows, columns = ink.any(1).nonzero(), ink.any(0).nonzero()
        seen = torch.stack((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)).flatten().float()
        assert (seen - sample.boxes[0]).abs().max() <= 2


def test_splits_draw_from_disjoint_digits():
    parts = [{digit.tobytes() for digit in images} for images, _ in _source()]
    assert sum(len(images) for images, _ in _source()) == sum(map(len, parts)) == len(set.union(*parts)) == 1797


# Pascal VOC folders


def test_a_voc_folder(voc):
    (voc / "Annotations/a.xml").write_text(
        annotation(thing("dog", (3, 4, 10, 20), 1), "<part><bndbox/></part>", thing("person", (1, 1, 30, 1)))
    )
    for folder in (voc, voc.parent, voc.parent.parent):
        data = read_voc(folder)
        assert (data.name, data.classes) == ("VOC2031", CLASSES)
        assert [len(split) for split in (data.train, data.validation, data.test)] == [2, 1, 1]
    sample = data.train.sample(0)
    assert sample.boxes.tolist() == [[2, 3, 10, 20], [0, 0, 30, 1]]
    assert sample.labels.tolist() == [CLASSES.index("dog"), CLASSES.index("person")]
    assert sample.difficult.tolist() == [True, False]
    assert sample.image.shape == (3, 20, 30)
    assert [data.validation.annotations[0].image.stem, data.test.annotations[0].image.stem] == ["c", "d"]


def test_a_test_set_is_used_if_it_has_annotations(voc):
    (voc / "ImageSets/Main/test.txt").write_text("d  1\n")
    assert [len(split) for split in (read_voc(voc).validation, read_voc(voc).test)] == [2, 1]
    (voc / "ImageSets/Main/test.txt").write_text("unpublished\n")
    assert [len(split) for split in (read_voc(voc).validation, read_voc(voc).test)] == [1, 1]


def test_images_without_objects_or_colours_and_boxes_with_fractions(voc):
    Image.new("L", (30, 20), 77).save(voc / "JPEGImages/a.jpg")
    (voc / "Annotations/a.xml").write_text(annotation())
    (voc / "Annotations/b.xml").write_text(annotation(thing(box=(1.5, 1, 9.25, 8))))
    train = read_voc(voc).train
    assert train.sample(0).boxes.shape == (0, 4)
    assert train.sample(0).labels.dtype == torch.int64
    assert train.sample(0).image.float().mean((1, 2)).tolist() == [77, 77, 77]
    assert train.sample(1).boxes.tolist() == [[0.5, 0, 9.25, 8]]


BILLION = (
    '<!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]><annotation>&j;</annotation>"
)

BROKEN_ANNOTATIONS = {
    "truncated": (annotation(thing())[:90], "cannot be read ("),
    "not xml": ("dog 1 2 3 4", "cannot be read (syntax error"),
    "nothing": ("", "the file is empty"),
    "of another kind": ("<html></html>", "begins with <html>"),
    "a bomb": (BILLION, "must not have a DOCTYPE"),
    "a doctype": ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><annotation/>', "must not have a DOCTYPE"),
    "an unknown encoding": ('<?xml version="1.0" encoding="klingon"?><annotation/>', "cannot be read ("),
    "no box": (annotation("<object><name>dog</name></object>"), "an object has no bndbox"),
    "no name": (annotation(thing(" ")), "an object without a name"),
    "not a number": (annotation(thing(box=("x", 1, 2, 3))), "xmin is 'x', not a number"),
    "not finite": (annotation(thing(box=("nan", 1, 2, 3))), "xmin is 'nan', not a finite number"),
    "an empty box": (annotation(thing(box=(5, 1, 4, 3))), "an empty box: 5 1 4 3"),
    "outside on the left": (annotation(thing(box=(0, 1, 4, 3))), "outside the image of 30 x 20 pixels: 0 1 4 3"),
    "outside below": (annotation(thing(box=(1, 1, 4, 21))), "outside the image of 30 x 20 pixels: 1 1 4 21"),
}


@pytest.mark.parametrize("case", BROKEN_ANNOTATIONS)
def test_broken_annotations(voc, case):
    content, message = BROKEN_ANNOTATIONS[case]
    file = voc / "Annotations/a.xml"
    file.write_text(content)
    with pytest.raises(DataError) as error:
        read_voc(voc)
    assert message in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_parts(voc, tmp_path):
    def message(folder):
        with pytest.raises(DataError) as error:
            read_voc(folder)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "nowhere is not a folder" in message(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "is not a Pascal VOC folder" in message(tmp_path / "empty")
    (voc / "Annotations/b.xml").rename(voc / "Annotations/moved")
    assert "b.xml: cannot be read (No such file" in message(voc)
    (voc / "JPEGImages/a.jpg").unlink()
    assert "a.jpg is missing" in message(voc)
    (voc / "ImageSets/Main/train.txt").write_text("../../secret\n")
    assert "names '../../secret', which is not a plain image name" in message(voc)
    (voc / "ImageSets/Main/train.txt").write_text("\n")
    assert "train.txt is empty" in message(voc)
    (voc / "ImageSets/Main/train.txt").unlink()
    assert "train.txt: cannot be read (No such file" in message(voc)
    for part in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (voc.parent / "VOC2032" / part).mkdir(parents=True)
    assert "holds VOC2031, VOC2032: name one" in message(voc.parent)


@pytest.mark.parametrize("keep", [0, 10, 400])
def test_broken_images(voc, keep):
    file = voc / "JPEGImages/a.jpg"
    file.write_bytes(file.read_bytes()[:keep])
    train = read_voc(voc).train
    with pytest.raises(DataError, match="a.jpg: (cannot be decoded|the file is empty)") as error:
        train.sample(0)
    assert "\n" not in str(error.value)
    assert train.sample(1).image.shape == (3, 20, 30)


@pytest.mark.parametrize(
    ("folder", "splits", "objects", "difficult", "classes"),
    [
        ("voc2007_small", (1000, 150, 350), 4531, 914, CLASSES),
        ("bccd", (205, 87, 72), 4888, 0, ("Platelets", "RBC", "WBC")),
    ],
)
def test_official_data(folder, splits, objects, difficult, classes):
    data = read_voc(official(folder))
    parts = (data.train, data.validation, data.test)
    assert tuple(map(len, parts)) == splits
    assert data.classes == classes
    annotations = [annotation for part in parts for annotation in part.annotations]
    assert sum(len(annotation.boxes) for annotation in annotations) == objects
    assert sum(sum(annotation.difficult) for annotation in annotations) == difficult
    assert len({annotation.image for annotation in annotations}) == sum(splits)
    batch = collate([data.train.sample(i) for i in range(4)], 96, flip=torch.tensor([False, True, False, True]))
    assert batch.images.shape == (4, 3, 96, 96)
    assert all((target.boxes >= 0).all() and (target.boxes <= 96.001).all() for target in batch.targets)


# Batches


def blank(height, width, boxes=((0, 0, 1, 1),), value=255):
    image = torch.full((3, height, width), value, dtype=torch.uint8)
    boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    return DetectionSample(boxes, torch.zeros(len(boxes), dtype=torch.int64), torch.zeros(len(boxes)).bool(), image)


@given(st.integers(1, 90), st.integers(1, 90), st.integers(8, 64), st.booleans())
def test_the_aspect_ratio_is_kept_and_the_rest_is_black(height, width, size, flip):
    batch = collate([blank(height, width, ((0, 0, width, height),))], size, torch.tensor([flip]))
    x1, y1, x2, y2 = (round(value) for value in batch.targets[0].boxes[0].tolist())
    assert (x1, y1, max(x2, y2)) == (0, 0, size)
    assert abs(x2 - size * width / max(width, height)) < 1
    expected = torch.zeros(3, size, size)
    expected[:, :y2, :x2] = 1
    torch.testing.assert_close(batch.images[0], expected)


def test_a_box_follows_its_pixels_through_resizing_and_flipping():
    sample = blank(40, 80, ((16, 8, 32, 24),), 0)
    sample.image[:, 8:24, 16:32] = 255
    for flip in (False, True):
        batch = collate([sample], 20, torch.tensor([flip]))
        x1, y1, x2, y2 = (int(value) for value in batch.targets[0].boxes[0])
        inside = batch.images[0, :, y1:y2, x1:x2]
        assert inside.sum() > 0.85 * batch.images.sum()
        assert inside.mean() > 0.8
    twice = collate([blank(40, 80, ((16, 8, 32, 24),))] * 2, 80, torch.tensor([True, False])).targets
    assert twice[0].boxes.tolist() == [[48, 8, 64, 24]]
    assert twice[1].boxes.tolist() == [[16, 8, 32, 24]]
    assert collate([blank(8, 8, ())], 16, torch.tensor([True])).targets[0].boxes.shape == (0, 4)
