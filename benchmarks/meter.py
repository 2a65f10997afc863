"""Measure how much a meter slows training down.

    python -m benchmarks.meter [--rounds 30]

Steps with and without a meter run in turns in one process, on one thread. Prints the median of the ratios of their
times, and the time of the meter itself.
"""

import torch
import torch.nn.functional as F
import typer

import bitcycle as bc
from benchmarks.speed.timing import Spread, ratio, time_in_turns
from bitcycle._cost import Meter
from bitcycle.lab.models.cifar_resnet import CifarResNet


def main(rounds: int = 30) -> None:
    """Measure how much a meter slows training down."""
    torch.set_num_threads(1)
    model = bc.quantize(CifarResNet(20))
    bc.set_bits(model, forward=4, backward=8)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    meter = Meter(model)

    def step() -> None:
        F.cross_entropy(model(x), y).backward()

    def step_without() -> None:
        meter.pause()
        step()
        meter.resume()

    step()  # with the extra pass that counts the products of this shape
    seconds = time_in_turns({"with": step, "without": step_without}, rounds)
    [calls] = time_in_turns({"meter": lambda: meter._before(model, (x,), {})}, 1, repeats=1000).values()
    slower, own = ratio(seconds["with"], seconds["without"]), Spread.of(calls).times(1e6)
    print(f"a step with a meter takes {slower.median:.3f} times as long as one without; the meter takes", end=" ")
    print(f"{own.median:.0f} us")


if __name__ == "__main__":
    typer.run(main)
