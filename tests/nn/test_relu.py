"""The ReLU that saves bits is torch's ReLU, bit for bit: its result, its gradient, and the gradient of that."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.kernels import native
from bitcycle.nn.relu import relu
from tests.kernels.layouts import DEFAULTS, default
from tests.kernels.test_native import assert_same, tensors, threads, using

pytestmark = pytest.mark.skipif(
    native._extension is None,
    reason="the native kernels are not installed: bitcycle was installed without a C compiler",
)


def gradients(function, x, grad_output):
    x = x.clone().requires_grad_()
    out = function(x)
    (gradient,) = torch.autograd.grad(out, x, grad_output)
    return out.detach(), gradient


@given(tensors() | tensors(shapes=st.sampled_from([(511,), (512,), (513,), (3, 16, 9, 8)])), st.booleans(), threads)
def test_equals_the_relu_of_torch(x, inplace, count):
    grad_output = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    with using("native", count, parallel=1):
        got = gradients(lambda y: relu(y * 1.0, inplace), x, grad_output)
    expected = gradients(lambda y: torch.relu(y * 1.0), x, grad_output)
    for ours, theirs in zip(got, expected, strict=True):
        assert_same(ours, theirs, layout=True)


def test_saves_one_bit_per_element():
    x = torch.randn(1000, 512, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.nbytes) or t, lambda t: t):
        out = relu(x)
    assert type(out.grad_fn).__name__ == "_ReLUBackward"
    assert sum(saved) == x.numel() // 8


def test_gradients_of_gradients():
    x = torch.randn(3, 300)

    def second(function):
        y = x.clone().requires_grad_()
        (first,) = torch.autograd.grad((function(y) ** 3).sum(), y, create_graph=True)
        return torch.autograd.grad((first**2).sum(), y)[0]

    assert torch.equal(second(relu), second(torch.relu))


def test_what_the_kernels_do_not_take_is_computed_by_torch():
    for x in (torch.randn(4, dtype=torch.float64), torch.randn(4, 4)[:, ::2], torch.randn(0), torch.randn(3)):
        y = x.clone().requires_grad_(x.dtype is torch.float64)
        assert torch.equal(relu(y), torch.relu(y))
    with using("reference"):
        assert type(relu(torch.ones(3, requires_grad=True)).grad_fn).__name__ == "ReluBackward0"


@pytest.mark.parametrize("value", DEFAULTS, ids=str)
def test_the_defaults_of_torch_do_not_matter(value):
    x, grad_output = torch.randn(2, 3, 600)
    with default(value):
        ours, theirs = gradients(relu, x, grad_output), gradients(torch.relu, x, grad_output)
    for got, expected in zip(ours, theirs, strict=True):
        assert_same(got, expected)


def test_gradients_with_another_sign_keep_it():
    x, grad_output = torch.randn(2, 3, 600)
    negative = torch._neg_view(grad_output)
    for got, expected in zip(gradients(relu, x, negative), gradients(torch.relu, x, negative), strict=True):
        assert_same(got, expected)
    view = torch._neg_view(x)
    assert_same(gradients(relu, view, negative)[1], gradients(torch.relu, view, negative)[1])
