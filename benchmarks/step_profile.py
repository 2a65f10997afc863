"""Show where the time of a training step goes: the operations that take most of it, for some variants side by side.

    python -m benchmarks.step_profile resnet-20 "FP32" "integer, tensor" [--steps 5] [--rows 12]

Models and variants are those of `python -m benchmarks.speed`. Native kernels and Python code count as part of
`_QuantizedProduct` (forward) and `_QuantizedProductBackward`.
"""

import torch
import typer
from torch.profiler import ProfilerActivity, profile

from benchmarks.common import markdown_table
from benchmarks.speed.variants import training_step


def milliseconds(model: str, variant: str, steps: int) -> dict[str, float]:
    step = training_step(model, variant, 7, 8)
    for _ in range(2):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    return {event.key: event.self_cpu_time_total / 1000 / steps for event in profiler.key_averages()}


def main(model: str, variants: list[str], steps: int = 5, rows: int = 12) -> None:
    """Print the operations that take most of the time of a training step."""
    torch.set_num_threads(1)
    times = [milliseconds(model, variant, steps) for variant in variants]
    names = sorted({name for each in times for name in each}, key=lambda name: -max(t.get(name, 0) for t in times))
    lines = [[f"`{name}`", *(f"{each.get(name, 0):.1f} ms" for each in times)] for name in names[:rows]]
    total = ["everything", *(f"{sum(each.values()):.1f} ms" for each in times)]
    print(markdown_table(["operation", *variants], [*lines, total]))


if __name__ == "__main__":
    typer.run(main)
