"""The detector: its boxes, its anchors, its loss, what it finds, and that it learns."""

import copy
import io
import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle.lab.data.detection import Target
from bitcycle.lab.models.backbones import load_backbone
from bitcycle.lab.models.boxes import (
    BACKGROUND,
    IGNORED,
    Anchors,
    assign,
    clip,
    decode,
    encode,
    iou,
    suppress,
)
from bitcycle.lab.models.resnets import ImageNetResNet
from bitcycle.lab.models.retinanet import Outputs, RetinaNet, detect, focal_loss, retinanet_loss
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train


@st.composite
def some_boxes(draw, least=0, most=25, smallest=1):
    place, side = st.integers(0, 20), st.integers(smallest, 12)
    corners = st.tuples(place, place, side, side)
    drawn = draw(st.lists(corners, min_size=least, max_size=most))
    return torch.tensor([(x, y, x + w, y + h) for x, y, w, h in drawn], dtype=torch.float32).reshape(-1, 4)


def target(boxes, labels=None):
    boxes = torch.as_tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    labels = torch.zeros(len(boxes), dtype=torch.int64) if labels is None else torch.tensor(labels)
    return Target(boxes, labels, torch.zeros(len(boxes), dtype=torch.bool))


# Boxes


@given(some_boxes(most=6), some_boxes(most=6))
def test_laws_of_intersection_over_union(a, b):
    overlaps = iou(a, b)
    assert overlaps.shape == (len(a), len(b))
    assert ((overlaps >= 0) & (overlaps <= 1)).all()
    assert torch.equal(overlaps, iou(b, a).T)
    assert (iou(a, a).diagonal() == 1).all()
    torch.testing.assert_close(iou(3 * a + 5, 3 * b + 5), overlaps)
    for i, one in enumerate(a.int().tolist()):  # pixel by pixel
        for j, other in enumerate(b.int().tolist()):
            grids = torch.zeros(2, 40, 40, dtype=torch.bool)
            for grid, (x1, y1, x2, y2) in zip(grids, (one, other), strict=True):
                grid[y1:y2, x1:x2] = True
            assert overlaps[i, j] == pytest.approx(float((grids[0] & grids[1]).sum() / (grids[0] | grids[1]).sum()))


@given(some_boxes(1), st.randoms())
def test_decoding_undoes_encoding(boxes, random):
    anchors = boxes[torch.tensor(random.choices(range(len(boxes)), k=len(boxes)))]
    torch.testing.assert_close(decode(encode(boxes, anchors), anchors), boxes, atol=1e-4, rtol=1e-4)
    assert (encode(boxes, boxes) == 0).all()


def test_boxes_of_an_untrained_network_stay_finite():
    anchors = torch.tensor([[0.0, 0.0, 32.0, 32.0]])
    boxes = decode(torch.full((1, 4), 1e4), anchors)
    assert boxes.isfinite().all()
    assert clip(boxes, 20, 30).tolist() == [[30.0, 20.0, 30.0, 20.0]]


def one_by_one(boxes, scores, threshold):
    left = sorted(range(len(boxes)), key=lambda i: (-scores[i], i))
    kept = []
    for i in left:
        if all(iou(boxes[i : i + 1], boxes[j : j + 1]) <= threshold for j in kept):
            kept.append(i)
    return kept


