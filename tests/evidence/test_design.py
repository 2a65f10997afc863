"""Mistakes in claims.toml and domains.toml give one line that names the file."""

import shutil
from pathlib import Path

import pytest

from evidence.design import read_design

FOLDER = Path(__file__).parents[2] / "evidence"


@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        ("claims.toml", "smallest = 0.1", "smallest = ", "Invalid value (at line "),
        ("claims.toml", 'rule = "greater"', 'rule = "larger"', "'larger' is not a valid Rule"),
        ("claims.toml", 'rule = "greater"', "", "Claim.__init__() missing 1 required positional argument: 'rule'"),
        (
            "claims.toml",
            'study = "aggregation"',
            'study = "agregation"',
            "the study of quantised-aggregation does not exist: 'agregation'; did you mean 'aggregation'?",
        ),
        ("domains.toml", "settles =", "setles =", "Domain.__init__() got an unexpected keyword argument 'setles'"),
        ("domains.toml", 'gap_of = "digits"', 'gap_of = "digit"', "there is no domain 'digit'; did you mean 'digits'?"),
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


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"^there is no .*claims\.toml: run this in the repository"):
        read_design(Path("nowhere"))
