"""The short form of the chaos runs: kills, faults at writes, a full disk, damaged files, two studies at once."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.chaos
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the studies run in forked processes")
def test_disturbed_studies_end_as_undisturbed_ones():
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--faults", "12", "--first", "703", "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 faults" in done.stdout
    assert ": 0 broken" in done.stdout
