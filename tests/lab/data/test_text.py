"""Text: Python's reference, and the files of PTB and WikiText."""

import pytest
import torch

from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.text import _paragraphs_by_split, python_reference, read_words
from tests.lab.data.official import official


def parts(data):
    return data.train, data.validation, data.test


def words(data, part):
    return " ".join(data.vocabulary[number] for number in part)


# Python's reference


def test_the_reference_is_a_text_of_some_size():
    data = python_reference()
    assert 1500 < len(data.vocabulary) < 2500
    assert len(set(data.vocabulary)) == len(data.vocabulary)
    total = sum(len(part) for part in parts(data))
    assert total > 40_000
    for part, share in zip(parts(data), (0.8, 0.1, 0.1), strict=True):
        assert part.dtype == torch.int64
        assert len(part) / total == pytest.approx(share, abs=0.01)
        assert 0 <= part.min() <= part.max() < len(data.vocabulary)
        assert data.vocabulary[part[-1]] == "<eos>"
        assert (part == data.vocabulary.index("<unk>")).float().mean() < 0.12
    assert torch.equal(data.train, python_reference().train)


def test_no_paragraph_of_the_test_is_in_the_training_text():
    seen = [set(lines) for lines in _paragraphs_by_split()]
    assert sum(map(len, seen)) == len(set.union(*seen))


# Official files


@pytest.mark.parametrize(
    ("name", "vocabulary", "counts"),
    [
        ("ptb", 10_000, (887_521 + 42_068, 70_390 + 3_370, 78_669 + 3_761)),  # words and line ends
        ("wikitext-2", 33_278, (2_088_628, 217_646, 245_569)),
    ],
)
def test_counts_of_official_files(name, vocabulary, counts):
    data = read_words(official(name))
    assert len(data.vocabulary) == vocabulary
    assert tuple(len(part) for part in parts(data)) == counts
    assert data.name == name
    if name == "ptb":
        assert words(data, data.train[25:32]) == "pierre <unk> N years old will join"


# Small files


@pytest.mark.parametrize("pattern", ["ptb.{}.txt", "wiki.{}.tokens", "{}.txt"])
def test_words(tmp_path, pattern):
    for part, text in {"train": " a b \n\n b <unk> c\n", "valid": " c d\r\n", "test": "a"}.items():
        (tmp_path / pattern.format(part)).write_bytes(text.encode())
    data = read_words(tmp_path)
    assert data.vocabulary == ("a", "b", "<eos>", "<unk>", "c")
    assert words(data, data.train) == "a b <eos> <eos> b <unk> c <eos>"
    assert words(data, data.validation) == "c <unk> <eos>"
    assert words(data, data.test) == "a <eos>"


def test_wrong_text(tmp_path):
    for part in ("train", "valid"):
        (tmp_path / f"ptb.{part}.txt").write_text("a b\n")
    with pytest.raises(DataError, match="holds no ptb.test.txt"):
        read_words(tmp_path)
    for content, message in ((b"", "holds no words"), (b"\n \n", "holds no words"), (b"a \xff b", "is not text")):
        (tmp_path / "ptb.test.txt").write_bytes(content)
        with pytest.raises(DataError, match=f"ptb.test.txt: {message}"):
            read_words(tmp_path)
