"""Damaged, missing and malicious data through the command line: one line, an exit code, nothing executed.

The tests of the readers, in tests/lab/data, damage every kind of file.
"""

import os
import pickle
import sys
from functools import partial

import pytest
import torch._dynamo
import transformers

from bitcycle.cli import main
from tests.lab.data.tiny_sets import unpack_tiny

LOADED = (torch._dynamo, transformers.PreTrainedModel)  # they take seconds, which is not the time of a test

MARK = "executed"


class Trap:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / MARK),)


def glue(folder):
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("sentence1\tsentence2\tlabel\n" + "a\tb\tentailment\n" * 20)


UNLABELLED = b"sentence1\tsentence2\n" + b"a\tb\n" * 20

CIFAR, VOC, WORDS = (partial(unpack_tiny, name) for name in ("cifar10", "voc2012", "wikitext-2"))

DAMAGES = [
    ("image", CIFAR, "data_batch_2", Trap, "mkdir, which was refused"),
    ("detection", VOC, "Annotations/*.xml", b"<annotation></annotation>", "there should be objects to detect"),
    ("detection", VOC, "ImageSets/Main/val.txt", b"val_0", "val.txt names only one image"),
    ("detection", VOC, "Annotations/val_0.xml", b"<annotation>", "val_0.xml: cannot be read"),
    ("language", WORDS, "wiki.train.tokens", bytes(5000), "wiki.train.tokens: is not text"),
    ("entailment", glue, "train.tsv", UNLABELLED, "has labelled pairs in English for dev;"),
    ("entailment", glue, "dev.tsv", b"a\tb\tmaybe\n", "has the label 'maybe'"),
]


def error_line(capsys, monkeypatch, *arguments):
    """The one line that a command prints on its error stream before it gives up."""
    monkeypatch.setattr(sys, "argv", ["bitcycle", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    line = capsys.readouterr().err
    assert stop.value.code not in (0, None)
    assert line.startswith("bitcycle: ")
    assert line.count("\n") == 1
    assert "Traceback" not in line
    return line


@pytest.mark.parametrize(("task", "build", "names", "content", "message"), DAMAGES, ids=[each[4] for each in DAMAGES])
def test_damaged_data(task, build, names, content, message, tmp_path, capsys, monkeypatch):
    build(tmp_path)
    for path in list(tmp_path.rglob(names)):
        path.write_bytes(pickle.dumps(Trap(tmp_path)) if content is Trap else content)
    folder = tmp_path / "wikitext-2" if build is WORDS else tmp_path
    assert message in error_line(capsys, monkeypatch, "train", task, "--data", folder, "--steps", "2")
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("task", ["image", "detection", "graph", "language", "entailment"])
def test_no_data(task, tmp_path, capsys, monkeypatch):
    empty, missing, file = tmp_path / "empty", tmp_path / "missing", tmp_path / "file"
    empty.mkdir()
    file.write_text("hello")
    for folder in (empty, missing, file):
        line = error_line(capsys, monkeypatch, "train", task, "--data", folder, "--steps", "2")
        assert str(folder) in line


@pytest.mark.parametrize(
    ("arguments", "name", "message"),
    [
        (("entailment", "--model", "."), "pytorch_model.bin", "has no config.json"),
        (("detection", "--model", "retinanet-18", "--option", "backbone=net.pth"), "net.pth", "net.pth cannot be read"),
        (("image", "--out", "."), "checkpoint.pt", "not a readable checkpoint"),
    ],
    ids=["pretrained", "backbone", "checkpoint"],
)
def test_weights_that_carry_code(arguments, name, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path), protocol=2))
    assert message in error_line(capsys, monkeypatch, "train", *arguments, "--steps", "2")
    assert not (tmp_path / MARK).exists()
    pickle.loads((tmp_path / name).read_bytes())
    assert (tmp_path / MARK).exists(), "the trap is live"
