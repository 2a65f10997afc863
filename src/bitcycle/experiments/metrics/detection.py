"""Mean average precision of detections: Pascal VOC's at one overlap, and COCO's over ten of them.

Detections of a class are taken from the surest on, over all images. One is right if its best object, by intersection
over union, reaches the overlap and was not found before. The average precision is the area under the curve of precision
over recall, where the precision at a recall is the best at this or a higher recall (VOC since 2010: all points).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.experiments.data.detection import Target
from bitcycle.experiments.models.boxes import Detections, area
from bitcycle.experiments.models.boxes import iou as overlaps_of


def voc_map(detections: Sequence[Detections], ground_truth: Sequence[Target], iou: float = 0.5) -> float:
    """The mean of the classes' average precisions, between 0 and 1; ``nan`` if there is nothing to find.

    >>> box = torch.tensor([[0.0, 0.0, 8.0, 8.0]])
    >>> truth = Target(box, torch.tensor([2]), torch.tensor([False]))
    >>> voc_map([Detections(box + 1, torch.tensor([0.9]), torch.tensor([2]))], [truth])
    1.0
    """
    found = voc_average_precisions(detections, ground_truth, iou)
    return sum(found.values()) / len(found) if found else float("nan")


def voc_average_precisions(
    detections: Sequence[Detections], ground_truth: Sequence[Target], iou: float = 0.5
) -> dict[int, float]:
    """The average precision of each class that has an object which is not difficult."""
    _check(detections, ground_truth)
    demanded = torch.cat([torch.empty(0, dtype=torch.int64), *(t.labels[~t.difficult].cpu() for t in ground_truth)])
    return {
        label: _average_precision(_judged(detections, ground_truth, label, iou), int((demanded == label).sum()))
        for label in demanded.unique().tolist()
    }


def coco_map(detections: Sequence[Detections], ground_truth: Sequence[Target]) -> dict[str, float]:
    """COCO's ``map`` (over the overlaps 0.50, 0.55 to 0.95), ``map50`` and ``map75``, by faster-coco-eval.

    Difficult objects count as COCO's crowds: neither demanded nor punished. ``nan`` if there is nothing to find.
    """
    _check(detections, ground_truth)
    library = need("faster_coco_eval", "detection", "COCO mAP")
    if not any((~truth.difficult).any() for truth in ground_truth):
        return dict.fromkeys(("map", "map50", "map75"), float("nan"))
    labels = torch.cat([truth.labels for truth in ground_truth]).unique().tolist()
    objects = [
        {"image_id": image, "category_id": label, "bbox": box, "area": size, "iscrowd": int(difficult)}
        for image, truth in enumerate(ground_truth)
        for label, box, size, difficult in zip(
            truth.labels.tolist(),
            _corner_and_sides(truth.boxes),
            area(truth.boxes).tolist(),
            truth.difficult.tolist(),
            strict=True,
        )
    ]
    given = library.COCO(
        {
            "images": [{"id": image} for image in range(len(ground_truth))],
            "categories": [{"id": label, "name": str(label)} for label in labels],
            "annotations": [{"id": number, **thing} for number, thing in enumerate(objects, 1)],
        }
    )
    found = given.loadRes(
        [
            {"image_id": image, "category_id": label, "bbox": box, "score": score}
            for image, seen in enumerate(detections)
            for label, box, score in zip(
                seen.labels.tolist(), _corner_and_sides(seen.boxes), seen.scores.tolist(), strict=True
            )
            if label in labels
        ]
    )
    judge = library.COCOeval_faster(given, found, "bbox")
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    return {name: float(value) for name, value in zip(("map", "map50", "map75"), judge.stats, strict=False)}


def _check(detections: Sequence[Detections], ground_truth: Sequence[Target]) -> None:
    if len(detections) != len(ground_truth):
        raise ValueError(f"detections of {len(detections)} images do not fit the truth of {len(ground_truth)}")


def _corner_and_sides(boxes: Tensor) -> list[list[float]]:
    return torch.cat((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), 1).tolist()


def _judged(detections: Sequence[Detections], ground_truth: Sequence[Target], label: int, iou: float) -> Tensor:
    """Whether each detection of a class is right, the surest first; those of difficult objects are left out."""
    scores: list[float] = []
    verdicts: list[bool] = []
    for seen, truth in zip(detections, ground_truth, strict=True):
        mine, objects = seen.labels == label, truth.labels == label
        order = seen.scores[mine].argsort(descending=True, stable=True)
        difficult = truth.difficult[objects].tolist()
        most, best = _best(seen.boxes[mine][order], truth.boxes[objects])
        done: set[int] = set()
        for score, overlap, thing in zip(seen.scores[mine][order].tolist(), most, best, strict=True):
            if overlap >= iou and difficult[thing]:
                continue
            scores.append(score)
            verdicts.append(overlap >= iou and thing not in done)
            if overlap >= iou:
                done.add(thing)
    order = torch.tensor(scores, dtype=torch.float64).argsort(descending=True, stable=True)
    return torch.tensor(verdicts, dtype=torch.bool)[order]


def _best(boxes: Tensor, objects: Tensor) -> tuple[list[float], list[int]]:
    """For each box the object it overlaps with most, and by how much."""
    if not len(objects):
        return [-1.0] * len(boxes), [-1] * len(boxes)
    most, best = overlaps_of(boxes, objects).max(1)
    return most.tolist(), best.tolist()


def _average_precision(right: Tensor, objects: int) -> float:
    """The area under the curve of precision over recall, from verdicts in the order of their scores."""
    hits = right.double().cumsum(0)
    precision = hits / torch.arange(1, len(hits) + 1)
    envelope = precision.flip(0).cummax(0).values.flip(0)
    # Recall grows by 1 / objects at each hit and stands still elsewhere.
    return float(envelope[right].sum() / objects)
