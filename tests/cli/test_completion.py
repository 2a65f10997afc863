"""Shell completion knows names, and answers without torch."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def completed(*words):
    """What bash is offered for the last word."""
    script = (
        "import sys; sys.argv = ['bitcycle']\n"
        "from bitcycle.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules\n"
    )
    environment = {
        **os.environ,
        "_BITCYCLE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("bitcycle", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert "Error" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("train", "im"), ["image"]),
        (("train", "image", "--schedule", "RT"), ["RTH", "RTV"]),
        (("study", "image", "--schedules", "base"), ["baselines"]),
        (("study", "image", "--engine", "r"), ["ray"]),
        (("train", "graph", "--model", "g"), ["gcn", "gat"]),
        (("data", "get", "cifar"), ["cifar10", "cifar100"]),
        (("deficit", "image", "--recovery", "w"), ["whole"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_names(words, names):
    assert completed(*words) == names