@given(some_boxes(), st.data(), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_suppression_is_what_going_through_the_boxes_one_by_one_gives(boxes, data, threshold):
    n = len(boxes)
    scores = torch.tensor(data.draw(st.lists(st.sampled_from([0.1, 0.5, 0.6, 0.9]), min_size=n, max_size=n)))
    assert suppress(boxes, scores, threshold).tolist() == one_by_one(boxes, scores, threshold)


# Anchors


def test_anchors_lie_around_the_centres_of_their_cells():
    anchors = Anchors().on([(2, 3), (1, 2)], [8, 16], torch.device("cpu"))
    assert anchors.shape == (9 * (6 + 2), 4)
    width, height = (anchors[:, 2:] - anchors[:, :2]).unbind(1)
    centres = [(4, 4), (12, 4), (20, 4), (4, 12), (12, 12), (20, 12), (8, 8), (24, 8)]
    expected = torch.tensor(centres, dtype=torch.float32).repeat_interleave(9, 0)
    torch.testing.assert_close((anchors[:, :2] + anchors[:, 2:]) / 2, expected)
    for scale in range(3):
        torch.testing.assert_close((height / width)[3 * scale : 3 * scale + 3], torch.tensor([0.5, 1.0, 2.0]))
        areas = (height * width)[3 * scale : 3 * scale + 3]
        torch.testing.assert_close(areas, torch.full((3,), (32 * 2 ** (scale / 3)) ** 2))


@given(some_boxes(most=8, smallest=4))
def test_every_anchor_answers_for_its_best_box_and_every_box_has_an_anchor(boxes):
    anchors = Anchors(side=2.0).on([(8, 8), (4, 4)], [4, 8], torch.device("cpu"))
    answers = assign(anchors, boxes)
    if not len(boxes):
        assert (answers == BACKGROUND).all()
        return
    overlaps = iou(anchors, boxes)
    most = overlaps.max(1).values
    assert set(answers[answers >= 0].tolist()) == set(range(len(boxes)))
    assert (answers[most >= 0.5] >= 0).all()
    assert (most[answers == BACKGROUND] < 0.4).all()
    assert ((most[answers == IGNORED] >= 0.4) & (most[answers == IGNORED] < 0.5)).all()
    # Anchors that answer for another box than their best do so since it would have none: one for each box at most.
    swapped = (answers >= 0) & (overlaps.gather(1, answers.clamp(min=0)[:, None])[:, 0] < torch.clamp(most, min=0.5))
    assert swapped.sum() <= len(boxes)


# The loss


@given(st.lists(st.tuples(st.floats(-12, 12), st.booleans()), min_size=1, max_size=9))
def test_the_focal_loss_is_its_formula(cases):
    logits = torch.tensor([logit for logit, _ in cases], dtype=torch.float64)
    truth = torch.tensor([float(true) for _, true in cases], dtype=torch.float64)
    expected = []
    for logit, true in cases:
        p = 1 / (1 + math.exp(-logit))
        p_t, alpha_t = (p, 0.25) if true else (1 - p, 0.75)
        expected.append(-alpha_t * (1 - p_t) ** 2 * math.log(p_t))
    torch.testing.assert_close(focal_loss(logits, truth), torch.tensor(expected, dtype=torch.float64))


def test_the_focal_loss_of_extreme_logits_has_a_finite_gradient():
    logits = torch.tensor([-200.0, 200.0, -200.0, 200.0], requires_grad=True)
    loss = focal_loss(logits, torch.tensor([0.0, 0.0, 1.0, 1.0]))
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()


def outputs_of(anchors, logits, offsets, size=(64, 64)):
    return Outputs(logits, offsets, anchors, (len(anchors),), size)


def test_the_loss_by_hand():
    anchors = torch.tensor([[0.0, 0.0, 8.0, 8.0], [0.0, 0.0, 8.0, 4.5], [8.0, 8.0, 16.0, 16.0]])
    logits, offsets = torch.randn(2, 3, 2), torch.randn(2, 3, 4)
    loss = retinanet_loss(outputs_of(anchors, logits, offsets), [target([[0, 0, 8, 10]], [1]), target([])], beta=0.5)
    truth = torch.zeros(2, 3, 2)
    truth[0, 0, 1] = 1
    counted = torch.tensor([[[1.0], [0.0], [1.0]], [[1.0], [1.0], [1.0]]])  # the second anchor lies in between
    torch.testing.assert_close(loss.classes, (focal_loss(logits, truth) * counted).sum())
    off = (offsets[0, 0] - torch.tensor([0, 1 / 8, 0, math.log(10 / 8)])).abs()
    torch.testing.assert_close(loss.boxes, torch.where(off < 0.5, off**2, off - 0.25).sum())
    assert loss.total == loss.classes + loss.boxes


def test_the_loss_is_per_object_and_blind_to_the_order_of_images():
    torch.manual_seed(0)
    model, images = RetinaNet.small(4).eval(), torch.rand(2, 3, 64, 64)
    targets = [target([[4, 4, 20, 20], [30, 30, 50, 40]], [1, 3]), target([])]
    loss = retinanet_loss(model(images), targets)
    swapped = retinanet_loss(model(images.flip(0)), targets[::-1])
    twice = retinanet_loss(model(images.repeat(2, 1, 1, 1)), targets * 2)
    torch.testing.assert_close(torch.stack(loss), torch.stack(swapped))
    torch.testing.assert_close(torch.stack(loss), torch.stack(twice))
    assert loss.classes < 3  # training starts with a small loss


# What it finds


def test_detections_are_what_the_outputs_say():
    anchors = Anchors().on([(2, 2)], [32], torch.device("cpu"))
    logits, offsets = torch.full((1, 36, 3), -9.0), torch.zeros(1, 36, 4)
    truth = torch.tensor([[10.0, 12.0, 40.0, 50.0], [30.0, 0.0, 64.0, 32.0]])
    offsets[0, [4, 5, 13]] = encode(truth[[0, 0, 1]], anchors[[4, 5, 13]])
    logits[0, 4, 2], logits[0, 5, 2], logits[0, 13, 0], logits[0, 4, 1] = 3.0, 2.0, 1.0, -1.0
    (found,) = detect(outputs_of(anchors, logits, offsets))
    assert found.labels.tolist() == [2, 0, 1]  # the second of class 2 is suppressed, that of class 1 is not
    torch.testing.assert_close(found.scores, torch.tensor([3.0, 1.0, -1.0]).sigmoid())
    torch.testing.assert_close(found.boxes, truth[[0, 1, 0]])
    (surest,) = detect(outputs_of(anchors, logits, offsets), limit=1)
    assert surest.labels.tolist() == [2]
    (sure,) = detect(outputs_of(anchors, logits, offsets), threshold=0.7)
    assert sure.labels.tolist() == [2, 0]
    (nothing,) = detect(outputs_of(anchors, logits, offsets), threshold=0.99)
    assert nothing.boxes.shape == (0, 4)
    top = detect(Outputs(logits, offsets, anchors, (9, 27), (64, 64)), top=1)[0]
    assert top.labels.tolist() == [2, 0]  # one from each level


# The model


@pytest.mark.parametrize(("depth", "insides"), [(18, [128, 256, 512]), (34, [128, 256, 512]), (50, [512, 1024, 2048])])
def test_shapes(depth, insides):
    torch.manual_seed(0)
    model = RetinaNet(20, depth)
    assert [layer.in_channels for layer in model.pyramid.lateral] == insides
    with torch.no_grad():
        outputs = model(torch.rand(2, 3, 96, 160))
    places = [12 * 20, 6 * 10, 3 * 5, 2 * 3, 1 * 2]
    assert outputs.levels == tuple(9 * n for n in places)
    assert outputs.logits.shape == (2, 9 * sum(places), 20)
    assert outputs.offsets.shape == (2, 9 * sum(places), 4)
    assert outputs.anchors.shape == (9 * sum(places), 4)
    assert outputs.logits.sigmoid().mean() == pytest.approx(0.01, rel=0.5)  # the prior


def test_impossible_models():
    with pytest.raises(ValueError, match="classes must be 1 or more, got"):
        RetinaNet(0)
    with pytest.raises(ValueError, match="one of 18, 34, 50, 101, got 19"):
        RetinaNet(2, 19)
    with pytest.raises(ValueError, match="must start at a level from 2 to 5 and end at 5 or higher, got 3 to 4"):
        RetinaNet(2, levels=(3, 4))


# Weights from files


def saved(content, path):
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file(content, path)
    else:
        torch.save(content, path)
    return path


@pytest.mark.parametrize("name", ["weights.safetensors", "old and wrapped.pth"])
def test_backbones_are_loaded(tmp_path, name):
    resnet, model = ImageNetResNet(18), RetinaNet(3)
    content = resnet.state_dict()
    if name.startswith("old"):
        weights = {f"module.{k}": v for k, v in content.items() if not k.endswith("num_batches_tracked")}
        content = {"state_dict": weights, "epoch": 3}
    load_backbone(bc.quantize(model).backbone, saved(content, tmp_path / name))
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, resnet.state_dict()[key])


