import json
import types

import pytest

from bitcycle.cli.range_test import _next_step
from tests.support.command import bitcycle


@pytest.mark.slow
def test_evidence_result_and_how_to_go_on(tmp_path):
    file = tmp_path / "range.png"
    done = bitcycle(
        "range-test", "graph", "--levels", "2", "4", "--iterations", "20", "--seeds", "2", "--plot", str(file)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("graph: 2 seeds of 20 iterations at each width")
    assert "Every level works: 2 bits keep" in done.stdout
    assert "Use --bits 2 4, as in 'bitcycle train graph --bits 2 4'" in done.stdout
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_json_for_programs():
    done = bitcycle("range-test", "graph", "--levels", "3", "3", "--iterations", "20", "--seeds", "1", "--json")
    test = json.loads(done.stdout)
    assert test["q_min"] == 3
    assert [row["bits"] for row in test["evidence"]] == [3]
    assert len(test["evidence"][0]["curves"][0]) == 20
    assert test["reference"]["interval"] == [1.0, 1.0]


def test_the_next_step_is_a_command_that_exists():
    """Advice knows the domains of the built-in tasks, not a task of the user."""
    found = types.SimpleNamespace(q_min=3)
    assert "'bitcycle advise --domain image --bits 3 8'" in _next_step(found, "image", 8)
    assert "'bitcycle advise --bits 3 8'" in _next_step(found, "my_task.py:MyTask", 8)
