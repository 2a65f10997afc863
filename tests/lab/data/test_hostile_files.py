"""Files that are damaged or ask for too much are refused with one line; unusual but valid ones are read."""

import gzip
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
import scipy.sparse
import torch
from PIL import Image

from bitcycle.lab.data import files
from bitcycle.lab.data.files import DataError, lines_of, read_bytes
from bitcycle.lab.data.graph_files import read_planetoid
from bitcycle.lab.data.image_files import read_idx_file, read_images
from bitcycle.lab.data.sentence_pairs import read_rows
from bitcycle.lab.data.text import read_words
from bitcycle.lab.data.unpickling import load_arrays
from tests.lab.data.tiny_sets import TINY


def idx_header(*shape):
    return bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)


def test_content_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1_000_000)
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    assert len(read_bytes(tmp_path / "zeros.gz")) == 1_000_000
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(1_000_001)))
    with pytest.raises(DataError, match="zeros.gz: its content exceeds the limit of 1 MB"):
        read_bytes(tmp_path / "zeros.gz")


def test_a_header_that_asks_for_more_than_the_file_has(tmp_path):
    (tmp_path / "images").write_bytes(idx_header(2**31, 2**31, 28))
    with pytest.raises(DataError, match="images: has fewer bytes of data than"):
        read_idx_file(tmp_path / "images", 3)


def test_images_without_pixels(tmp_path):
    for name, content in TINY["mnist"]().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_header(20, 0, 0)))
    with pytest.raises(DataError, match="train-images-idx3-ubyte.gz: has images of 0 x 0 pixels"):
        read_images(tmp_path)


def large_png(side):
    """A few kilobytes of PNG with very many pixels."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 20_000])  # Pillow warns of the first and refuses the second
def test_an_image_of_too_many_pixels(tmp_path, side):
    for name in ("train/a", "val/a"):
        (tmp_path / name).mkdir(parents=True)
        for image in "01":
            (tmp_path / name / f"{image}.png").write_bytes(large_png(side))
    with pytest.raises(DataError, match="png: cannot be decoded .Image size"):
        read_images(tmp_path, size=8).train.images(torch.tensor([0]))


def test_only_plain_image_formats_are_decoded(tmp_path):
    for name in ("train/a", "val/a"):
        (tmp_path / name).mkdir(parents=True)
        for image in "01":
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{image}.png", "eps")
    with pytest.raises(DataError, match="png: cannot be decoded"):
        read_images(tmp_path, size=8).train.images(torch.tensor([0]))


def test_a_sparse_matrix_with_too_many_columns(tmp_path):
    for name, content in TINY["cora"]().items():
        (tmp_path / name).write_bytes(content)
    for part, rows in (("x", 8), ("tx", 9), ("allx", 510)):
        matrix = scipy.sparse.csr_matrix((rows, 1_500_000_000), dtype=np.float32)
        (tmp_path / f"ind.cora.{part}").write_bytes(pickle.dumps(matrix))
    with pytest.raises(DataError, match="ind.cora.allx: a table of 519 x 1500000000 exceeds the limit"):
        read_planetoid(tmp_path, "cora")


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


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, lambda path: list(lines_of(path)), load_arrays):
        with pytest.raises(DataError, match="pipe: cannot be read .not a regular file."):
            read(tmp_path / "pipe")
