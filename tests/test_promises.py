"""The page of promises and the list of laws: each names a test that exists, in the tier that the list says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("docs/promises.md", "tests/laws.md")


@cache
def slow_by_name(path):
    """Return the tests of a file, each with whether it is marked as slow, not only some of its parameters."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    whole = any(
        isinstance(node, ast.Assign) and "pytestmark = pytest.mark.slow" in ast.unparse(node) for node in tree.body
    )
    return {
        node.name: whole or any(ast.unparse(each) == "pytest.mark.slow" for each in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test_that_exists(page):
    text = (ROOT / page).read_text("utf-8")
    tables = [block for block in text.split("\n\n") if re.match(r"\| (promise|limit|law) \| test \|", block)]
    rows = [line for table in tables for line in table.splitlines()[2:]]
    assert len(rows) > 15
    for row in rows:
        path, name = re.search(r"`(tests/[\w/]+\.py)::(\w+)` \|$", row).groups()
        assert name in slow_by_name(path), row
        if page == "tests/laws.md":
            assert slow_by_name(path)[name] == ("(**slow**)" in row), row


@pytest.mark.parametrize("page", PAGES)
def test_no_test_is_named_that_does_not_exist(page):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / page).read_text("utf-8")):
        assert name in slow_by_name(path)
