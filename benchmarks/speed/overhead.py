"""What does not depend on the size of tensors: setting bits, steps of the scheduler, a summary, a meter, start-up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch
from torch import nn

from benchmarks.speed.timing import Call, Spread, time_in_turns
from bitcycle._cost import Meter
from bitcycle.conversion.convert import quantize, set_bits
from bitcycle.conversion.model_summary import summary
from bitcycle.lab.models.cifar_resnet import CifarResNet
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules import schedule

SITES, QUICK_SITES = 2000, 20
WARM_UP = 1


@dataclass(frozen=True)
class Overhead:
    """The time of something that is done once, or once a step."""

    what: str
    seconds: Spread


def time_bits(rounds: int, quick: bool) -> list[Overhead]:
    """Time what changes or shows the bits of a model with many sites."""
    sites = QUICK_SITES if quick else SITES
    model, constant = (quantize(nn.Sequential(*(nn.Linear(1, 1) for _ in range(sites)))) for _ in range(2))
    widths, x = cycle((3, 4)), torch.randn(2, 1)
    steps = WARM_UP + rounds + 1
    alternating = schedule(lambda step, total: 3 + step % 2, name="alternating")
    scheduler = PrecisionScheduler(model, alternating, steps, backward_bits=8)
    static = PrecisionScheduler(constant, "static:7", steps, backward_bits=8)
    resnet, images = quantize(CifarResNet(20)), torch.randn(32, 3, 8 if quick else 32, 8 if quick else 32)
    meter = Meter(resnet)
    resnet(images)  # with the extra pass that counts the products of this shape
    return _timed(
        {
            f"set_bits, {sites:,} sites": lambda: set_bits(model, forward=next(widths), backward=8),
            f"scheduler step, {sites:,} sites, new bits": scheduler.step,
            f"scheduler step, {sites:,} sites, same bits": static.step,
            f"summary with inputs, {sites:,} sites": lambda: str(summary(constant, x)),
            "meter, ResNet-20": lambda: meter._before(resnet, (images,), {}),
        },
        rounds,
    )


def time_start_up(rounds: int) -> list[Overhead]:
    """Time new processes."""
    commands = {
        "start of Python": ("-c", "pass"),
        "import bitcycle": ("-c", "import bitcycle"),
        "bitcycle --help": ("-m", "bitcycle", "--help"),
    }
    run = partial(subprocess.run, stdout=subprocess.DEVNULL, check=True)
    return _timed({what: partial(run, [sys.executable, *words]) for what, words in commands.items()}, rounds)


def _timed(calls: Mapping[str, Call], rounds: int) -> list[Overhead]:
    return [Overhead(what, Spread.of(times)) for what, times in time_in_turns(calls, rounds, WARM_UP).items()]
