"""All time steps of an LSTM layer as one autograd function.

It computes what a loop over the product with the state and the cell computes, with far fewer calls: what does not
depend on the step before runs once for the whole sequence. The gates are in torch's order i, f, g, o.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.control import BACKWARD, read
from bitcycle.arithmetic.execution import without_autocast
from bitcycle.arithmetic.grad_output import next_noise, refuse_second_order
from bitcycle.arithmetic.operands import OperandSpec, Values, put_on_grid
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.products import LinearProduct
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.kernels.rounding import Dims, Width, is_full_precision

PRODUCT = LinearProduct()


def lstm_sequence(
    site: Site,
    gates: Tensor,
    h: Tensor,
    c: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    spec: OperandSpec,
    training: bool,
) -> tuple[Tensor, Tensor]:
    """Run an LSTM layer over a sequence, with the product of the state at a site.

    Args:
        site: The site of the product with the state.
        gates: The product with the input, (steps, batch, 4 hidden).
        h: The initial state, (batch, hidden).
        c: The initial cell, (batch, hidden).
        weight: The weight of the product with the state, on its grid: (4 hidden, hidden).
        bias: The bias of the product with the state.
        spec: How the state is put on its grid.
        training: Whether the bits are those of training.

    Returns:
        The states after each step (steps, batch, hidden), and the last cell.
    """
    _, bits, strength = site.precision(training)
    out = _LSTMSequence.apply(gates, h, c, weight, bias, site.control, bits, strength, spec, site.settings)
    assert isinstance(out, tuple)
    return out


class _LSTMSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        h: Tensor,
        c: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        control: Tensor,
        bits: Width,
        strength: Strength,
        spec: OperandSpec,
        settings: Settings,
    ) -> tuple[Tensor, Tensor]:
        steps, batch, size = gates.shape[0], gates.shape[1], h.shape[1]
        activated = gates.new_empty(gates.shape)  # the gates after their nonlinearities
        cells = gates.new_empty(steps + 1, batch, size)
        tanh_cells, states = (gates.new_empty(steps, batch, size) for _ in range(2))
        cells[0] = c
        gates = gates if bias is None else gates + bias
        columns = weight.t()
        parts = activated.split([2 * size, size, size], dim=2)
        i_f, g, o = (part.unbind() for part in parts)
        i, f = (part.unbind() for part in parts[0].split(size, dim=2))
        x, z, cell, tanh, out = (tensor.unbind() for tensor in (gates, activated, cells, tanh_cells, states))
        for t in range(steps):
            state = out[t - 1] if t else h
            rounded = put_on_grid(state, bits, spec, settings.grid, strength=strength).values()
            torch.addmm(x[t], rounded, columns, out=z[t])
            i_f[t].sigmoid_()
            g[t].tanh_()
            o[t].sigmoid_()
            torch.mul(f[t], cell[t], out=cell[t + 1]).addcmul_(i[t], g[t])
            torch.tanh(cell[t + 1], out=tanh[t])
            torch.mul(o[t], tanh[t], out=out[t])
        ctx.save_for_backward(h, activated, cells, tanh_cells, weight)
        ctx.control, ctx.settings, ctx.precision, ctx.spec = control, settings, (bits, strength), spec
        return states, cells[-1].clone()

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        with without_autocast(grad_states):
            return _LSTMSequence._backward(ctx, grad_states, grad_cell)

    @staticmethod
    def _backward(ctx: Any, grad_states: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        first, activated, cells, tanh_cells, weight = ctx.saved_tensors
        steps, batch, size = cells.shape[0] - 1, cells.shape[1], cells.shape[2]
        i, f, g, o = activated.split(size, dim=2)
        # Factors of the gradients of the gates: of the cell for i, f and g, of the state for o.
        to_gates = torch.stack([g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g * g)], dim=2)
        to_o = tanh_cells * o * (1 - o)
        to_cell = o * (1 - tanh_cells * tanh_cells)
        grad_gates = torch.empty_like(activated)
        grad_ifg = grad_gates.view(steps, batch, 4, size)[:, :, :3].unbind()
        grad_o = grad_gates.view(steps, batch, 4, size)[:, :, 3].unbind()
        twice = ctx.settings.grad_output == "row and column"
        rounded = None if twice else torch.empty_like(activated)
        dims = None if ctx.settings.grad_output == "tensor" else (-1,)
        grad_h, grad_c = torch.zeros_like(cells[0]), grad_cell.clone()
        grads, forget, ifg_of_c, o_of_h, c_of_h = (x.unbind() for x in (grad_states, f, to_gates, to_o, to_cell))
        for t in reversed(range(steps)):
            grad_h.add_(grads[t])
            grad_c.addcmul_(grad_h, c_of_h[t])
            torch.mul(ifg_of_c[t], grad_c.unsqueeze(1), out=grad_ifg[t])
            torch.mul(o_of_h[t], grad_h, out=grad_o[t])
            grad_c.mul_(forget[t])
            error = _rounded(ctx, grad_gates[t], dims)
            if rounded is not None:
                rounded[t] = error
            if t > 0 or ctx.needs_input_grad[1]:
                torch.mm(error, weight, out=grad_h)
        grad_weight = None
        if ctx.needs_input_grad[3]:
            states = torch.cat([first.unsqueeze(0), (o * tanh_cells)[:-1]])  # each step multiplies the one before
            grad_weight = _weight_gradient(ctx, states, grad_gates, rounded, weight.shape)
        # The gradient that goes on to the product with the input is not rounded here.
        grad_bias = (grad_gates if rounded is None else rounded).sum((0, 1)) if ctx.needs_input_grad[4] else None
        return grad_gates, grad_h, grad_c, grad_weight, grad_bias, None, None, None, None, None


def _rounded(ctx: Any, grad_output: Tensor, dims: Dims) -> Tensor:
    """Round a grad_output of the site, with the dimensions that share a grid."""
    bits, settings = read(ctx.control, BACKWARD), ctx.settings
    if is_full_precision(bits):
        return grad_output
    noise = next_noise(grad_output, ctx.control, settings.stochastic, bits)
    rounded: Tensor = settings.grid.round(grad_output, bits, dims, noise, error=True)
    return rounded


def _weight_gradient(
    ctx: Any, states: Tensor, grad_gates: Tensor, rounded: Tensor | None, weight_shape: torch.Size
) -> Tensor:
    """Return the gradient of the weight: the sum over steps, each of which has grids of its own."""
    (bits, strength), dims = ctx.precision, ctx.spec.dims
    spec = OperandSpec((1, 2) if dims is None else tuple(d + 1 if d >= 0 else d for d in dims))
    operand = put_on_grid(states, bits, spec, ctx.settings.grid, strength=strength)
    assert isinstance(operand, Values)
    if rounded is not None:
        return PRODUCT.weight_gradient(rounded, operand.values(), weight_shape)
    scaled, added = grad_gates, None
    if (
        operand.scale is not None
        and PRODUCT.absorbs_a(spec.dims, 3)
        and not is_full_precision(read(ctx.control, BACKWARD))
    ):
        operand, scale, middle = operand.split()
        factors, added = PRODUCT.absorb_a(grad_gates, scale, middle, states.shape, weight_shape)
        scaled = grad_gates * factors
    gradient = PRODUCT.weight_gradient(_rounded(ctx, scaled, (1,)), operand.values(), weight_shape)
    return gradient if added is None else gradient + added
