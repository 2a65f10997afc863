"""Files that are damaged or ask for too much are refused with one line; unusual but valid ones are read."""

import gzip
import os
import pickle

import numpy as np
import pytest
import scipy.sparse

from bitcycle.lab.data import files
from bitcycle.lab.data.files import DataError, lines_of, read_bytes
from bitcycle.lab.data.graphs import read_ogb, read_planetoid
from bitcycle.lab.data.sentence_pairs import read_pairs, read_rows
from bitcycle.lab.data.text import read_words
from bitcycle.lab.data.unpickling import load_arrays
from tests.lab.data.tiny_sets import unpack_tiny


def test_content_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1_000_000)
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    assert len(read_bytes(tmp_path / "zeros.gz")) == 1_000_000
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(1_000_001)))
    with pytest.raises(DataError, match="zeros.gz: its content exceeds the limit of 1 MB"):
        read_bytes(tmp_path / "zeros.gz")


def test_a_sparse_matrix_with_too_many_columns(tmp_path):
    unpack_tiny("cora", tmp_path)
    for part, rows in (("x", 8), ("tx", 9), ("allx", 510)):
        matrix = scipy.sparse.csr_matrix((rows, 1_500_000_000), dtype=np.float32)
        (tmp_path / f"ind.cora.{part}").write_bytes(pickle.dumps(matrix))
    with pytest.raises(DataError, match="ind.cora.allx: a table of 520 x 1500000000 exceeds the limit"):
        read_planetoid(tmp_path, "cora")


def test_a_byte_order_mark_is_no_text(tmp_path):
    file = tmp_path / "dev.tsv"
    file.write_bytes("\ufeffsentence1\tsentence2\tgold_label\na\tb\tneutral\n".encode())
    assert read_rows(file) == [("a", "b", "neutral")]
    file = tmp_path / "dev.jsonl"
    file.write_bytes(('\ufeff{"sentence1": "a", "sentence2": "b", "gold_label": "neutral"}\n').encode())
    assert read_rows(file) == [("a", "b", "neutral")]
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_bytes("\ufeffa b\n".encode())
    assert read_words(tmp_path).vocabulary == ("a", "b", "<eos>", "<unk>")


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (read_words, "ptb.train.txt"),
        (read_pairs, "XNLI"),
        (read_ogb, ""),
        (lambda folder: read_planetoid(folder, "cora"), ""),
    ],
)
def test_a_folder_without_data(tmp_path, read, wanted):
    with pytest.raises(DataError, match=f"there is no such folder; it should hold .*{wanted}"):
        read(tmp_path / "nowhere")
    with pytest.raises(DataError, match="the folder is empty"):
        read(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="it should|no word-level text was recognised|for no part"):
        read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, lambda path: list(lines_of(path)), load_arrays):
        with pytest.raises(DataError, match="pipe: cannot be read .not a regular file."):
            read(tmp_path / "pipe")
