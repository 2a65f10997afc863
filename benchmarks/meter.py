"""Measure how much a meter slows training down.

    python benchmarks/meter.py [--rounds 30]

Steps with and without a meter alternate in one process, on one thread. Prints the ratio of the median times, and the
time of the meter itself.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import bitcycle as bc
from bitcycle._cost import Meter
from bitcycle.lab.models.cifar_resnet import CifarResNet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="timed steps of each kind; default: 30")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    model = bc.quantize(CifarResNet(20))
    bc.set_bits(model, forward=4, backward=8)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    meter = Meter(model)
    F.cross_entropy(model(x), y)  # the extra pass that counts the products of this shape
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(rounds):
        for kind in seconds:
            if kind == "without":
                meter.pause()
            start = time.perf_counter()
            F.cross_entropy(model(x), y).backward()
            seconds[kind].append(time.perf_counter() - start)
            meter.resume()
    ratio = statistics.median(seconds["with"]) / statistics.median(seconds["without"])
    start = time.perf_counter()
    for _ in range(1000):
        meter._before(model, (x,), {})
    microseconds = 1000 * (time.perf_counter() - start)  # seconds per 1000 calls
    print(f"a step with a meter takes {ratio:.3f} times as long as one without; the meter takes {microseconds:.0f} us")


if __name__ == "__main__":
    main()
