"""Mistakes in claims.toml and domains.toml are told in one line that names the file."""

import shutil
from pathlib import Path

import pytest

from evidence.design_file import read_design

FOLDER = Path(__file__).parents[2] / "evidence"


@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        ("claims.toml", "smallest = 0.1", "smallest = ", "Invalid value (at line "),
        ("claims.toml", 'rule = "greater"', 'rule = "larger"', "'larger' is not a valid Rule"),
        ("claims.toml", 'rule = "greater"', "", "the claim 'quality-follows-cost' lacks rule"),
        (
            "claims.toml",
            'study = "aggregation"',
            'study = "agregation"',
            "the claim 'quantised-aggregation' has a study that is not defined: 'agregation'; "
            "did you mean 'aggregation'?",
        ),
        (
            "claims.toml",
            'than = ["match(CT, mixed)"]',
            'than = ["match(CT, mixt)"]',
            "the claim 'medium-beats-mixture' has a setting that its study on digit-graph does not have: "
            "'match(CT, mixt)'; did you mean 'match(CT, mixed)'?",
        ),
        (
            "claims.toml",
            'given = "early-damage-lasts"',
            'given = "early-damage"',
            "given in the claim 'restart-mends-half' is no claim: 'early-damage'; did you mean 'early-damage-lasts'?",
        ),
        (
            "claims.toml",
            'domains = ["graph"]',
            'domains = ["grap"]',
            "the claim 'graphs-tolerate-large' names a kind that no domain has: 'grap'; did you mean 'graph'?",
        ),
        (
            "domains.toml",
            "settles =",
            "setles =",
            "the domain 'digit-graph' has a key that is not known: 'setles'; did you mean 'settles'?",
        ),
        ("domains.toml", "judging = 100", "judged = 100", "lacks 'judging'"),
    ],
)
def test_a_mistake_names_the_file(tmp_path, file, old, new, error):
    for name in ("claims.toml", "domains.toml"):
        shutil.copy(FOLDER / name, tmp_path)
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^\S+: ") as told:
        read_design(tmp_path)
    assert str(told.value).startswith(f"{tmp_path / file}: {error}")
    assert "\n" not in str(told.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"^there is no .*claims\.toml: run this in the repository"):
        read_design(tmp_path)
