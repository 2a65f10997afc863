"""Run the same layer in simulated and in integer execution, and compare."""

import copy

import torch

import bitcycle as bc
from bitcycle.conversion.sites import sites


def tensors(value):
    """All floating-point tensors in a nest of tuples."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    return [t for part in value for t in tensors(part)] if isinstance(value, (tuple, list)) else []


def run(layer, inputs, absolute=False):
    """Return outputs, and gradients of inputs and parameters, for a loss that weights each output differently."""
    inputs = [x.detach().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    layer.zero_grad()
    outputs = tensors(layer(*inputs))
    generator = torch.Generator().manual_seed(7)
    weights = [torch.randn(out.shape, generator=generator).to(out.dtype) for out in outputs]
    sum((out * (w.abs() if absolute else w)).sum() for out, w in zip(outputs, weights, strict=True)).backward()
    gradients = [x.grad for x in inputs if torch.is_tensor(x) and x.is_floating_point()]
    gradients += [p.grad for p in layer.parameters() if p.grad is not None]
    return [out.detach() for out in outputs], gradients


def executed(layer, inputs, recipe, forward, backward, execute):
    """Convert a copy of a layer and run it. Return outputs and gradients in one list, and the means of its sites."""
    layer = bc.quantize(copy.deepcopy(layer), recipe, execute=execute)
    bc.set_bits(layer, forward=forward, backward=backward)
    outputs, gradients = run(layer, inputs)
    return [*outputs, *gradients], {name: site.means for name, site in sites(layer).items()}


def magnitudes(layer, inputs):
    """Return the largest sum of absolute values for each result of a layer that is one product."""
    layer = copy.deepcopy(layer)
    for parameter in layer.parameters():
        parameter.data.abs_()
    outputs, gradients = run(layer, [x.abs() for x in inputs], absolute=True)
    return [float(t.max()) if t.numel() else 0.0 for t in (*outputs, *gradients)]


def assert_close(got, expected, tolerance=1e-5, magnitudes=None):
    """Compare each tensor to a fraction of its largest value. What is not finite must be the same.

    ``magnitudes`` are those of the terms, to a millionth of which a sum that cancels is compared.
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
            assert difference <= tolerance * largest + 1e-6 * magnitude, f"{difference:.3g} of {largest:.3g}"


def assert_agree(layer, inputs, recipe, forward, backward, tolerance=1e-5, magnitudes=None):
    """Check that both executions compute the same. Return the means of the sites in integer execution."""
    expected, _ = executed(layer, inputs, recipe, forward, backward, "simulated")
    got, means = executed(layer, inputs, recipe, forward, backward, "integer")
    assert_close(got, expected, tolerance, magnitudes)
    return means
