"""The scripts whose figures the documentation quotes can be run as it says."""

import re
from importlib import import_module
from inspect import signature

import pytest

from tests.docs.pages import PAGES, ROOT

SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if "typer.run(main)" in path.read_text())
QUOTED = set(re.findall(r"python -m benchmarks\.(\w+)", "\n".join(page.read_text("utf-8") for page in PAGES)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_the_options_that_it_names(name):
    script = import_module(f"benchmarks.{name}")
    assert f"python -m benchmarks.{name}" in script.__doc__
    named = {option.replace("-", "_") for option in re.findall(r"--([a-z][a-z-]*)", script.__doc__.split("\n\n")[1])}
    assert named <= signature(script.main).parameters.keys()


def test_the_quoted_scripts_are_those_that_exist():
    assert {*SCRIPTS, "speed"} == QUOTED
