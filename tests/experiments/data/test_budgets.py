"""Budgets: small files that ask for much are refused with one line and take little; official sizes are read."""

import gzip
import json
import os
import pickle
import subprocess
import sys

import pytest
import torch
from PIL import Image

from bitcycle.experiments.data import sentence_pairs, text, unpickling
from bitcycle.experiments.data.files import DataError, lines_of, read_bytes
from bitcycle.experiments.data.image_files import read_idx_file, read_images
from bitcycle.experiments.data.sentence_pairs import read_rows
from bitcycle.experiments.data.text import read_words
from bitcycle.experiments.data.unpickling import load_arrays
from tests.experiments.data.attacks import ATTACKS
from tests.experiments.data.tiny_sets import TINY

HARMLESS = ("a memo far away", "annotation in a list many times")
"""Attacks whose files are valid: reading them must take little."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory through /proc")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    command = [sys.executable, "-m", "tests.experiments.data.attacks", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", ATTACKS)
def test_small_files_take_little(measured, name):
    result = measured[name]
    assert result["outcome"] == ("read" if name in HARMLESS else "DataError"), result
    assert result["peak"] < 600_000_000
    assert len(result["message"].splitlines()) <= 1
    assert len(result["message"]) < 700


def test_a_pickle_cannot_change_a_stand_in(tmp_path):
    file = tmp_path / "batch"
    file.write_bytes(b"\x80\x02ccollections\ndefaultdict\nN}U\x05valueK\x01s\x86b.")
    with pytest.raises(DataError):
        load_arrays(file)
    assert not hasattr(unpickling._new_dictionary, "value")


def test_a_pickle_of_a_file_of_official_size(tmp_path):
    file = tmp_path / "graph"
    graph = {node: list(range(node % 90)) for node in range(5_000)}
    file.write_bytes(pickle.dumps(graph, protocol=2))
    assert load_arrays(file) == graph


def test_a_gzip_file_of_the_size_of_mnist_may_hold_nothing_but_zeros(tmp_path):
    file = tmp_path / "images.gz"
    shape = (60_000, 28, 28)
    head = bytes((0, 0, 8, 3)) + b"".join(size.to_bytes(4, "big") for size in shape)
    file.write_bytes(gzip.compress(head + bytes(60_000 * 28 * 28), 1))
    assert read_idx_file(file, 3).shape == torch.Size(shape)


def test_images_without_pixels(tmp_path):
    for name, content in TINY["mnist"]().items():
        (tmp_path / name).write_bytes(content)
    empty = bytes((0, 0, 8, 3)) + (20).to_bytes(4, "big") + bytes(8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(empty))
    with pytest.raises(DataError, match="train-images-idx3-ubyte.gz: has images of 0 x 0 pixels"):
        read_images(tmp_path)


def test_a_byte_order_mark_is_no_text(tmp_path):
    file = tmp_path / "dev.tsv"
    file.write_bytes("\ufeffsentence1\tsentence2\tgold_label\na\tb\tneutral\n".encode())
    assert read_rows(file, "en") == [("a", "b", "neutral")]
    file = tmp_path / "dev.jsonl"
    file.write_bytes(('\ufeff{"sentence1": "a", "sentence2": "b", "gold_label": "neutral"}\n').encode())
    assert read_rows(file, "en") == [("a", "b", "neutral")]
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_bytes("\ufeffa b\n".encode())
    assert read_words(tmp_path).vocabulary == ("a", "b", "<eos>", "<unk>")


def test_too_many_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_pairs, "MOST_PAIRS", 5)
    file = tmp_path / "dev.tsv"
    file.write_text("a\tb\tneutral\n" * 5)
    assert len(read_rows(file, "en")) == 5
    file.write_text("a\tb\tneutral\n" * 6)
    with pytest.raises(DataError, match="dev.tsv: its number of lines exceeds the limit of 5 pairs"):
        read_rows(file, "en")


def test_too_many_words(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MOST_WORDS", 5)
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_text("a b c d e f\n")
    with pytest.raises(DataError, match="ptb.train.txt: its vocabulary exceeds the limit of 5 words"):
        read_words(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, lambda path: list(lines_of(path)), load_arrays):
        with pytest.raises(DataError, match="pipe: cannot be read .not a regular file."):
            read(tmp_path / "pipe")


def test_only_plain_image_formats_are_decoded(tmp_path):
    for name in ("train/a", "val/a"):
        (tmp_path / name).mkdir(parents=True)
        for image in "01":
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{image}.png", "eps")
    with pytest.raises(DataError, match="png: cannot be decoded"):
        read_images(tmp_path, size=8).train.images(torch.tensor([0]))
