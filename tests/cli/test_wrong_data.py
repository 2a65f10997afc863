"""Damaged, missing and malicious data through the command line: one line, an exit code, nothing executed."""

import gzip
import os
import pickle
import struct
import sys

import numpy as np
import pytest
from PIL import Image

from bitcycle.cli import main
from tests.support.command import bitcycle

MARK = "executed"


class Trap:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / MARK),)


def pickled(value):
    return pickle.dumps(value, protocol=2)


# Small data sets that are right, to be damaged


def cifar(folder):
    batch = {"data": np.zeros((4, 3072), np.uint8), "labels": [0, 1, 2, 3]}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(pickled(batch))
    (folder / "batches.meta").write_bytes(pickled({"label_names": [str(digit) for digit in range(10)]}))


def idx(folder):
    for part in ("train", "t10k"):
        images = struct.pack(">BBBBIII", 0, 0, 8, 3, 4, 8, 8) + bytes(4 * 64)
        labels = struct.pack(">BBBBI", 0, 0, 8, 1, 4) + bytes(range(4))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def voc(folder):
    for part in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (folder / part).mkdir(parents=True)
    box = "<bndbox><xmin>2</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    for name in ("one", "two", "three"):
        Image.new("RGB", (16, 16)).save(folder / "JPEGImages" / f"{name}.jpg")
        (folder / "Annotations" / f"{name}.xml").write_text(
            f"<annotation><object><name>dog</name>{box}</object></annotation>"
        )
    (folder / "ImageSets/Main/train.txt").write_text("one\n")
    (folder / "ImageSets/Main/val.txt").write_text("two\nthree\n")


def planetoid(folder):
    import scipy.sparse

    x, y = scipy.sparse.csr_matrix(np.eye(520, 6, dtype=np.float32)), np.eye(2, dtype=np.int32)[np.arange(520) % 2]
    content = {
        "x": x[:8], "y": y[:8], "allx": x[:510], "ally": y[:510], "tx": x[510:], "ty": y[510:],
        "graph": {node: [(node + 1) % 520] for node in range(520)},
    }  # fmt: skip
    for part, value in content.items():
        (folder / f"ind.cora.{part}").write_bytes(pickled(value))
    (folder / "ind.cora.test.index").write_text("\n".join(map(str, range(510, 520))))


def ogb(folder):
    rows = {
        "raw/edge": [(0, 1), (2, 3)],
        "raw/node-feat": [(0.5, 1.5)] * 6,
        "raw/node-label": [(0,), (1,)] * 3,
        "raw/num-node-list": [(6,)],
        "raw/num-edge-list": [(2,)],
        "split/time/train": [(0,), (1,)],
        "split/time/valid": [(2,), (3,)],
        "split/time/test": [(4,), (5,)],
    }
    for name, table in rows.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(",".join(map(str, row)) + "\n" for row in table).encode()))


def ptb(folder):
    for part in ("train", "valid", "test"):
        (folder / f"ptb.{part}.txt").write_text("a few words of some text\n" * 400)


def glue(folder):
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("sentence1\tsentence2\tlabel\n" + "a\tb\tentailment\n" * 20)


# Ways to damage them


def cut(name, length=-20):
    def damage(folder):
        path = folder / name
        path.write_bytes(path.read_bytes()[:length])

    return damage


def put(name, content):
    def damage(folder):
        (folder / name).write_bytes(content)

    return damage


def trap(name):
    def damage(folder):
        (folder / name).write_bytes(pickled(Trap(folder)))

    return damage


def without_objects(folder):
    for path in (folder / "Annotations").iterdir():
        path.write_text("<annotation></annotation>")


def without_annotations(folder):
    for path in (folder / "Annotations").iterdir():
        path.unlink()


BOMB = b"""<?xml version="1.0"?><!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;">]>
<annotation><name>&d;</name></annotation>"""
FETCH = b"""<!DOCTYPE annotation [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation>&a;</annotation>"""
UNLABELLED = b"sentence1\tsentence2\n" + b"a\tb\n" * 20

