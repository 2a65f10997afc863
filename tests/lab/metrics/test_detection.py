"""Mean average precision: by hand, by its laws, and against COCO's own."""

import math
import sys
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitcycle._support.extras import MissingExtraError
from bitcycle.lab.data.detection import Target
from bitcycle.lab.metrics.detection import coco_map, voc_map
from bitcycle.lab.models.boxes import Detections

A, B, C = (0, 0, 10, 10), (20, 0, 30, 10), (0, 20, 10, 30)
FAR = (50, 50, 60, 60)


def truth(*objects, difficult=()):
    """Objects as (box, label)."""
    boxes = torch.tensor([box for box, _ in objects], dtype=torch.float32).reshape(-1, 4)
    hard = torch.tensor([place in difficult for place in range(len(objects))], dtype=torch.bool)
    return Target(boxes, torch.tensor([label for _, label in objects], dtype=torch.int64), hard)


def seen(*found):
    """Detections as (box, label, score)."""
    boxes = torch.tensor([box for box, _, _ in found], dtype=torch.float32).reshape(-1, 4)
    labels = torch.tensor([label for _, label, _ in found], dtype=torch.int64)
    return Detections(boxes, torch.tensor([score for _, _, score in found], dtype=torch.float32), labels)


BY_HAND = {
    "all found": ([seen((A, 0, 0.9), (B, 0, 0.8))], [truth((A, 0), (B, 0))], 1.0),
    "nothing found": ([seen()], [truth((A, 0))], 0.0),
    "half found": ([seen((A, 0, 0.9))], [truth((A, 0), (B, 0))], 0.5),
    "a mistake first": ([seen((FAR, 0, 0.9), (A, 0, 0.8))], [truth((A, 0))], 0.5),
    "a mistake last": ([seen((FAR, 0, 0.1), (A, 0, 0.8))], [truth((A, 0))], 1.0),
    "found twice": ([seen((A, 0, 0.9), (A, 0, 0.8), (B, 0, 0.7))], [truth((A, 0), (B, 0))], (1 + 2 / 3) / 2),
    "right, wrong, right, wrong, right": (
        [seen((A, 0, 0.9), (FAR, 0, 0.8), (B, 0, 0.7), (FAR, 0, 0.6), (C, 0, 0.5))],
        [truth((A, 0), (B, 0), (C, 0))],
        (1 + 2 / 3 + 3 / 5) / 3,
    ),
    "the best precision at a higher recall counts": (
        [seen((FAR, 0, 0.9), (A, 0, 0.8), (B, 0, 0.7), (C, 0, 0.6))],
        [truth((A, 0), (B, 0), (C, 0))],
        3 / 4,
    ),
    "order goes over images": (
        [seen((A, 0, 0.5)), seen((FAR, 0, 0.9))],
        [truth((A, 0)), truth((B, 0))],
        1 / 2 / 2,
    ),
    "a box counts in its own image alone": ([seen(), seen((A, 0, 0.9))], [truth((A, 0)), truth()], 0.0),
    "classes count alike": (
        [seen((A, 0, 0.9), (B, 0, 0.8), (C, 1, 0.7), (FAR, 7, 0.9))],
        [truth((A, 0), (B, 0), (C, 2), (FAR, 1))],
        1 / 3,
    ),
    "the wrong class": ([seen((A, 1, 0.9))], [truth((A, 0))], 0.0),
    "overlap of a half is enough": ([seen(((0, 0, 10, 5), 0, 0.9))], [truth((A, 0))], 1.0),
    "less is not": ([seen(((0, 0, 10, 4.9), 0, 0.9))], [truth((A, 0))], 0.0),
    "difficult objects need not be found": ([seen((A, 0, 0.9))], [truth((A, 0), (B, 0), difficult=(1,))], 1.0),
    "nor do they punish, however often": (
        [seen((B, 0, 0.9), (B, 0, 0.8), (A, 0, 0.7))],
        [truth((A, 0), (B, 0), difficult=(1,))],
        1.0,
    ),
    "classes with difficult objects alone do not count": (
        [seen((A, 0, 0.9), (FAR, 1, 0.9))],
        [truth((A, 0), (B, 1), difficult=(1,))],
        1.0,
    ),
    "a box goes to its best object, found or not": (
        [seen((A, 0, 0.9), ((0, 0, 10, 9), 0, 0.8))],
        [truth((A, 0), ((0, 0, 10, 6), 0))],
        0.5,
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case):
    detections, ground_truth, expected = BY_HAND[case]
    assert voc_map(detections, ground_truth) == pytest.approx(expected)


def test_nothing_to_find():
    for ground_truth in ([], [truth()], [truth((A, 0), difficult=(0,))]):
        detections = [seen((A, 0, 0.9)) for _ in ground_truth]
        assert math.isnan(voc_map(detections, ground_truth))
        assert all(map(math.isnan, coco_map(detections, ground_truth).values()))


@st.composite
def scenes(draw):
    """Images with objects far from each other, and detections that are moved, relabelled, invented or forgotten."""
    random = Random(draw(st.integers(0, 10**9)))
    detections, ground_truth = [], []
    for _ in range(random.randint(1, 12)):
        cells = random.sample(range(9), random.randint(1, 6))
        objects, found = [], []
        for cell in cells:
            x, y = 40 * (cell % 3) + random.uniform(0, 10), 40 * (cell // 3) + random.uniform(0, 10)
            box = (x, y, x + random.uniform(8, 25), y + random.uniform(8, 25))
            label = random.randrange(3)
            if random.random() < 0.8:
                objects.append((box, label))
            for _ in range(random.choice((0, 1, 1, 1, 2))):
                moved = tuple(value + random.gauss(0, 1.5) for value in box)
                found.append((moved, label if random.random() < 0.8 else random.randrange(3), random.random()))
        ground_truth.append(truth(*objects))
        detections.append(seen(*found))
    return detections, ground_truth


@given(scenes())
def test_it_nearly_agrees_with_coco(scene):
    detections, ground_truth = scene
    if not sum(len(image.labels) for image in ground_truth):
        return
    ours, theirs = voc_map(detections, ground_truth), coco_map(detections, ground_truth)
    # COCO reads the curve at 101 recalls; where objects lie apart, nothing else differs.
    assert ours == pytest.approx(theirs["map50"], abs=0.011)
    assert voc_map(detections, ground_truth, 0.75) == pytest.approx(theirs["map75"], abs=0.011)
    levels = [voc_map(detections, ground_truth, 0.5 + 0.05 * i) for i in range(10)]
    assert sum(levels) / 10 == pytest.approx(theirs["map"], abs=0.011)
    assert levels == sorted(levels, reverse=True)


@given(scenes(), st.randoms(use_true_random=False))
def test_laws(scene, random):
    detections, ground_truth = scene
    if not sum(len(image.labels) for image in ground_truth):
        return
    value = voc_map(detections, ground_truth)
    assert 0 <= value <= 1
    order = random.sample(range(len(detections)), len(detections))
    assert voc_map([detections[i] for i in order], [ground_truth[i] for i in order]) == pytest.approx(value)
    perfect = [Detections(t.boxes, torch.linspace(0.1, 0.9, len(t.labels)), t.labels) for t in ground_truth]
    assert voc_map(perfect, ground_truth) == 1
    assert coco_map(perfect, ground_truth)["map"] == pytest.approx(1)
    assert voc_map([seen() for _ in ground_truth], ground_truth) == 0


def test_coco_by_hand(capsys):
    detections, ground_truth = [seen((A, 0, 0.9), ((20, 0, 30, 8), 4, 0.8))], [truth((A, 0), (B, 4))]
    found = coco_map(detections, ground_truth)  # the second overlaps by 0.8: right at seven of the ten overlaps
    assert found == pytest.approx({"map": (1 + 0.7) / 2, "map50": 1.0, "map75": 1.0}, abs=1e-6)
    difficult = coco_map([seen((A, 0, 0.9), (B, 0, 0.95))], [truth((A, 0), (B, 0), difficult=(1,))])
    assert difficult == pytest.approx({"map": 1.0, "map50": 1.0, "map75": 1.0})
    assert coco_map([seen()], [truth((A, 0))]) == {"map": 0.0, "map50": 0.0, "map75": 0.0}
    assert capsys.readouterr().out == ""


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    with pytest.raises(
        MissingExtraError, match="COCO mAP needs faster_coco_eval: pip install 'bitcycle\\[detection\\]'"
    ):
        coco_map([seen()], [truth((A, 0))])
