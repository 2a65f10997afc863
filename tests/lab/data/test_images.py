"""Images: the digits, and each official format, whole and damaged."""

import gzip
import io
import pickle
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from bitcycle.lab.data.files import DataError, read_digits
from bitcycle.lab.data.image_files import read_images
from bitcycle.lab.data.images import digits
from tests.lab.data.official import official
from tests.lab.data.tiny_sets import unpack_tiny


def parts(data):
    return data.train, data.validation, data.test


# The digits


def test_digits_are_the_same_everywhere():
    data = digits()
    assert [len(part) for part in parts(data)] == [1084, 266, 447]
    assert [int(part.images(torch.arange(len(part))).mul(16).sum()) for part in parts(data)] == [
        338_856,
        83_198,
        139_664,
    ]
    for part in parts(data):
        share = part.labels.bincount() / len(part)
        assert share.min() > 0.09
        assert share.max() < 0.11


# Official files


def test_fashion_mnist():
    data = read_images(official("fashion-mnist"))
    assert (data.channels, data.size, len(data.classes), data.classes[9]) == (1, 28, 10, "Ankle boot")
    assert [len(part) for part in parts(data)] == [54_000, 6_000, 10_000]
    assert data.test.labels.bincount().tolist() == [1000] * 10
    assert (data.train.labels.bincount() + data.validation.labels.bincount()).tolist() == [6000] * 10
    pixels = torch.cat((data.train.pixels, data.validation.pixels)).float() / 255
    assert pixels.mean().item() == pytest.approx(0.2860, abs=1e-4)
    assert pixels.std().item() == pytest.approx(0.3530, abs=1e-4)


def test_cifar_10():
    data = read_images(official("cifar10"))
    assert (data.name, data.channels, data.size, data.classes[3]) == ("cifar-10", 3, 32, "cat")
    assert [len(part) for part in parts(data)] == [9_000, 1_000, 2_000]
    assert data.test.labels[:4].tolist() == [3, 8, 8, 0]  # cat, ship, ship, airplane, as everybody knows them
    means = data.train.images(torch.arange(9_000)).mean((0, 2, 3))
    torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), atol=0.01, rtol=0)
    inside = read_images(official("cifar10") / "cifar-10-batches-py")
    assert torch.equal(inside.validation.pixels, data.validation.pixels)


# Small files in the official formats


@pytest.mark.parametrize(("old", "new", "inside"), [("-idx", ".idx", ""), (".gz", "", "raw"), ("-idx", "-idx", "raw")])
def test_idx(tmp_path, old, new, inside):
    for file in unpack_tiny("mnist", tmp_path / "mnist" / inside).iterdir():
        if old == ".gz":
            file.write_bytes(gzip.decompress(file.read_bytes()))
        file.rename(file.with_name(file.name.replace(old, new)))
    data = read_images(tmp_path / "mnist")
    assert [len(part) for part in parts(data)] == [18, 2, 5]
    assert data.classes == tuple("0123456789")
    assert data.test.labels.tolist() == [0, 1, 2, 3, 4]


def inner(change):
    """A change of what is compressed."""
    return lambda content: gzip.compress(change(gzip.decompress(content)))


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("t10k-images-idx3", inner(lambda raw: raw[:-1]), "truncated or damaged"),
        ("t10k-images-idx3", inner(lambda raw: raw[:10]), "truncated or damaged"),
        ("t10k-images-idx3", inner(lambda raw: raw + b"x"), "truncated or damaged"),
        ("t10k-images-idx3", inner(lambda raw: b"\x89PNG" + raw[4:]), "starts with the bytes 89504e47"),
        ("t10k-images-idx3", inner(lambda raw: raw[:4] + b"\xff" * 12), "has fewer bytes of data than"),
        ("t10k-images-idx3", inner(lambda raw: raw[:8] + bytes(8)), "has images of 0 x 0 pixels"),
        (
            "t10k-labels-idx1",
            inner(lambda raw: raw[:7] + b"\4" + raw[8:12]),
            "4 labels for 5 images",
        ),
        (
            "t10k-labels-idx1",
            inner(lambda raw: raw[:-1] + b"\x0a"),
            "has the label 10; labels should be from 0",
        ),
        ("train-images-idx3", lambda content: content[:-20], "truncated"),
        ("train-images-idx3", lambda content: b"hello", "cannot be read"),
        ("train-images-idx3", lambda content: content[:40] + b"\xff" * 99, ""),
        ("train-images-idx3", lambda content: b"", "empty"),
    ],
)
def test_damaged_idx(tmp_path, file, damage, message):
    path = unpack_tiny("mnist", tmp_path) / f"{file}-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"{path.name}: .*{message}"):
        read_images(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=f"holds no {file}|no images were recognised"):
        read_images(tmp_path)


