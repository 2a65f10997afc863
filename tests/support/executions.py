"""Run the same layer in simulated and in integer execution, and compare; layers, values and recipes to do it with."""

import copy

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import bitcycle as bc
from bitcycle.arithmetic.execution import ExecutionPlan, integers_are_right
from bitcycle.conversion.sites import sites

NEEDS_INTEGERS = [
    pytest.mark.skipif(not integers_are_right(), reason="torch._int_mm is wrong on this machine"),
    pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning"),
]
WHOLE = ExecutionPlan(None, None, None)
TENSOR = bc.Recipe.paper(weights="tensor")
granularities = st.sampled_from(["tensor", "channel", "row"])


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build()


VALUES = {
    "ordinary": lambda x: x,
    "positive": lambda x: x.relu(),
    "far from zero": lambda x: x * 0.1 + 10,
    "small": lambda x: x * 1e-12,
    "constant": lambda x: torch.full_like(x, 0.7),
    "zero": torch.zeros_like,
}
recipes = st.builds(
    bc.Recipe,
    weights=granularities,
    activations=granularities,
    gradients=st.sampled_from(["stochastic", "nearest"]),
    grad_output=st.sampled_from(["tensor", "row", "row and column"]),
    bias=st.booleans(),
    seed=st.integers(0, 3),
)
widths = st.integers(1, 8)
backward_widths = st.integers(1, 8) | st.sampled_from([9, 16, None])

LAYERS = {
    "linear": (lambda: nn.Linear(6, 5), lambda: randn(4, 6)),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, padding=1), lambda: randn(2, 3, 5, 5)),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def built(name):
    build, inputs = LAYERS[name]
    return seeded(build), inputs()


def is_float(x):
    return torch.is_tensor(x) and x.is_floating_point()


def same(got, expected):
    """Whether all tensors are equal bit for bit, in lists and lists of lists."""
    return all(torch.equal(a, b) if torch.is_tensor(a) else same(a, b) for a, b in zip(got, expected, strict=True))


def tensors(value):
    """All floating-point tensors in a nest of tuples."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    return [t for part in value for t in tensors(part)] if isinstance(value, (tuple, list)) else []


def run(layer, inputs, function=None, absolute=False):
    """Return outputs, and gradients of inputs and parameters, for a loss that weights each output differently.

    Args:
        layer: The layer to run.
        inputs: Its inputs.
        function: What computes the outputs instead of the layer, with its parameters.
        absolute: Whether all weights of the loss are positive.
    """
    inputs = [x.detach().clone().requires_grad_() if is_float(x) else x for x in inputs]
    layer.zero_grad()
    outputs = tensors((function or layer)(*inputs))
    generator = torch.Generator().manual_seed(7)
    weights = [torch.randn(out.shape, generator=generator).to(out.dtype) for out in outputs]
    sum((out * (w.abs() if absolute else w)).sum() for out, w in zip(outputs, weights, strict=True)).backward()
    gradients = [x.grad for x in inputs if is_float(x)]
    gradients += [p.grad for p in layer.parameters() if p.grad is not None]
    return [out.detach() for out in outputs], gradients


def executed(layer, inputs, recipe, forward, backward, execute):
    """Convert a copy of a layer and run it. Return outputs and gradients in one list, and the plans of its sites."""
    layer = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
    bc.set_bits(layer, forward=forward, backward=backward)
    outputs, gradients = run(layer, inputs)
    return [*outputs, *gradients], {name: site.plan for name, site in sites(layer).items()}


def magnitudes(layer, inputs):
    """Return the largest sum of absolute values for each result of a layer that is one product."""
    layer = copy.deepcopy(layer)
    for parameter in layer.parameters():
        parameter.data.abs_()
    outputs, gradients = run(layer, [x.abs() for x in inputs], absolute=True)
    return [float(t.max()) if t.numel() else 0.0 for t in (*outputs, *gradients)]


def assert_close(got, expected, tolerance=1e-5, magnitudes=None):
    """Compare each tensor to a fraction of its largest value. What is not finite must be the same.

    ``magnitudes`` are those of the terms, to a millionth of which a sum that cancels is compared. Codes of a constant
    operand have the smallest scale there is, which leaves up to 1e-33 of what cancels.
    """
    magnitudes = [0.0] * len(expected) if magnitudes is None else magnitudes
    for ours, theirs, magnitude in zip(got, expected, magnitudes, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        finite = theirs.isfinite()
        assert torch.equal(ours.isfinite(), finite)
        assert torch.equal(ours[~finite].nan_to_num(0, 1, -1), theirs[~finite].nan_to_num(0, 1, -1))
        if finite.any():
            difference = float((ours[finite].double() - theirs[finite].double()).abs().max())
            largest = float(theirs[finite].abs().max())
            assert difference <= tolerance * largest + 1e-6 * magnitude + 1e-33, f"{difference:.3g} of {largest:.3g}"


def assert_agree(layer, inputs, recipe, forward, backward, tolerance=1e-5, magnitudes=None):
    """Check that both executions compute the same. Return the plans of the sites in integer execution."""
    expected, _ = executed(layer, inputs, recipe, forward, backward, "simulated")
    got, means = executed(layer, inputs, recipe, forward, backward, "integer")
    assert_close(got, expected, tolerance, magnitudes)
    return means
