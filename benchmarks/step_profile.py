"""Show where the time of a training step goes: the operations that take most of it, for two variants side by side.

    python benchmarks/step_profile.py resnet-20 "FP32" "integer, tensor" [--steps 5] [--rows 12]

Models and variants are those of `python -m benchmarks.speed`. Native kernels and Python code count as part of
`_QuantizedProduct` (forward) and `_QuantizedProductBackward`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.speed.variants import training_step


def milliseconds(step: Callable[[], None], steps: int) -> dict[str, float]:
    for _ in range(2):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    return {event.key: event.self_cpu_time_total / 1000 / steps for event in profiler.key_averages()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--steps", type=int, default=5, help="profiled steps; default: 5")
    parser.add_argument("--rows", type=int, default=12, help="operations to show; default: 12")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    times = [milliseconds(training_step(arguments.model, name, 7, 8), arguments.steps) for name in arguments.variants]
    names = sorted({name for each in times for name in each}, key=lambda name: -max(t.get(name, 0) for t in times))
    print("| operation |" + "".join(f" {name} |" for name in arguments.variants))
    print("|---|" + "---|" * len(times))
    for name in names[: arguments.rows]:
        print(f"| `{name}` |" + "".join(f" {each.get(name, 0):.1f} ms |" for each in times))
    print("| everything |" + "".join(f" {sum(each.values()):.1f} ms |" for each in times))


if __name__ == "__main__":
    main()