@pytest.mark.slow
def test_weights_that_do_not_fit(tmp_path):
    model = RetinaNet(3)
    before = copy.deepcopy(model.state_dict())

    def message(path):
        with pytest.raises(ValueError, match=path.name) as error:
            load_backbone(model.backbone, path)
        assert "\n" not in str(error.value)
        return str(error.value)

    fitting = ImageNetResNet(18).state_dict()
    bottlenecks = message(saved(ImageNetResNet(50).state_dict(), tmp_path / "50.pt"))
    assert re.search("does not fit the backbone: layer.* more", bottlenecks)
    narrow = {**fitting, "conv1.weight": torch.zeros(64, 1, 7, 7)}
    assert "conv1.weight is (64, 1, 7, 7) instead of (64, 3, 7, 7)" in message(saved(narrow, tmp_path / "grey.pt"))
    lacking = {name: value for name, value in fitting.items() if name != "bn1.weight"}
    assert "bn1.weight is missing" in message(saved(lacking, tmp_path / "lacking.pt"))
    assert "does not hold a dictionary of weights" in message(saved([1, 2], tmp_path / "list.pt"))
    whole = io.BytesIO()
    torch.save(fitting, whole)
    for name in ("short.pt", "short.safetensors"):
        (tmp_path / name).write_bytes(whole.getvalue()[:1000])
        assert "cannot be read as weights" in message(tmp_path / name)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# It learns


@pytest.mark.slow
def test_it_learns_to_find_digits():
    result, _ = train(RunConfig("detection", "full", 150, backward_bits=None))
    assert result.test > 0.3
