"""How much code a study executes: the files and functions of bitcycle that plan, store and report the demo study.

    python -m benchmarks.walk

Nothing is trained: the store gets made-up results. Code that runs while a module is imported is not counted.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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


def executed(function: Callable[..., Any], *arguments: Any) -> set[tuple[str, str]]:
    """Call a function and return the names of the functions of bitcycle that it executes, with their files."""
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


def main() -> None:
    """Count the files and functions that a study executes, and list the files."""
    with TemporaryDirectory() as folder:
        found = executed(walk, Path(folder))
    by_file = Counter(str(Path(file).relative_to(PACKAGE)) for file, _ in found)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "bitcycle"]
    print(f"{len(by_file)} files, {len(found)} functions; {len(loaded)} modules are loaded")
    for file, count in sorted(by_file.items()):
        print(f"{count:5} {file}")


if __name__ == "__main__":
    typer.run(main)
