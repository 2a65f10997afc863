"""The laws of rounding and noise hold for both kernels."""

import pytest

from bitcycle.kernels import native


def use_kernels(name):
    """Use kernels by name; skip the test if they are not installed."""
    if name == "native" and native._extension is None:
        pytest.skip("the native kernels are not installed: bitcycle was installed without a C compiler")
    native.choose_kernels(name)


# Not a fixture of each test: hypothesis would refuse one that it cannot set up anew for each example.
@pytest.fixture(scope="module", params=native.CHOICES)
def kernels(request):
    """Run the tests of a module over the native kernels and over the reference."""
    use_kernels(request.param)
    yield request.param
    native.choose_kernels()
