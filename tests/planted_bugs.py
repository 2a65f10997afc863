"""Plant small bugs, one at a time, and see whether the fast tier of the tests catches them.

    python -m tests.planted_bugs              # every bug: its doctests and nearest tests, then the fast tier
    python -m tests.planted_bugs --nearest    # the nearest tests alone
    python -m tests.planted_bugs --only noise # bugs whose file or text has the word
    python -m tests.planted_bugs --check      # run nothing: list the bugs whose place in the code is gone

A bug changes one operator, constant or branch in a copy of the repository. One that the fast tier does not catch says
why in ``slips``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Bug:
    """A change of one place in the code."""

    path: str
    """The file, below ``src/bitcycle``."""
    before: str
    """The text that is changed. Spaces also stand for line breaks, so that formatting does not matter."""
    after: str
    nearest: str
    """The tests that run first, below ``tests``."""
    slips: str = ""
    """Why the fast tier does not catch it, if it does not."""

    def planted(self, text: str) -> str:
        """Return the text of the file with the bug."""
        places = list(re.finditer(r"\s+".join(map(re.escape, self.before.split())), text))
        if len(places) != 1:
            raise ValueError(f"{self.path} has {len(places)} places like {self.before!r} instead of one")
        return text[: places[0].start()] + self.after + text[places[0].end() :]


BUGS = (
    # Numbers: grids, rounding, noise, products.
    Bug("kernels/rounding.py", "return 2 ** (bits - sign) - 1", "return 2 ** (bits - sign)", "kernels"),
    Bug("kernels/rounding.py", "return codes.round_()", "return codes.floor_()", "kernels"),
    Bug("kernels/rounding.py", "torch.where(has_a_grid(scale, bits), values, x)", "values", "kernels"),
    Bug("kernels/rounding.py", "torch.maximum(-low, high)", "torch.maximum(low, high)", "grids"),
    Bug("kernels/noise.py", "state ^= state >> 31", "state ^= state >> 30", "kernels"),
    Bug("kernels/noise.py", "get_rank()) > 0", "get_rank()) >= 0", "kernels"),
    Bug("kernels/convolutions.py", "(at % apart == 0) & ", "", "kernels"),
    Bug("grids/nvfp4.py", "block = 16", "block = 32", "grids"),
    Bug("grids/mx.py", "Scaling.POWERS_OF_TWO", "Scaling.TO_LARGEST", "grids"),
    Bug("grids/symmetric.py", "range(2, MAX_BITS + 1)", "range(1, MAX_BITS + 1)", "grids"),
    Bug("arithmetic/precision.py", "else self.activations", "else self.weights", "arithmetic"),
    Bug("arithmetic/precision.py", "x + strength * (rounded - x) return", "rounded\n    return", "arithmetic"),
    Bug("arithmetic/grad_output.py", "numbers[DRAWS] = draw + 1", "numbers[DRAWS] = draw", "arithmetic"),
    Bug("arithmetic/products.py", "b if self.transpose_b else b.mT)", "b.mT)", "nn/test_contract.py"),
    Bug("arithmetic/products.py", "return a.numel() * b[0]", "return a.numel() * b[1]", "cost"),
    Bug("arithmetic/products.py", "(a if self.transposed else out).numel()", "out.numel()", "cost"),
    Bug("arithmetic/backends/integer_cpu/convolution.py", "- d * (k - 1) - 1", "- d * k - 1", "arithmetic"),
    Bug("arithmetic/operands.py", "starts_near_zero, 0.0, half)", "starts_near_zero, half, 0.0)", "arithmetic"),
    Bug("nn/attention.py", "1 / math.sqrt(self.head_dim)", "1 / self.head_dim", "nn/test_contract.py"),
    Bug("nn/attention.py", "isneginf().all(-1, keepdim=True)", "isneginf().any(-1, keepdim=True)", "nn"),
    Bug("nn/interception.py", "if not isinstance(mode, Interceptor)", "if isinstance(mode, Interceptor)", "nn"),
    # Conversion, the scheduler, schedules.
    Bug("conversion/convert.py", "weights = activations = check_width", "weights = check_width", "conversion"),
    Bug("conversion/convert.py", "restore(model) raise", "raise", "conversion"),
    Bug("conversion/snapshot.py", "tensor.copy_(value)", "pass", "cost"),
    Bug("scheduler.py", "(self.current_step + 1)", "(self.current_step + 2)", "test_scheduler.py"),
    Bug("scheduler.py", "evaluate_weights=self._evaluation[0]", "evaluate_weights=now.weights", "test_operands.py"),
    Bug("schedules/cyclic.py", "g(np.where(k % 2 == 1,", "g(np.where(k % 2 == 0,", "schedules"),
    Bug("schedules/cyclic.py", "(steps * self.cycles, total)", "(steps * self.cycles, total + 1)", "schedules"),
    Bug("schedules/cyclic.py", "g(1 - z),", "1 - g(z),", "schedules"),
    Bug("lab/studies/matching.py", "Control.HIGH_LOW: rest", "Control.HIGH_LOW: 0", "lab/studies/test_matching.py"),
    # The laboratory: runs, studies, statistics.
    Bug("lab/runs/learning_rate.py", "self.total - length", "self.total", "lab/runs"),
    Bug("lab/runs/learning_rate.py", "step < self.stop", "step <= self.stop", "lab/runs"),
    Bug("lab/runs/checkpoints.py", "intact = raw[", "intact = True or raw[", "lab/runs"),
    Bug("lab/runs/checkpoints.py", "for name in (NAME, PREVIOUS):", "for name in (NAME,):", "lab/runs"),
    Bug("lab/runs/run_config.py", "value != DEFAULTS[name] and FIELDS", "FIELDS", "lab/runs"),
    Bug("lab/runs/run_config.py", "return self.seed == other.seed and", "return", "lab/runs"),
    Bug("lab/runs/training.py", "metric >= self.best if", "metric <= self.best if", "lab/runs"),
    Bug("lab/runs/training.py", 'group["lr"] = rate', "pass", "lab/runs"),
    Bug("lab/runs/training.py", "mix(run.seed, step, 2)", "mix(run.seed, 2)", "lab/runs"),
    Bug(
        "lab/studies/plan.py",
        'if given == "max" and schedule.is_static else given',
        "if False else given",
        "lab/studies",
    ),
    Bug("lab/studies/deficits.py", "self.steps + stop - held_from", "self.steps + stop", "lab/studies"),
    Bug("lab/statistics/estimates.py", "(len(order) - rank) *", "len(order) *", "lab/statistics"),
    Bug("lab/statistics/estimates.py", "return 2.0 ** (1 - n)", "return 2.0**-n", "lab/statistics"),
    Bug("lab/judging.py", "if self.lower >= -margin:", "if self.lower >= margin:", "lab/test_judging.py"),
    Bug("lab/judging.py", "sign = 1 if higher_is_better else -1", "sign = 1", "lab/test_judging.py"),
    Bug("lab/report/line_plots.py", "if runs == self._runs[key]", "if runs", "lab/report"),
)
"""The bugs. Where a change of the code makes one impossible, another one of the same kind replaces it."""


def gone(bugs: tuple[Bug, ...] = BUGS) -> list[str]:
    """Return what is wrong with the bugs whose place is not there, or is there more than once."""
    found = []
    for bug in bugs:
        try:
            bug.planted((ROOT / "src/bitcycle" / bug.path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found


def main() -> None:
    """Plant the bugs and print which are caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only bugs whose file or text has this word")
    parser.add_argument("--nearest", action="store_true", help="only the tests nearest to each bug")
    parser.add_argument("--check", action="store_true", help="list the bugs that no longer apply, and run nothing")
    options = parser.parse_args()
    chosen = tuple(bug for bug in BUGS if options.only in bug.path or options.only in bug.before)
    missing = gone(chosen)
    if options.check or missing:
        sys.exit("\n".join(missing) or None)
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "bitcycle")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "out", "build", "__pycache__"))
        for bug in chosen:
            started = time.monotonic()
            file = copy / "src/bitcycle" / bug.path
            original = file.read_text("utf-8")
            file.write_text(bug.planted(original), "utf-8")
            test = failing_test(copy, f"src/bitcycle/{bug.path}", f"tests/{bug.nearest}")
            if test is None and not options.nearest:
                test = failing_test(copy)
            file.write_text(original, "utf-8")
            caught += test is not None
            outcome = f"caught by {test}" if test else f"SLIPS THROUGH {bug.slips}".rstrip()
            print(
                f"{bug.path}: {bug.before} -> {bug.after}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True
            )
    print(f"{caught} of {len(chosen)} bugs are caught")


def failing_test(copy: Path, *tests: str) -> str | None:
    """Run some tests of a copy of the repository, or its fast tier; return the first that fails."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "quick",  # without the time limit: a slow machine does not count as a catch
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (found[1] if found else "an error") if done.returncode else None


if __name__ == "__main__":
    main()
