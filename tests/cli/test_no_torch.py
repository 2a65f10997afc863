"""Help and what needs no tensors answer without loading torch or any of the extras."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "line",
    ["--help", "--version", "schedules", "advise --help", "advise --save 30", "data list", "data get --help"],
)
def test_no_torch_for_quick_answers(line):
    code = (
        f"import sys; sys.argv = ['bitcycle', *{line.split()!r}]\n"
        "from bitcycle.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'torch', 'scipy', 'vl_convert', 'requests'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
