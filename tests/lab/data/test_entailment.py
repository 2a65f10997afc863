"""Sentence pairs from files: XNLI, SNLI and GLUE, whole and damaged."""

import json
from collections import Counter

import pytest

from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.sentence_pairs import Pair, read_pairs
from tests.lab.data.official import official

THREE = ("entailment", "neutral", "contradiction")


def counts(data):
    return [len(part) for part in (data.train, data.validation, data.test)]


# Official files


def test_xnli():
    data = read_pairs(official("xnli"))
    assert data.name == "xnli-en (trained on test, evaluated on dev)"
    assert data.labels == THREE
    assert counts(data) == [5010, 1245, 1245]
    assert Counter(pair.label for pair in data.train) == {0: 1670, 1: 1670, 2: 1670}
    halves = [{pair.premise for pair in part} for part in (data.validation, data.test)]
    assert not halves[0] & halves[1]
    message = "He called his mom as soon as the school bus dropped him off."
    assert data.validation[0] == Pair("And he said, Mama, I'm home.", message, 1)


def test_snli():
    data = read_pairs(official("snli_devtest"))
    assert data.name == "snli_devtest (trained on test, evaluated on dev)"
    assert len(data.train) == 9824
    assert len(data.validation) + len(data.test) == 9842
    assert abs(len(data.validation) - len(data.test)) < 100
    assert data.train[1].label == THREE.index("entailment")
    assert data.train[2].label == THREE.index("contradiction")


def test_rte():
    data = read_pairs(official("rte"))
    assert (data.name, data.labels) == ("rte", ("entailment", "not_entailment"))
    assert counts(data) == [2241, 249, 277]  # the published test has no labels
    assert Counter(pair.label for pair in data.train + data.validation) == {0: 1249, 1: 1241}
    assert Counter(pair.label for pair in data.test) == {0: 146, 1: 131}


# Small files


def write(folder, name, *rows):
    (folder / name).write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def test_official_xnli(tmp_path):
    header = ("language", "gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "promptID")
    for part in ("dev", "test"):
        rows = [
            (language, label, "(", f'"{part} {number}', f"{language} ß", "1")
            for language in ("ar", "en")
            for number, label in enumerate(THREE)
        ]
        write(tmp_path, f"xnli.{part}.tsv", header, *rows)
    data = read_pairs(tmp_path)
    assert data.name.endswith("-en (trained on test, evaluated on dev)")
    assert data.train == [Pair(f'"test {number}', "en ß", number) for number in range(3)]
    assert (len(data.validation), len(data.test)) == (2, 1)
    write(tmp_path, "multinli.train.en.tsv", ("premise", "hypo", "label"), ("p", "h", "contradictory"))
    data = read_pairs(tmp_path)
    assert data.train == [Pair("p", "h", 2)]
    assert counts(data) == [1, 3, 3]
    write(tmp_path, "xnli.dev.tsv", header, ("fr", "neutral", "(", "a", "b", "1"))
    with pytest.raises(DataError, match="no pair of English sentences"):
        read_pairs(tmp_path)


def test_jsonl(tmp_path):
    for part in ("train", "dev", "test"):
        rows = [{"gold_label": label, "sentence1": f"{part}", "sentence2": "x\ty", "n": 1} for label in (*THREE, "-")]
        (tmp_path / f"snli_1.0_{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = read_pairs(tmp_path)
    assert data.name == tmp_path.name
    assert data.train == [Pair("train", "x\ty", number) for number in range(3)]
    assert counts(data) == [3, 3, 3]


def test_mnli(tmp_path):
    header = ("index", "promptID", "sentence1", "sentence2", "label1", "gold_label")
    rows = [(str(n), "1", f"p{n}", f"h{n}", "neutral", THREE[n % 3]) for n in range(30)]
    write(tmp_path, "train.tsv", header, *rows)
    write(tmp_path, "dev_matched.tsv", header, *rows[:6])
    write(tmp_path, "test_matched.tsv", header[:4], *(row[:4] for row in rows))
    data = read_pairs(tmp_path)
    assert counts(data) == [27, 3, 6]
    assert data.test[2] == Pair("p2", "h2", 2)
    assert {*data.train, *data.validation} == {Pair(f"p{n}", f"h{n}", n % 3) for n in range(30)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.tsv", "sentence1\tsentence2\tlabel\nonly one\n", "line 2 has 1 cells; it should have 3"),
        ("dev.tsv", "sentence1\tsentence2\tlabel\na\tb\tmaybe\n", "line 2 has the label 'maybe'"),
        ("dev.tsv", "sentence1\tsentence2\tlabel\na\t \tneutral\n", "holds no pair"),
        ("dev.tsv", "", "holds no pair"),
        ("dev.tsv", "a\tb\n", "line 1 has 2 cells; it should have 3: premise, hypothesis, label"),
        ("dev.tsv", "a\tb\t3\n", "line 1 has the label '3'"),
        ("dev.jsonl", '{"gold_label": "neutral", "sente', "line 1 is damaged"),
        ("dev.jsonl", '{"gold_label": "neutral", "sentence1": 3, "sentence2": "b"}', "line 1 is damaged"),
        ("dev.jsonl", "[" * 100_000, "line 1 is damaged"),
        ("dev.jsonl", "[1]", "line 1 is damaged"),
    ],
)
def test_damaged_pairs(tmp_path, name, content, message):
    write(tmp_path, "train.tsv", ("a", "b", "neutral"))
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        read_pairs(tmp_path)


def test_parts_that_do_not_fit(tmp_path):
    write(tmp_path, "dev.tsv", ("a", "b", "neutral"))
    with pytest.raises(DataError, match="for dev; it should hold .* for two parts or more"):
        read_pairs(tmp_path)
    header = ("sentence1", "sentence2", "label")
    write(tmp_path, "train.tsv", header, *[("a", "b", "not_entailment")] * 2)
    with pytest.raises(DataError, match="has the label 'neutral'; labels should be entailment, not_entailment"):
        read_pairs(tmp_path)
    (tmp_path / "dev.tsv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="dev.tsv: is not text"):
        read_pairs(tmp_path)