DAMAGES = {
    "cifar-truncated": ("image", cifar, cut("data_batch_3"), "data_batch_3: is truncated"),
    "cifar-code": ("image", cifar, trap("data_batch_2"), "mkdir, which was refused"),
    "cifar-meta-code": ("image", cifar, trap("batches.meta"), "mkdir, which was refused"),
    "idx-truncated-gzip": ("image", idx, cut("train-images-idx3-ubyte.gz"), "the gzip file is truncated"),
    "idx-no-gzip": ("image", idx, put("train-images-idx3-ubyte.gz", b"hello"), "cannot be read"),
    "idx-wrong-magic": (
        "image", idx, put("t10k-labels-idx1-ubyte.gz", gzip.compress(b"\x00\x00\x0d\x01" + bytes(20))),
        "starts with the bytes 00000d01",
    ),
    "voc-without-annotations": ("detection", voc, without_annotations, "one.xml: cannot be read"),
    "voc-without-objects": ("detection", voc, without_objects, "there should be objects to detect"),
    "voc-one-image": ("detection", voc, put("ImageSets/Main/val.txt", b"two"), "val.txt names only one image"),
    "voc-broken-xml": ("detection", voc, cut("Annotations/two.xml"), "two.xml: cannot be read"),
    "voc-entity-bomb": ("detection", voc, put("Annotations/two.xml", BOMB), "must not have a DOCTYPE"),
    "voc-entity-file": ("detection", voc, put("Annotations/two.xml", FETCH), "must not have a DOCTYPE"),
    "voc-broken-image": ("detection", voc, cut("JPEGImages/one.jpg", 100), "one.jpg: cannot be decoded"),
    "planetoid-code": ("graph", planetoid, trap("ind.cora.allx"), "mkdir, which was refused"),
    "planetoid-truncated": ("graph", planetoid, cut("ind.cora.graph"), "ind.cora.graph: is truncated"),
    "ogb-truncated": ("graph", ogb, cut("raw/node-feat.csv.gz", -9), "node-feat.csv.gz: the gzip file is truncated"),
    "ogb-no-numbers": ("graph", ogb, put("raw/edge.csv.gz", gzip.compress(b"a,b\n")), "not a table of numbers"),
    "ptb-binary": ("language", ptb, put("ptb.train.txt", gzip.compress(b"words")), "ptb.train.txt: is not text"),
    "ptb-zeros": ("language", ptb, put("ptb.train.txt", bytes(5000)), "ptb.train.txt: is not text"),
    "ptb-empty": ("language", ptb, put("ptb.valid.txt", b""), "ptb.valid.txt: holds no words"),
    "tsv-without-labels": ("entailment", glue, put("train.tsv", UNLABELLED), "has labelled pairs in 'en' for dev;"),
    "tsv-other-labels": ("entailment", glue, put("dev.tsv", b"a\tb\tmaybe\n"), "has the label 'maybe'"),
}  # fmt: skip


def told_by(capsys, monkeypatch, *arguments):
    """The one line that a command prints on its error stream before it gives up."""
    monkeypatch.setattr(sys, "argv", ["bitcycle", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code not in (0, None)
    assert said.startswith("bitcycle: ")
    assert said.count("\n") == 1
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_data(name, tmp_path, capsys, monkeypatch):
    task, build, damage, told = DAMAGES[name]
    build(tmp_path)
    damage(tmp_path)
    data = tmp_path / "cora" if build is planetoid else tmp_path
    assert told in told_by(capsys, monkeypatch, "train", task, "--data", data, "--steps", "2")
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("task", ["image", "detection", "graph", "language", "entailment"])
def test_no_data(task, tmp_path, capsys, monkeypatch):
    empty, missing, file = tmp_path / "empty", tmp_path / "missing", tmp_path / "file"
    empty.mkdir()
    file.write_text("hello")
    for folder in (empty, missing, file):
        said = told_by(capsys, monkeypatch, "train", task, "--data", folder, "--steps", "2")
        assert str(folder) in said


@pytest.mark.parametrize(
    ("arguments", "name", "told"),
    [
        (("entailment", "--model", "."), "pytorch_model.bin", "has no config.json"),
        (("detection", "--model", "retinanet-18", "--option", "backbone=net.pth"), "net.pth", "net.pth cannot be read"),
        (("image", "--out", "."), "checkpoint.pt", "not a readable checkpoint"),
    ],
    ids=["pretrained", "backbone", "checkpoint"],
)
def test_weights_that_carry_code(arguments, name, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trap(name)(tmp_path)
    assert told in told_by(capsys, monkeypatch, "train", *arguments, "--steps", "2")
    assert not (tmp_path / MARK).exists()


def test_the_traps_are_live(tmp_path):
    trap("batch")(tmp_path)
    pickle.loads((tmp_path / "batch").read_bytes())
    assert (tmp_path / MARK).exists()


def test_the_small_data_sets_are_right(tmp_path, capsys, monkeypatch):
    """What is damaged above trains before it is."""
    for task, build in (("image", cifar), ("image", idx), ("graph", planetoid), ("graph", ogb), ("entailment", glue)):
        folder = tmp_path / build.__name__
        folder.mkdir()
        build(folder)
        data = folder / "cora" if build is planetoid else folder
        monkeypatch.setattr(
            sys, "argv", ["bitcycle", "train", task, "--data", str(data), "--steps", "1", "--batch-size", "2"]
        )
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, capsys.readouterr().err


def test_a_process_of_its_own(tmp_path):
    cifar(tmp_path)
    trap("test_batch")(tmp_path)
    done = bitcycle("train", "image", "--data", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("bitcycle: ")
    assert "which was refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / MARK).exists()
