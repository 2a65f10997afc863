import json
import subprocess
import sys

import pytest

from tests.support.command import bitcycle


def test_the_table_of_the_ten():
    done = bitcycle("schedules", "--bits", "3", "8", "--cycles", "8", "--steps", "64000", "--backward-bits", "8")
    assert done.returncode == 0, done.stderr
    for name, saving in {"RR": "60.1 %", "CR": "36.7 %", "ETH": "17.8 %"}.items():
        assert any(f"{name}:3-8" in line and saving in line for line in done.stdout.splitlines())


def test_json_for_programs():
    done = bitcycle("schedules", "--json", "CR", "delay(0.1, RTH:4-8)", "full", "--bits", "3", "6")
    rows = json.loads(done.stdout)
    assert [row["schedule"] for row in rows] == ["CR:3-6:cycles=8", "delay(0.1, RTH:4-8:cycles=8)", "full"]
    assert rows[0]["saving"] == pytest.approx(0.300, abs=0.001)
    assert rows[2]["group"] is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path, suffix):
    file = tmp_path / f"ten.{suffix}"
    done = bitcycle("schedules", "--plot", str(file))
    assert done.returncode == 0, done.stderr
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"</svg>" in content


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["CX"], "unknown schedule 'CX'"),
        (["--cycles", "3"], "even number of cycles"),
        (["--bits", "8", "3"], "above q_max"),
        (["--steps", "0"], "1 or more"),
        (["--plot", "ten.jpg"], "a .png or .svg file"),
        (["--plot", "/dev/null/ten.png"], "File exists"),
        (["--backward-bits", "0"], "backward_bits must be 1 or more"),
    ],
)
def test_errors_are_one_line(arguments, told):
    done = bitcycle("schedules", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["schedules"], ["--version"]])
def test_no_torch_for_quick_answers(arguments):
    code = (
        f"import sys; sys.argv = ['bitcycle', *{arguments!r}]\n"
        "from bitcycle.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'torch' not in sys.modules and 'vl_convert' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
