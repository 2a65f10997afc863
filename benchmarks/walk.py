"""How much code a study executes: the files and functions of bitcycle that plan, store and report the demo study.

    python -m benchmarks.walk [--files]

Nothing is trained: the store gets made-up results. Code that runs while a module is imported is not counted.
"""

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import bitcycle
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.studies.plan_file import read_plan
from bitcycle.lab.studies.reporting import report
from bitcycle.lab.studies.store import Store

PACKAGE = Path(bitcycle.__file__).parent
PLAN = Path(__file__).with_name("demo.toml")


def walk(folder):
    """Plan the demo study, put results into a store, and write the report."""
    plan = read_plan(PLAN)
    with Store(folder / "studies.sqlite") as store:
        store.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study benchmarks/demo.toml")
        for run in plan.runs():
            store.write(made_up_result(run))
        store.end(plan.name)
        report(store, plan.name, folder / "report")


def made_up_result(run):
    """A result whose quality grows with the mean bits of the schedule."""
    bits = [min(8, width or 8) for width in bitcycle.schedule(run.schedule).over(run.steps).tolist()]
    quality = 0.8 + 0.02 * sum(bits) / run.steps + random.Random(run.name).gauss(0, 0.01)
    curve = [
        {"step": step + 1, "bits": float(bits[step]), "loss": 60 / (step + 20), "validation": quality}
        for step in range(9, run.steps, 10)
    ]
    cost = 10**9 * sum(width**2 for width in bits)
    return RunResult(run, "accuracy", True, quality, quality, run.steps, cost, 1.0, curve=curve)


def executed(function, *arguments):
    """Call a function and return the names of the functions of bitcycle that it executes, by file."""
    found = set()
    importing = 0

    def observe(frame, event, _):
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and code.co_filename.startswith(str(PACKAGE)):
            found.add((code.co_filename, code.co_qualname))

    sys.setprofile(observe)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="list the files, with the functions executed in each")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = executed(walk, Path(folder))
    files = Counter(str(Path(file).relative_to(PACKAGE)) for file, _ in found)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "bitcycle"]
    print(f"{len(files)} files, {len(found)} functions; {len(loaded)} modules are loaded")
    if options.files:
        for file, count in sorted(files.items()):
            print(f"{count:5} {file}")


if __name__ == "__main__":
    main()
