"""What does not depend on the size of tensors: setting bits, a step of the scheduler, starting up."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from itertools import cycle

from torch import nn

from benchmarks.speed.timing import Call, Spread, time_in_turns
from bitcycle.conversion.convert import quantize, set_bits
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules import schedule

SITES = 2000
QUICK_SITES = 20
WARM_UP = 2


@dataclass(frozen=True)
class Overhead:
    """The time of something that is done once, or once a step."""

    what: str
    seconds: Spread


def time_bits(sites: int, rounds: int) -> list[Overhead]:
    """Time what changes the bits of a model with this number of sites."""
    model = quantize(nn.Sequential(*(nn.Linear(1, 1) for _ in range(sites))))
    widths = cycle((3, 4))
    steps = WARM_UP + rounds + 1
    alternating = schedule(lambda step, total: 3 + step % 2, name="alternating")
    scheduler = PrecisionScheduler(model, alternating, steps, backward_bits=8)
    constant = quantize(nn.Sequential(*(nn.Linear(1, 1) for _ in range(sites))))
    static = PrecisionScheduler(constant, "static:7", steps, backward_bits=8)
    calls: dict[str, Call] = {
        f"set_bits, {sites:,} sites": lambda: set_bits(model, forward=next(widths), backward=8),
        f"scheduler step, {sites:,} sites, new bits": scheduler.step,
        f"scheduler step, {sites:,} sites, same bits": static.step,
    }
    return [Overhead(what, Spread.of(times)) for what, times in time_in_turns(calls, rounds, WARM_UP).items()]


def time_start_up(rounds: int) -> list[Overhead]:
    """Time new processes."""
    commands = {
        "start of Python": ("-c", "pass"),
        "import bitcycle": ("-c", "import bitcycle"),
        "bitcycle --help": ("-m", "bitcycle", "--help"),
    }
    calls: dict[str, Call] = {what: _process(arguments) for what, arguments in commands.items()}
    return [Overhead(what, Spread.of(times)) for what, times in time_in_turns(calls, rounds, warm_up=1).items()]


def _process(arguments: tuple[str, ...]) -> Call:
    return lambda: subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
