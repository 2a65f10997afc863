"""What the package claims is what the tests run with."""

import re
import sys
import tomllib
from pathlib import Path

import bitcycle

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TESTED = dict(
    re.findall(r"^([\w.-]+)==(\d+\.\d+)", (ROOT / "constraints.txt").read_text("utf-8").replace("_", "-"), re.MULTILINE)
)


def test_the_lowest_versions_claimed_are_the_versions_tested():
    requirements = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    claimed = dict(match.groups() for each in requirements if (match := re.fullmatch(r"([\w.-]+)>=(\d+\.\d+)", each)))
    assert len(claimed) > 15
    for name, version in claimed.items():
        assert TESTED[name.replace("_", "-")] == version, name


def test_the_python_version_claimed_is_the_one_tested():
    claimed = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if each.startswith("Programming Language")]
    assert claimed == [f"{sys.version_info.major}.{sys.version_info.minor}"]
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_the_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == bitcycle.__version__
