"""How much code of bitcycle a study executes (planning, storing and reporting the demo study), and a step of one layer.

    python -m benchmarks.walk

The study trains nothing: the store gets made-up results.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import typer

import bitcycle
from benchmarks.large_studies import made_up_result
from bitcycle.lab.studies.plan_file import read_plan
from bitcycle.lab.studies.reporting import report
from bitcycle.lab.studies.store import Store

PACKAGE = Path(bitcycle.__file__).parent
PLAN = Path(__file__).with_name("demo.toml")


def study() -> None:
    """Plan the demo study, put results into a store, and write the report."""
    plan = read_plan(PLAN)
    with TemporaryDirectory() as folder, Store(Path(folder, "studies.sqlite")) as store:
        store.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study benchmarks/demo.toml")
        for run in plan.runs():
            store.write(made_up_result(run))
        store.end(plan.name)
        report(store, plan.name, Path(folder, "report"))


def count(what: str, function: Callable[[], object]) -> None:
    """Count the calls of functions of bitcycle, and print how many there are."""
    function()  # imports modules, and decides what later calls repeat
    found: Counter[tuple[str, str]] = Counter()

    def observe(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            found[code.co_filename, code.co_qualname] += 1

    sys.setprofile(observe)
    try:
        function()
    finally:
        sys.setprofile(None)
    print(f"{what}: {found.total():,} calls of {len(found)} functions in {len({file for file, _ in found})} files")


def main() -> None:
    """Count the calls, functions and files of a step and of a study."""
    x, gradient = torch.randn(512, 256, requires_grad=True), torch.ones(512, 128)
    for execute in ("simulated", "integer"):
        layer = bitcycle.quantize(torch.nn.Linear(256, 128), execute=execute)
        bitcycle.set_bits(layer, forward=5, backward=8)
        count(f"a step of nn.Linear, {execute}", lambda layer=layer: layer(x).backward(gradient))
    count("the demo study", study)


if __name__ == "__main__":
    typer.run(main)
