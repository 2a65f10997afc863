"""Settings shared by all tests."""

import os

# Several test processes share the cores; with a thread each they do not get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# No timed assertions: a slow machine is not a failing test.
settings.register_profile("thorough", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("quick", deadline=None, max_examples=5, derandomize=True)  # for `make coverage`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))
