"""Where the official data sets are, for the tests that read them."""

import os
from pathlib import Path

import pytest


def official(name):
    """The folder of a data set; the test is skipped where there is none."""
    root = os.environ.get("BITCYCLE_DATA")
    if not root:
        pytest.skip("BITCYCLE_DATA is not set: it names the folder with the official data sets")
    folder = Path(root, name)
    if not folder.is_dir():
        pytest.skip(f"the folder that BITCYCLE_DATA names has no {name}")
    return folder
