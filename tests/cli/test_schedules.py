import json

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


def test_a_combination_costs_what_a_hand_computation_says():
    done = bitcycle("schedules", "static:4", "--activations", "8", "--backward-bits", "6", "--json")
    [row] = json.loads(done.stdout)
    assert row["schedule"] == "W static:4 A static:8"
    # w a + g w + g a, against static 8 with the same gradients
    assert row["saving"] == pytest.approx(1 - (4 * 8 + 6 * 4 + 6 * 8) / (8 * 8 + 6 * 8 + 6 * 8))
    assert (row["mean_bits_weights"], row["mean_bits_activations"], row["mean_bits_gradients"]) == (4, 8, 6)
    assert (row["mean_bits"], row["mean_strength"]) == (6, 1)


def test_everything_that_moves_over_time_by_hand():
    moves = [
        "--weights",
        "join(static:2, 0.5, full)",
        "--activations",
        "4",
        "--backward-bits",
        "join(static:8, 0.25, static:6)",
    ]
    done = bitcycle("schedules", "static:8", *moves, "--strength", "join(0.5, 0.25, 1)", "--steps", "100", "--json")
    [row] = json.loads(done.stdout)
    # a quarter at strength 0.5, which counts as 32 x 32; a quarter at W2 A4 G6; half at W32 A4 G6
    spent = 25 * (32 * 32 + 2 * 8 * 32) + 25 * (2 * 4 + 6 * 2 + 6 * 4) + 50 * (32 * 4 + 6 * 32 + 6 * 4)
    assert row["saving"] == pytest.approx(1 - spent / (100 * (4 * 4 + 2 * 8 * 4)))
    assert row["mean_strength"] == pytest.approx(0.875)
    assert row["mean_bits_weights"] == 17


def test_the_table_of_a_combination():
    done = bitcycle("schedules", "static:4", "--activations", "8", "--strength", "0.5")
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("weights (W)", "strength", "4.00", "8.00", "0.50"))
    assert "(W)" not in bitcycle("schedules", "static:4").stdout


@pytest.mark.slow
def test_the_plot_of_a_combination_has_a_panel_per_operand(tmp_path):
    file = tmp_path / "moves.svg"
    moves = ["--activations", "join(full, 0.25, static:8)", "--strength", "linear-rise"]
    assert bitcycle("schedules", "static:4", *moves, "--plot", str(file)).returncode == 0
    drawn = file.read_text()
    for word in ("weights: static:4", "activations: join(", "gradients: ", "strength: linear-rise"):
        assert word in drawn
    bitcycle("schedules", "static:4", "--plot", str(file))
    assert "gradients: " not in file.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path, suffix):
    file = tmp_path / f"ten.{suffix}"
    done = bitcycle("schedules", "--plot", str(file))
    assert done.returncode == 0, done.stderr
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"</svg>" in content
