"""How much code of bitcycle a study executes (planning, storing and reporting the demo study), and a step of one layer.

    python -m benchmarks.walk

The study trains nothing: the store gets made-up results. Code that runs while a module is imported is not counted.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import typer

import bitcycle
from benchmarks.large_studies import made_up_result
from bitcycle.lab.studies.plan_file import read_plan
from bitcycle.lab.studies.reporting import report
from bitcycle.lab.studies.store import Store

PACKAGE = Path(bitcycle.__file__).parent
PLAN = Path(__file__).with_name("demo.toml")


def walk(folder: Path) -> None:
    """Plan the demo study, put results into a store, and write the report."""
    plan = read_plan(PLAN)
    with Store(folder / "studies.sqlite") as store:
        store.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study benchmarks/demo.toml")
        for run in plan.runs():
            store.write(made_up_result(run))
        store.end(plan.name)
        report(store, plan.name, folder / "report")


def step(layer: torch.nn.Module, x: torch.Tensor) -> None:
    """Run a layer forward and backward."""
    layer(x).backward(torch.ones(512, 128))


def executed(function: Callable[..., Any], *arguments: Any) -> Counter[tuple[str, str]]:
    """Call a function and return how often functions of bitcycle run, by their files and names."""
    found: Counter[tuple[str, str]] = Counter()
    importing = 0

    def observe(frame, event, _):
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and code.co_filename.startswith(str(PACKAGE)):
            found[code.co_filename, code.co_qualname] += 1

    sys.setprofile(observe)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return found


def report_on(what: str, calls: Counter[tuple[str, str]]) -> None:
    """Print how much code ran."""
    print(f"{what}: {calls.total():,} calls of {len(calls)} functions in {len({file for file, _ in calls})} files")


def main() -> None:
    """Count the calls, functions and files of a step and of a study."""
    for execute in ("simulated", "integer"):
        layer, x = torch.nn.Linear(256, 128), torch.randn(512, 256, requires_grad=True)
        bitcycle.quantize(layer, execute=execute)
        bitcycle.set_bits(layer, forward=5, backward=8)
        step(layer, x)  # decides what the next steps repeat
        report_on(f"a step of nn.Linear, {execute}", executed(step, layer, x))
    with TemporaryDirectory() as folder:
        report_on("the demo study", executed(walk, Path(folder)))


if __name__ == "__main__":
    typer.run(main)
