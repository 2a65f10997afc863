"""The page of promises: each promise has a test, and the test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8")


def test_every_promise_names_a_test_that_exists():
    tables = [block for block in PAGE.split("\n\n") if re.match(r"\| (promise|limit) \| test \|", block)]
    rows = [line for table in tables for line in table.splitlines()[2:]]
    assert len(rows) > 15
    for row in rows:
        path, name = re.search(r"`(tests/[\w/]+\.py)::(\w+)` \|$", row).groups()
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), row


def test_no_test_is_named_that_does_not_exist():
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE):
        assert f"def {name}(" in (ROOT / path).read_text("utf-8")
