"""The cost of schedules on grids that lack some of their widths, and the rates of devices for their formats."""

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle._cost.devices import DEVICES
from bitcycle._cost.model_cost import Cost, Row

ROW = Row("fc", "Linear", "Linear", 10, 10, 10, quantized=True)


def test_the_widths_that_run_are_counted():
    """CR:3-8 on mx: 3 and 4 bits run as 4, 5 and 6 as 6, 7 and 8 as 8."""
    steps, widths = 40, [bc.schedule("CR:3-8:cycles=2")(step, 40) for step in range(40)]
    ran = [4 if bits <= 4 else 6 if bits <= 6 else 8 for bits in widths]
    expected = sum(10 * q * q + 20 * 8 * q for q in ran)
    on_mx = Cost((ROW,), grid="mx")
    assert on_mx.training("CR:3-8:cycles=2", steps, 8) == expected
    assert on_mx.saving("CR:3-8:cycles=2", steps, 8) == 1 - expected / (steps * 30 * 64)
    assert on_mx.where("fc").training("CR:3-8:cycles=2", steps, 8) == expected
    with pytest.raises(ValueError, match="4 or 6 or 8 on the grid 'mx'"):
        on_mx.training("CR:3-12:cycles=2", steps)


@pytest.mark.parametrize(
    ("device", "grid", "ratio"),
    [
        ("b200", "mx", 0.5), ("b200", "nvfp4", 0.5), ("b200", "float", 0.5), ("b200", "integer", 1.0),
        ("mi355x", "mx", 0.5), ("mi355x", "nvfp4", 2.0), ("h100", "float", 1.0), ("h100", "nvfp4", 2.0),
        ("h100", "mx", 1.0), ("a100", "integer", 0.5), ("a100", "symmetric", 0.5), ("a100", "mx", 1.0),
        ("t4", "float", 1.0),
    ],
)  # fmt: skip
def test_four_bits_against_eight_by_hand(device, grid, ratio):
    """The time of 4 bits over that of 8: from the rates of the device, or 16 bits where a format is missing."""
    chosen = DEVICES[device]
    assert chosen.time(100, 4, 4, grid) / chosen.time(100, 8, 8, grid) == pytest.approx(ratio, rel=0.02)
    assert Cost((ROW,), grid=grid).time_ratio("static:4", 10, 4, device) == 1


def test_every_device_names_its_source():
    assert {"a100", "h100", "b200", "mi355x"} <= DEVICES.keys()
    assert all(device.source for device in DEVICES.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "static:5"}, "weights must be 4 or 6 or 8 on the grid 'mx'.*, got 5"),
        ({"schedule": "static:4", "activations": 7}, "activations must be 4 or 6 or 8 on the grid 'mx'.*, got 7"),
        ({"schedule": "static:4", "backward_bits": 5}, "backward_bits must be 4 or 6 or 8 on the grid 'mx'.*, got 5"),
        ({"schedule": "CR:3-9"}, "the largest of weights must be 4 or 6 or 8 on the grid 'mx'.*, got 9"),
    ],
)
def test_widths_that_the_grid_lacks_are_refused_as_in_training(settings, message):
    model = bc.quantize(nn.Linear(64, 32), bc.Recipe(grid="mx"))
    counted = bc.cost(model, torch.zeros(2, 64))
    for count in (counted.training, counted.saving, counted.time_ratio):
        with pytest.raises(ValueError, match=message):
            count(steps=10, **settings)
    with pytest.raises(ValueError, match=message):
        bc.PrecisionScheduler(model, total_steps=10, **settings)


def test_a_schedule_that_moves_between_the_widths_of_a_grid_is_compared_with_the_width_that_would_run():
    counted = bc.cost(bc.quantize(nn.Linear(64, 32), bc.Recipe(grid="mx")), torch.zeros(2, 64))
    spent, static = counted.training("CR:3-7", 100), counted.training("static:8", 100)
    assert counted.saving("CR:3-7", steps=100) == pytest.approx(1 - spent / static)
