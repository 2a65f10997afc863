"""Both kernels, for all tests of execution."""

import pytest

from bitcycle.kernels import native


@pytest.fixture(scope="module", autouse=True, params=native.CHOICES)
def kernels(request):
    """Integer execution computes the same over both kernels."""
    if request.param == "native" and native._extension is None:
        pytest.skip("the native kernels are not installed: bitcycle was installed without a C compiler")
    native.choose_kernels(request.param)
    yield request.param
    native.choose_kernels()
