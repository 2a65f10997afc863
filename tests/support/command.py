"""The ``bitcycle`` command in a process of its own that need not load torch, which takes seconds.

A server process, which multiprocessing starts with the first command, loads torch and bitcycle once and is forked for
each command. It never trains, because torch refuses to compute gradients in a process that was forked after it did.
What a command itself loads, signals, and what happens before ``main`` need ``python -m bitcycle`` instead.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

LOADED = [
    *("torch", "torch._dynamo", "rich.progress", "vl_convert", "pytest"),
    *("bitcycle", "bitcycle.cli.app", "bitcycle.lab.runs.training", "bitcycle.lab.tasks"),
    *("bitcycle.lab.studies.estimate", "bitcycle.lab.studies.reporting", "bitcycle.lab.studies.engines.local"),
]

ROOT = Path(__file__).parents[2]
_CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()
_context = multiprocessing.get_context("forkserver" if _CAN_FORK else "spawn")
if _CAN_FORK:
    _context.set_forkserver_preload(LOADED)


def bitcycle(*arguments, cwd=None, env=None, module="bitcycle"):
    """Run the command and return its exit code and what it printed, as ``subprocess.run`` does.

    Args:
        arguments: The words of the command line.
        module: What ``python -m`` runs.
        cwd: The folder to run in.
        env: The environment; that of this process by default.
    """
    words = [str(word) for word in arguments]
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder) / name for name in ("stdout", "stderr")]
        child = _context.Process(
            target=_run, args=(module, words, cwd or Path.cwd(), dict(env or os.environ), *printed)
        )
        child.start()
        child.join()
        texts = [path.read_text() if path.exists() else "" for path in printed]
    return subprocess.CompletedProcess([module, *words], child.exitcode, *texts)


def _run(module, words, folder, environment, stdout, stderr):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        stream.flush()
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.path[:0] = ["", str(ROOT)]  # as -m does; evidence and benchmarks are in the root of the repository
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
