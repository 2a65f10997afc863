"""All time steps of an LSTM layer as one autograd function.

It computes what a loop over the product with the state and the cell computes, with far fewer calls: what does not
depend on the step before runs once for the whole sequence. The gates are in torch's order i, f, g, o.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.grad_output import refuse_second_order, rounded_grad_output
from bitcycle.arithmetic.operands import Operand, OperandSpec, put_on_grid
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.kernels.rounding import Width


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
        needs_grad = any(ctx.needs_input_grad[:5])
        on_grid: list[Operand] = []
        columns = weight.t()
        parts = activated.split([2 * size, size, size], dim=2)
        i_f, g, o = (part.unbind() for part in parts)
        i, f = (part.unbind() for part in parts[0].split(size, dim=2))
        x, z, cell, tanh, out = (tensor.unbind() for tensor in (gates, activated, cells, tanh_cells, states))
        for t in range(steps):
            state = out[t - 1] if t else h
            rounded = put_on_grid(state, bits, spec, strength=strength, codes=needs_grad, grid=settings.grid)
            torch.addmm(x[t], rounded.values(), columns, out=z[t])
            i_f[t].sigmoid_()
            g[t].tanh_()
            o[t].sigmoid_()
            torch.mul(f[t], cell[t], out=cell[t + 1]).addcmul_(i[t], g[t])
            torch.tanh(cell[t + 1], out=tanh[t])
            torch.mul(o[t], tanh[t], out=out[t])
            if needs_grad:
                rounded.known_values = None
                if rounded.codes is state:  # in full precision; a view of the output must not be saved
                    rounded.codes = rounded.scale = rounded.zero = state.clone()
                on_grid.append(rounded)
        if needs_grad:
            saved = [tensor for each in on_grid for tensor in each.tensors()]
            ctx.save_for_backward(activated, cells, tanh_cells, weight, *saved)
            ctx.grids = [each.numbers() for each in on_grid]
            ctx.control, ctx.settings = control, settings
        return states, cells[-1].clone()

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        activated, cells, tanh_cells, weight, *saved = ctx.saved_tensors
        steps, batch, size = cells.shape[0] - 1, cells.shape[1], cells.shape[2]
        i, f, g, o = activated.split(size, dim=2)
        # Factors of the gradients of the gates: of the cell for i, f and g, of the state for o.
        to_gates = torch.stack([g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g * g)], dim=2)
        to_o = tanh_cells * o * (1 - o)
        to_cell = o * (1 - tanh_cells * tanh_cells)
        grad_gates = torch.empty_like(activated)
        grad_ifg = grad_gates.view(steps, batch, 4, size)[:, :, :3].unbind()
        grad_o = grad_gates.view(steps, batch, 4, size)[:, :, 3].unbind()
        rounded = torch.empty_like(activated)
        grad_h, grad_c = torch.zeros_like(cells[0]), grad_cell.clone()
        grads, forget, ifg_of_c, o_of_h, c_of_h = (x.unbind() for x in (grad_states, f, to_gates, to_o, to_cell))
        for t in reversed(range(steps)):
            grad_h.add_(grads[t])
            grad_c.addcmul_(grad_h, c_of_h[t])
            torch.mul(ifg_of_c[t], grad_c.unsqueeze(1), out=grad_ifg[t])
            torch.mul(o_of_h[t], grad_h, out=grad_o[t])
            error = rounded_grad_output(grad_gates[t], ctx.control, ctx.settings)
            rounded[t] = error
            grad_c.mul_(forget[t])
            if t > 0 or ctx.needs_input_grad[1]:
                torch.mm(error, weight, out=grad_h)
        grad_weight = None
        if ctx.needs_input_grad[3]:
            tensors = zip(saved[::3], saved[1::3], saved[2::3], strict=True)
            on_grid = (Operand.restored(*each, cells.dtype) for each in zip(tensors, ctx.grids, strict=True))
            rows = torch.cat([operand.values() for operand in on_grid])
            grad_weight = rounded.flatten(0, 1).t().mm(rows)
        # grad_output of the site is rounded; the gradient that goes on to the product with the input is not.
        grad_bias = rounded.sum((0, 1)) if ctx.needs_input_grad[4] else None
        return grad_gates, grad_h, grad_c, grad_weight, grad_bias, None, None, None, None, None
