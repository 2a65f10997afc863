"""The noise by which the grad_output of a site is rounded, and what every backward pass of a site checks."""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.arithmetic.control import BACKWARD, DRAWS, KEY, STEP, read
from bitcycle.arithmetic.site import Settings
from bitcycle.kernels.noise import noise_key, noise_of
from bitcycle.kernels.rounding import Noise, Width, is_full_precision


def rounded_grad_output(grad_output: Tensor, control: Tensor, settings: Settings) -> Tensor:
    """Round the grad_output of a function that is computed as a whole: once, on one grid or with a grid per row."""
    bits = read(control, BACKWARD)
    if is_full_precision(bits):
        return grad_output
    dims = None if settings.grad_output == "tensor" or grad_output.dim() == 0 else (-1,)
    noise = next_noise(grad_output, control, settings.stochastic, bits)
    return settings.grid.round(grad_output, bits, dims, noise, error=True)


def next_noise(grad_output: Tensor, control: Tensor, stochastic: bool, bits: Width) -> Noise:
    """Return the noise of the next draw of a site: a key, or a tensor in a compiled graph."""
    if not stochastic or (isinstance(bits, int) and bits == 0):
        return None
    if torch.compiler.is_compiling():
        return _draw_op(grad_output, control)
    numbers = control.numpy()
    key, step, draw = numbers[[KEY, STEP, DRAWS]].tolist()
    numbers[DRAWS] = draw + 1
    return noise_key(key, step, draw)


@torch.library.custom_op("bitcycle::draw_noise", mutates_args=("control",))
def _draw_op(grad_output: Tensor, control: Tensor) -> Tensor:
    """Draw the same noise as one opaque operation of a compiled graph."""
    key = next_noise(grad_output, control, True, 1)
    assert isinstance(key, tuple)
    return noise_of(grad_output, key)


@_draw_op.register_fake
def _(grad_output: Tensor, control: Tensor) -> Tensor:
    return torch.empty_like(grad_output, dtype=torch.int16)


def refuse_second_order() -> None:
    """Raise an error in a backward pass that would be differentiated itself."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            "gradients of gradients (create_graph=True) are not defined through a quantised product: "
            "set full precision first, bc.set_bits(model, forward=None, backward=None)"
        )