@pytest.mark.parametrize("inside", ["", "cifar-100-python"])
def test_cifar_100(tmp_path, inside):
    folder = unpack_tiny("cifar100", tmp_path) / "cifar-100-python"
    data = read_images(tmp_path / inside)
    assert (data.name, data.channels, data.size, data.classes[99]) == ("cifar-100", 3, 32, "99")
    assert [len(part) for part in parts(data)] == [18, 2, 20]
    batch = pickle.loads((folder / "test").read_bytes())
    assert data.test.labels.tolist() == batch["fine_labels"]
    expected = torch.from_numpy(batch["data"][4].reshape(3, 32, 32)).float() / 255
    assert torch.equal(data.test.images(torch.tensor([4]))[0], expected)


PIXELS = np.zeros((20, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": PIXELS[:, :3000], "fine_labels": [1] * 20}, "'data' should be an array of bytes with rows of 3072"),
        ({"data": PIXELS, "fine_labels": [100] * 20}, "has the label 100; labels should be from 0 to 99"),
        ({"data": PIXELS, "fine_labels": ["1"] * 20}, "should be a list of 20 labels, one per image"),
        ({"data": PIXELS, "fine_labels": [1] * 19}, "has 19 labels for 20 images"),
        ({"data": 1}, "no entry 'fine_labels'"),
        ([1], "holds a list"),
    ],
)
def test_wrong_cifar(tmp_path, content, message):
    file = unpack_tiny("cifar100", tmp_path) / "cifar-100-python" / "test"
    file.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=f"test: .*{message}"):
        read_images(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DataError, match="test: is truncated"):
        read_images(tmp_path)
    file.unlink()
    with pytest.raises(DataError, match="holds no test"):
        read_images(tmp_path)


# Folders of images


@pytest.fixture
def pictures(tmp_path):
    for part, count in (("train", 10), ("val", 3)):
        for shade, name in enumerate(("ant", "bee")):
            folder = tmp_path / "insects" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                size = (40, 30) if number % 2 else (30, 50)
                Image.new("RGB", size, (200 * shade, 100, number)).save(folder / f"{number}.png")
    return tmp_path / "insects"


def test_image_folder(pictures):
    data = read_images(pictures, size=16)
    assert (data.name, data.classes, data.channels, data.size) == ("insects", ("ant", "bee"), 3, 16)
    assert [len(part) for part in parts(data)] == [18, 2, 6]
    assert data.test.labels.tolist() == [0] * 3 + [1] * 3
    batch = data.test.images(torch.tensor([5, 0]))
    assert batch.shape == (2, 3, 16, 16)
    assert batch.dtype == torch.float32
    torch.testing.assert_close(batch[0, :, 3, 4], torch.tensor([200.0, 100.0, 2.0]) / 255)
    assert data.test.images(torch.tensor([], dtype=torch.int64)).shape == (0, 3, 16, 16)


def test_the_centre_is_cropped(pictures):
    wide = np.zeros((8, 24, 3), dtype=np.uint8)
    wide[:, 8:16] = 255
    Image.fromarray(wide).save(pictures / "val" / "ant" / "0.png")
    Image.fromarray(wide[..., 0]).save(pictures / "val" / "ant" / "1.png")  # grey becomes RGB
    images = read_images(pictures, size=8).test.images(torch.tensor([0, 1]))
    assert images.shape == (2, 3, 8, 8)
    assert images.min() == 1


def test_wrong_image_folders(pictures):
    (pictures / "train" / "cow").mkdir()
    with pytest.raises(DataError, match="cow: holds no image"):
        read_images(pictures)
    (pictures / "train" / "cow").rename(pictures / "val" / "cow")
    with pytest.raises(DataError, match="val: has the class 'cow'"):
        read_images(pictures)
    with pytest.raises(ValueError, match="size must be 1 pixel or more, got 0"):
        read_images(pictures, size=0)


def large_png(side):
    """A few kilobytes of PNG with very many pixels."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def eps():
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "eps")  # Pillow would call another program to decode it
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (large_png(8)[:30], "cannot be decoded"),
        (b"hello", "cannot be decoded"),
        (eps(), "cannot be decoded"),
        (large_png(10_000), "cannot be decoded .Image size"),  # Pillow warns of this one
        (large_png(20_000), "cannot be decoded .Image size"),  # and refuses this one
        (b"", "the file is empty"),
    ],
    ids=["truncated", "no image", "another format", "large", "too large", "empty"],
)
def test_damaged_images(pictures, content, reason):
    (pictures / "val" / "ant" / "0.png").write_bytes(content)
    with pytest.raises(DataError, match=f"0.png: {reason}"):
        read_images(pictures).test.images(torch.tensor([0]))


# What is no data


def test_the_digits_are_those_of_scikit_learn():
    theirs = load_digits()
    images, labels = read_digits()
    assert (images == theirs.images).all()
    assert (labels == theirs.target).all()
