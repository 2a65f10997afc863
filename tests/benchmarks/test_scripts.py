"""The scripts whose figures the documentation quotes can be run as it says."""

import re
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if "typer.run(main)" in path.read_text())
QUOTED = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_the_options_that_it_names(name):
    script = import_module(f"benchmarks.{name}")
    assert f"python -m benchmarks.{name}" in script.__doc__
    named = {option.replace("-", "_") for option in re.findall(r"--([a-z][a-z-]*)", script.__doc__.split("\n\n")[1])}
    assert named - {"no_deps"} <= signature(script.main).parameters.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_quoted(name):
    assert f"python -m benchmarks.{name}" in QUOTED


def test_a_quoted_script_exists():
    assert set(re.findall(r"python -m benchmarks\.(\w+)", QUOTED)) <= {*SCRIPTS, "speed", "pictures"}
