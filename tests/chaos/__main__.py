"""Disturb studies and check that they end as undisturbed ones: ``python -m tests.chaos --faults 1000 --seed 0``.

Every choice follows from the seed and the number of the fault, so a series can be continued with ``--first``, and one
fault can be repeated with ``--first N --faults 1``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

MARK = "BITCYCLE_CHAOS_FAULTS"  # set in the process that has the library


def main() -> int:
    """Play the episodes and print what was done; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, help="how many episodes")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bitcycle-chaos-") as folder:
        if MARK not in os.environ:
            return _with_library(Path(folder))
        return _play(Path(folder), options)


def _with_library(folder: Path) -> int:
    """Start this program again with ``faults.c`` loaded before all other libraries."""
    environment = {**os.environ, MARK: "", "OMP_NUM_THREADS": "1"}
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler and sys.platform == "linux":
        library, source = folder / "faults.so", Path(__file__).with_name("faults.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        environment |= {MARK: str(library), "LD_PRELOAD": str(library)}
    else:
        print("no C compiler: no faults at single writes, more kills instead", flush=True)
    return subprocess.run([sys.executable, "-m", "tests.chaos", *sys.argv[1:]], env=environment, check=False).returncode


def _play(folder: Path, options: argparse.Namespace) -> int:
    import warnings

    warnings.simplefilter("ignore")
    import torch

    from bitcycle.lab.runs import training  # noqa: F401  # loaded once, before the children are forked
    from tests.chaos.episodes import Chaos, warm_up

    torch.set_num_threads(1)
    warm_up()
    library = os.environ[MARK]
    began = time.monotonic()
    chaos = Chaos(folder, options.seed, Path(library) if library else None)
    print(f"an undisturbed study takes {chaos.duration:.1f} s and {chaos.writes} writes", flush=True)
    played, broken = Counter[str](), 0
    for number, (kind, episode) in enumerate(islice(chaos.episodes(), options.first + options.faults)):
        if number < options.first:
            continue
        played[kind] += 1
        try:
            print(f"{number}: {chaos.play(number, kind, episode)}", flush=True)
        except AssertionError as error:
            broken += 1
            print(f"{number}: BROKEN: {error}", flush=True)
    kinds = ", ".join(f"{count} {kind}" for kind, count in played.most_common())
    minutes = (time.monotonic() - began) / 60
    print(f"{played.total()} faults ({kinds}) in {minutes:.1f} min, seed {options.seed}: {broken} broken", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
