"""What the package claims is what the tests run with."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bitcycle

pytestmark = pytest.mark.slow

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


def test_installation_without_a_compiler(tmp_path):
    """It succeeds, and the torch operations do the work of the native kernels."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    environment = {name: value for name, value in os.environ.items() if name != "BITCYCLE_KERNELS"}
    environment |= {"CC": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", target]
    command = [sys.executable, "-m", "pip", "install", *options, source]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(target.rglob("*.so"))
    assert {path.name for path in target.iterdir()} == {"bitcycle", "bin", f"bitcycle-{bitcycle.__version__}.dist-info"}
    shipped = {path.relative_to(target / "bitcycle").parts[0] for path in (target / "bitcycle").rglob("*.py")}
    assert not shipped & {"evidence", "benchmarks", "_evidence", "_bench"}, "judging the paper is not in the wheel"
    code = (
        "import bitcycle, torch\n"
        "from bitcycle.kernels import native\n"
        "from bitcycle.kernels.rounding import round_to_grid\n"
        "print(bitcycle.__file__, native.current_kernels(), round_to_grid(torch.tensor([0.0, 0.7, 3.0]), 2).tolist())"
    )
    environment["PYTHONPATH"] = str(target)
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert output.split(maxsplit=2) == [str(target / "bitcycle" / "__init__.py"), "reference", "[0.0, 1.0, 3.0]\n"]
    version = subprocess.run(
        [sys.executable, "-m", "bitcycle", "--version"], env=environment, cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert version.splitlines()[1] == "native kernels: not installed (no C compiler was found)"
