"""Settings shared by all tests."""

from hypothesis import settings

# No timed assertions: a slow machine is not a failing test.
settings.register_profile("bitcycle", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("bitcycle")
