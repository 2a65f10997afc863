"""Settings shared by all tests, and the time limit of the fast tier."""

import os

# Several test processes share the cores; with a thread each they do not get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from importlib import import_module

import pytest
from hypothesis import settings

# No timed assertions: a slow machine is not a failing test.
EXAMPLES = {"default": 10, "thorough": 60, "quick": 5}  # thorough: `make test-all`; quick: `make coverage`
for name, examples in EXAMPLES.items():
    settings.register_profile(name, deadline=None, max_examples=examples, derandomize=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

MAX_SECONDS = 1.0
TOLERANCE = 1.5
"""The same test takes up to half as long again while other processes share caches and cores."""


def pytest_collection_finish(session):
    """Start the server of ``tests.support.command``, and import what a first run imports, before tests are timed."""
    if PROFILE == "default" and not session.config.option.collectonly:
        import_module("torch._dynamo")  # takes about a second
    command = sys.modules.get("tests.support.command")
    if PROFILE == "default" and command is not None and not session.config.option.collectonly:
        command.bitcycle("--version")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test of the fast tier that takes over a second, fixtures aside.

    A second of processor time, of this process and its children, or of waiting, as for a sleep. Time on the clock also
    passes while others use the cores: it is divided by the load of each core. Both may exceed the limit by
    ``TOLERANCE``. The limit holds in ``make test``, whose property tests have few examples.
    """
    if PROFILE != "default":
        return (yield)
    clock, processor = time.perf_counter(), _processor_time()
    result = yield
    clock, processor = time.perf_counter() - clock, _processor_time() - processor
    seconds = max(processor, clock / max(1.0, os.getloadavg()[0] / os.cpu_count()))
    if seconds > TOLERANCE * MAX_SECONDS and item.get_closest_marker("slow") is None:
        pytest.fail(
            f"took {seconds:.1f} s: mark a test over {MAX_SECONDS:g} s as slow, or make it faster", pytrace=False
        )
    return result


def _processor_time():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
