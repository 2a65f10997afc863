"""Run tests over native kernels that were built with gcc's address and undefined-behaviour sanitizers.

``python -m tests.kernels.sanitize [arguments of pytest]``, or ``make sanitize``. The first error ends the run. The
clones of functions for several CPUs are left out: the loader chooses them before a sanitizer is ready.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SANITIZERS = [
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
TESTS = [
    "tests/kernels/test_native.py",
    "tests/nn/test_relu.py",
    "tests/kernels/test_rounding.py",
    "tests/grids/test_native.py",
    "tests/arithmetic/execution",
]


def build(folder, compiler="gcc"):
    """Copy the package to a folder and build its extension there, with sanitizers. Return the extension."""
    package = shutil.copytree(ROOT / "src" / "bitcycle", folder / "bitcycle", ignore=shutil.ignore_patterns("*.so"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (settings,) = project["tool"]["setuptools"]["ext-modules"]
    target = package / "kernels" / "_native.abi3.so"
    flags = [*settings["extra-compile-args"], "-O1", "-g", "-fPIC", "-shared", "-DBITCYCLE_NO_CLONES", *SANITIZERS]
    sources = [ROOT / source for source in settings["sources"]]
    include = sysconfig.get_path("include")
    command = [compiler, *flags, f"-I{include}", *sources, "-o", target, *settings["extra-link-args"]]
    subprocess.run(command, check=True)
    return target


def run(folder, command, compiler="gcc"):
    """Run Python with the package in a folder. Return what it ended with."""
    find = subprocess.run([compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": find.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself keeps memory until it ends
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "BITCYCLE_KERNELS": "native",
    }
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment)


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = build(folder)
        loaded = f"import bitcycle.kernels._native as n; assert n.__file__ == {str(target)!r}, n.__file__"
        result = run(folder, ["-c", f"import torch; {loaded}"])
        if result.returncode == 0:
            result = run(folder, ["-m", "pytest", "--capture=sys", "-p", "no:cacheprovider", *(arguments or TESTS)])
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
