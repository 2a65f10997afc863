"""Mean average precision of detections: Pascal VOC's at one IoU, and COCO's over ten IoUs.

The detections of a class in all images are sorted by decreasing score. A detection is correct if the intersection over
union with its best object reaches the threshold and the object has not been detected before. The average precision is
the area under the precision-recall curve, where the precision at a recall is the highest precision at this or a higher
recall (VOC since 2010: all points).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.lab.data.detection import Target
from bitcycle.lab.models.boxes import Detections, area
from bitcycle.lab.models.boxes import iou as pairwise_iou


def voc_map(detections: Sequence[Detections], ground_truth: Sequence[Target], iou: float = 0.5) -> float:
    """Return the mean over classes of the average precision, between 0 and 1.

    Args:
        detections: The detections of each image.
        ground_truth: The objects of each image.
        iou: The lowest intersection over union of a correct detection.

    Returns:
        The mean average precision; ``nan`` if there are no objects.

    Example:
        >>> box = torch.tensor([[0.0, 0.0, 8.0, 8.0]])
        >>> truth = Target(box, torch.tensor([2]), torch.tensor([False]))
        >>> voc_map([Detections(box + 1, torch.tensor([0.9]), torch.tensor([2]))], [truth])
        1.0
    """
    precisions = voc_average_precisions(detections, ground_truth, iou)
    return sum(precisions.values()) / len(precisions) if precisions else float("nan")


def voc_average_precisions(
    detections: Sequence[Detections], ground_truth: Sequence[Target], iou: float = 0.5
) -> dict[int, float]:
    """Return the average precision of each class that has an object which is not difficult."""
    _check(detections, ground_truth)
    labels = torch.cat([torch.empty(0, dtype=torch.int64), *(t.labels[~t.difficult].cpu() for t in ground_truth)])
    return {
        label: _average_precision(_correct(detections, ground_truth, label, iou), int((labels == label).sum()))
        for label in labels.unique().tolist()
    }


def coco_map(detections: Sequence[Detections], ground_truth: Sequence[Target]) -> dict[str, float]:
    """Return COCO's ``map`` (over the IoUs 0.50, 0.55, ..., 0.95), ``map50`` and ``map75``, by faster-coco-eval.

    Difficult objects are treated as COCO's crowds, which are ignored. The values are ``nan`` if there are no objects.
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
    truth_index = library.COCO(
        {
            "images": [{"id": image} for image in range(len(ground_truth))],
            "categories": [{"id": label, "name": str(label)} for label in labels],
            "annotations": [{"id": number, **annotation} for number, annotation in enumerate(objects, 1)],
        }
    )
    detection_index = truth_index.loadRes(
        [
            {"image_id": image, "category_id": label, "bbox": box, "score": score}
            for image, detected in enumerate(detections)
            for label, box, score in zip(
                detected.labels.tolist(), _corner_and_sides(detected.boxes), detected.scores.tolist(), strict=True
            )
            if label in labels
        ]
    )
    evaluation = library.COCOeval_faster(truth_index, detection_index, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return {name: float(value) for name, value in zip(("map", "map50", "map75"), evaluation.stats, strict=False)}


def _check(detections: Sequence[Detections], ground_truth: Sequence[Target]) -> None:
    if len(detections) != len(ground_truth):
        raise ValueError(f"there are detections of {len(detections)} images, but ground truth of {len(ground_truth)}")


def _corner_and_sides(boxes: Tensor) -> list[list[float]]:
    return torch.cat((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), 1).tolist()


def _correct(detections: Sequence[Detections], ground_truth: Sequence[Target], label: int, iou: float) -> Tensor:
    """Return whether each detection of a class is correct, by decreasing score, without those of difficult objects."""
    scores: list[float] = []
    correct: list[bool] = []
    for detected, truth in zip(detections, ground_truth, strict=True):
        rows, objects = detected.labels == label, truth.labels == label
        order = detected.scores[rows].argsort(descending=True, stable=True)
        difficult = truth.difficult[objects].tolist()
        overlaps, best = _best_objects(detected.boxes[rows][order], truth.boxes[objects])
        matched: set[int] = set()
        for score, overlap, index in zip(detected.scores[rows][order].tolist(), overlaps, best, strict=True):
            if overlap >= iou and difficult[index]:
                continue
            scores.append(score)
            correct.append(overlap >= iou and index not in matched)
            if overlap >= iou:
                matched.add(index)
    order = torch.tensor(scores, dtype=torch.float64).argsort(descending=True, stable=True)
    return torch.tensor(correct, dtype=torch.bool)[order]


def _best_objects(boxes: Tensor, objects: Tensor) -> tuple[list[float], list[int]]:
    """Return for each box the highest IoU with an object, and the index of this object."""
    if not len(objects):
        return [-1.0] * len(boxes), [-1] * len(boxes)
    overlaps, best = pairwise_iou(boxes, objects).max(1)
    return overlaps.tolist(), best.tolist()


def _average_precision(correct: Tensor, objects: int) -> float:
    """Return the area under the precision-recall curve of detections that are sorted by decreasing score."""
    hits = correct.double().cumsum(0)
    precision = hits / torch.arange(1, len(hits) + 1)
    envelope = precision.flip(0).cummax(0).values.flip(0)
    # Recall increases by 1 / objects at each correct detection and is constant otherwise.
    return float(envelope[correct].sum() / objects)
