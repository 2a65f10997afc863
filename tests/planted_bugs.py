"""Plant small bugs, one at a time, and see whether the fast tier of the tests catches them.

    python -m tests.planted_bugs              # all bugs; a file with a planted bug is always restored
    python -m tests.planted_bugs --only noise # those whose file or text has the word

Each bug changes one operator, constant or branch of a copy of the repository. The tests nearest to it run first. Only
if they pass does the whole fast tier run. A bug that the fast tier does not catch says why in ``slips``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = (
    "src",
    "tests",
    "evidence",
    "benchmarks",
    "docs",
    "examples",
    "pyproject.toml",
    "README.md",
    "constraints.txt",
)


@dataclass(frozen=True)
class Bug:
    """A change of one place in the code."""

    path: str
    before: str
    after: str
    nearest: str
    """The tests that run first, below ``tests``."""
    slips: str = ""
    """Why the fast tier does not catch it, if it does not."""

    def plant(self, root: Path) -> None:
        """Change the file below a folder."""
        file = root / "src/bitcycle" / self.path
        text = file.read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"{self.path} has {text.count(self.before)} places like {self.before!r} instead of one")
        file.write_text(text.replace(self.before, self.after))


BUGS = (
    # Numbers: grids, rounding, noise, products.
    Bug("kernels/rounding.py", "return 2 ** (bits - sign) - 1", "return 2 ** (bits - sign)", "kernels"),
    Bug("kernels/rounding.py", "        return codes.round_()", "        return codes.floor_()", "kernels"),
    Bug(
        "kernels/rounding.py", "values = torch.where(has_a_grid(scale, bits), values, x)", "values = values", "kernels"
    ),
    Bug("kernels/rounding.py", "torch.maximum(-low, high)", "torch.maximum(low, high)", "grids"),
    Bug("kernels/noise.py", "state ^= state >> 31", "state ^= state >> 30", "kernels"),
    Bug("kernels/noise.py", "return (rank,) if rank > 0 else ()", "return (rank,)", "kernels"),
    Bug(
        "kernels/images.py",
        "1 + (size + 2 * p - d * (k - 1) - 1) // s",
        "1 + (size + 2 * p - d * k - 1) // s",
        "arithmetic",
    ),
    Bug("grids/nvfp4.py", "block = 16", "block = 32", "grids"),
    Bug("grids/mx.py", "Scaling.POWERS_OF_TWO", "Scaling.TO_LARGEST", "grids"),
    Bug("grids/symmetric.py", "range(2, MAX_BITS + 1)", "range(1, MAX_BITS + 1)", "grids"),
    Bug("arithmetic/precision.py", "else self.activations", "else self.weights", "arithmetic"),
    Bug(
        "arithmetic/precision.py",
        "between = x + strength * (rounded - x)\n    return",
        "between = rounded\n    return",
        "arithmetic",
    ),
    Bug("arithmetic/grad_output.py", "numbers[DRAWS] = draw + 1", "numbers[DRAWS] = draw", "arithmetic"),
    Bug(
        "arithmetic/products.py",
        "grad_output.matmul(b if self.transpose_b else b.mT)",
        "grad_output.matmul(b.mT)",
        "nn/test_contract.py",
    ),
    Bug("arithmetic/products.py", "return a.numel() * b[0]", "return a.numel() * b[1]", "cost"),
    Bug("arithmetic/products.py", "(a if self.transposed else out).numel()", "out.numel()", "cost"),
    Bug(
        "arithmetic/integer_linear.py",
        "terms = _terms(codes.shape[1], sums)\n    out = combine(sums, e.grid()",
        "terms = _terms(codes.shape[0], sums)\n    out = combine(sums, e.grid()",
        "arithmetic",
    ),
    Bug(
        "arithmetic/operands.py",
        "middle = self.zero if self.symmetric else self.zero + self.scale * half",
        "middle = self.zero",
        "arithmetic",
    ),
    Bug("nn/attention.py", "scale = 1 / math.sqrt(self.head_dim)", "scale = 1 / self.head_dim", "nn/test_contract.py"),
    Bug("nn/attention.py", "mask.isneginf().all(-1, keepdim=True)", "mask.isneginf().any(-1, keepdim=True)", "nn"),
    Bug("nn/interception.py", "if not isinstance(mode, Interceptor)", "if isinstance(mode, Interceptor)", "nn"),
    # Conversion, the scheduler, schedules.
    Bug(
        "conversion/convert.py",
        "        weights = activations = check_width(forward",
        "        weights = check_width(forward",
        "conversion",
    ),
    Bug("conversion/convert.py", "        restore(model)\n        raise", "        raise", "conversion"),
    Bug("conversion/snapshot.py", "                    tensor.copy_(value)", "                    pass", "cost"),
    Bug(
        "scheduler.py", "self._go_to(self.current_step + 1)", "self._go_to(self.current_step + 2)", "test_scheduler.py"
    ),
    Bug("scheduler.py", "evaluate_weights=self._evaluation[0]", "evaluate_weights=now.weights", "conversion"),
    Bug("schedules/cyclic.py", "rising = cycle % 2 == 1", "rising = cycle % 2 == 0", "schedules"),
    Bug("schedules/cyclic.py", "np.divmod(steps * cycles, total)", "np.divmod(steps * cycles, total + 1)", "schedules"),
    Bug(
        "schedules/cyclic.py",
        "mirror is Mirror.TIME:\n            return g(np.where(rising, z, 1 - z))",
        "mirror is Mirror.HEIGHT:\n            return g(np.where(rising, z, 1 - z))",
        "schedules",
    ),
    Bug("schedules/matching.py", "Control.HIGH_LOW: rest", "Control.HIGH_LOW: 0", "schedules"),
    # The laboratory: runs, studies, statistics.
    Bug("lab/runs/learning_rate.py", "self.total - length", "self.total", "lab/runs"),
    Bug("lab/runs/learning_rate.py", "self.start <= step < self.stop", "self.start <= step <= self.stop", "lab/runs"),
    Bug("lab/runs/checkpoints.py", "if not intact and raw", "if False and raw", "lab/runs"),
    Bug("lab/runs/checkpoints.py", "for name in (NAME, PREVIOUS):", "for name in (NAME,):", "lab/runs"),
    Bug(
        "lab/runs/run_config.py",
        "if value != DEFAULTS[name] and FIELDS[name].is_in_name",
        "if FIELDS[name].is_in_name",
        "lab/runs",
    ),
    Bug(
        "lab/runs/run_config.py",
        "return self.seed == other.seed and self.condition == other.condition",
        "return self.condition == other.condition",
        "lab",
    ),
    Bug(
        "lab/runs/training.py",
        "metric >= self.best if self.task.higher_is_better",
        "metric <= self.best if self.task.higher_is_better",
        "lab/runs",
    ),
    Bug("lab/runs/training.py", 'group["lr"] = rate', "pass", "lab/runs"),
    Bug(
        "lab/runs/training.py",
        "torch.manual_seed(mix(run.seed, step, 2) >> 1)",
        "torch.manual_seed(mix(run.seed, 2) >> 1)",
        "lab/runs",
    ),
    Bug(
        "lab/studies/plan.py",
        'return q_max if given == "max" and schedule.is_static else given',
        "return given",
        "lab/studies",
    ),
    Bug("lab/studies/deficits.py", "total = self.steps + stop - held_from", "total = self.steps + stop", "lab/studies"),
    Bug(
        "lab/statistics/estimates.py",
        "(len(order) - rank) * p_values[i]",
        "len(order) * p_values[i]",
        "lab/statistics",
    ),
    Bug("lab/statistics/estimates.py", "return 2.0 ** (1 - n)", "return 2.0**-n", "lab/statistics"),
    Bug("lab/judging.py", "if self.lower >= -margin:", "if self.lower >= margin:", "lab/test_judging.py"),
    Bug("lab/judging.py", "sign = 1 if higher_is_better else -1", "sign = 1", "lab/test_judging.py"),
    Bug("lab/report/line_plots.py", "if runs == self._runs[key]", "if runs", "lab/report"),
)
"""The bugs. A change of the code that makes one of them impossible replaces it by another one of the same kind."""


def main() -> None:
    """Plant the bugs and print which are caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only bugs whose file or text has this word")
    chosen = [bug for bug in BUGS if (only := parser.parse_args().only) in bug.path or only in bug.before]
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "bitcycle"
        for name in COPIED:
            _copy(ROOT / name, copy / name)
        for bug in chosen:
            started = time.monotonic()
            file = copy / "src/bitcycle" / bug.path
            original = file.read_text()
            bug.plant(copy)
            by = next((what for what in (f"tests/{bug.nearest}", "") if not _passes(copy, what)), None)
            file.write_text(original)
            caught += by is not None
            outcome = "slips through" if by is None else f"caught by {by or 'the fast tier'}"
            print(
                f"{outcome}: {bug.path}: {bug.before!r} -> {bug.after!r} ({time.monotonic() - started:.0f} s)",
                flush=True,
            )
    print(f"{caught} of {len(chosen)} bugs are caught by the fast tier")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def _passes(copy: Path, what: str) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *([what] if what else []),
    ]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


if __name__ == "__main__":
    main()
