"""LSTM, GRU and RNN: both gate products of every layer and direction, and the projection of an LSTM.

The product with the input runs once over the whole sequence, the product with the state once per time step. The weights
are rounded once per sequence. All sequences are processed in torch's packed layout (longest first, ``batch_sizes`` rows
per step), which covers packed and plain batches. An LSTM over sequences of one length runs all steps in one autograd
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bitcycle.arithmetic import LinearProduct, OperandSpec, Role, round_operand
from bitcycle.arithmetic.execution import is_autocast_enabled, without_autocast
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.nn.interception import hide_products
from bitcycle.nn.layer import feature_dims, weight_dims
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.lstm_sequence import lstm_sequence
from bitcycle.nn.registry import register

State = tuple[Tensor, ...]
"""The state of a layer: (h,) or, for an LSTM, (h, c)."""


def _lstm(x: Tensor, recurrent: Tensor, state: State) -> State:
    i, f, g, o = (x + recurrent).chunk(4, dim=-1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, recurrent: Tensor, state: State) -> State:
    x_r, x_z, x_n = x.chunk(3, dim=-1)
    h_r, h_z, h_n = recurrent.chunk(3, dim=-1)
    z = (x_z + h_z).sigmoid()
    n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return (n + z * (state[0] - n),)


CELLS: dict[str, Callable[[Tensor, Tensor, State], State]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda x, recurrent, state: ((x + recurrent).tanh(),),
    "RNN_RELU": lambda x, recurrent, state: ((x + recurrent).relu(),),
}
"""One time step in full precision: (product with the input, product with the state, state) -> state."""


@register(nn.LSTMCell, nn.GRUCell, nn.RNNCell)
class QuantizedRecurrentCell(LinearLayer):
    """A single time step. Its sites are ``weight_ih`` and ``weight_hh``."""

    bias: bool
    hidden_size: int

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["weight_ih", "weight_hh"]

    def quantized_forward(self, input: Tensor, hx: Tensor | State | None = None) -> Any:
        unbatched = input.dim() == 1
        x = input.unsqueeze(0) if unbatched else input
        is_lstm = isinstance(self, nn.LSTMCell)
        if hx is None:
            state: State = (x.new_zeros(len(x), self.hidden_size),) * (2 if is_lstm else 1)
        else:
            given = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
            state = tuple(s.unsqueeze(0) for s in given) if unbatched else given
        mode = "LSTM" if is_lstm else "GRU" if isinstance(self, nn.GRUCell) else f"RNN_{self.nonlinearity.upper()}"  # type: ignore[attr-defined]
        gates_x, gates_h = self._gates("ih", x), self._gates("hh", state[0])
        final = CELLS[mode](gates_x, gates_h, state)
        if unbatched:
            final = tuple(s.squeeze(0) for s in final)
        return final if is_lstm else final[0]

    def _gates(self, which: str, x: Tensor) -> Tensor:
        bias = getattr(self, f"bias_{which}") if self.bias else None
        return self.linear_product(f"weight_{which}", x, getattr(self, f"weight_{which}"), bias)


@register(nn.LSTM, nn.GRU, nn.RNN)
class QuantizedRecurrent(LinearLayer):
    """A recurrent network. Each ``weight_*`` parameter is a site of that name."""

    mode: str
    num_layers: int
    hidden_size: int
    proj_size: int
    bias: bool
    batch_first: bool
    bidirectional: bool
    dropout: float

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        layer: Any = module
        kinds = ["ih", "hh", "hr"] if layer.proj_size else ["ih", "hh"]
        layers = [f"l{k}{suffix}" for k in range(layer.num_layers) for suffix in _suffixes(layer.bidirectional)]
        return [f"weight_{kind}_{name}" for name in layers for kind in kinds]

    def quantized_forward(
        self, input: Tensor | PackedSequence, hx: Tensor | State | None = None
    ) -> tuple[Tensor | PackedSequence, Any]:
        hx = tuple(hx) if isinstance(hx, (tuple, list)) else hx
        if isinstance(input, PackedSequence):
            data, sizes, order, inverse = input
            self._check(data, hx, sizes)
            out, final = self._run(data, sizes.tolist(), self._initial(hx, data, int(sizes[0]), order))
            final = tuple(state if inverse is None else state.index_select(1, inverse) for state in final)
            return PackedSequence(out, sizes, order, inverse), self._as_torch(final)
        unbatched = input.dim() == 2
        x = input.unsqueeze(1) if unbatched else input.transpose(0, 1) if self.batch_first else input
        if unbatched and hx is not None:
            hx = tuple(s.unsqueeze(1) for s in hx) if isinstance(hx, tuple) else hx.unsqueeze(1)
        self._check(x.transpose(0, 1) if self.batch_first else x, hx, None)
        steps, batch = x.shape[:2]
        if not steps:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")  # as in torch
        out, final = self._run(x.flatten(0, 1), [batch] * steps, self._initial(hx, x, batch, None))
        out = out.unflatten(0, (steps, batch))
        if unbatched:
            return out.squeeze(1), self._as_torch(tuple(state.squeeze(1) for state in final))
        return out.transpose(0, 1) if self.batch_first else out, self._as_torch(final)

    def _initial(self, hx: Tensor | State | None, x: Tensor, batch: int, order: Tensor | None) -> State:
        """Return the initial state, (layers * directions, batch, size) each; zeros if none is given."""
        if hx is None:
            rows = self.num_layers * (2 if self.bidirectional else 1)
            sizes = [self.proj_size or self.hidden_size]
            if self.mode == "LSTM":
                sizes.append(self.hidden_size)
            return tuple(x.new_zeros(rows, batch, size) for size in sizes)
        given = hx if isinstance(hx, tuple) else (hx,)
        return tuple(state if order is None else state.index_select(1, order) for state in given)

    def _check(self, x: Tensor, hx: Tensor | State | None, sizes: Tensor | None) -> None:
        """Run torch's own check of the shapes."""
        layer: Any = self
        if hx is None:
            layer.check_input(x, sizes)
        else:
            layer.check_forward_args(x, hx if self.mode == "LSTM" or not isinstance(hx, tuple) else hx[0], sizes)

    def _as_torch(self, final: State) -> Tensor | State:
        return final if self.mode == "LSTM" else final[0]

    def _run(self, data: Tensor, sizes: list[int], initial: State) -> tuple[Tensor, State]:
        """Run all layers over packed data. Return the output of the last layer and the final states."""
        finals: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in _suffixes(self.bidirectional):
                start = tuple(state[len(finals)] for state in initial)
                out, final = self._direction(data, sizes, start, f"_l{layer}{suffix}", reverse=bool(suffix))
                outputs.append(out)
                finals.append(final)
            data = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, self.training)
        return data, tuple(torch.stack(states) for states in zip(*finals, strict=True))

    def _direction(
        self, data: Tensor, sizes: list[int], initial: State, name: str, reverse: bool
    ) -> tuple[Tensor, State]:
        """Run one layer in one direction over packed data."""
        bias = getattr(self, f"bias_ih{name}") if self.bias else None
        gates = self.linear_product(f"weight_ih{name}", data, getattr(self, f"weight_ih{name}"), bias)
        if self._is_one_sequence(gates, sizes, initial):
            return self._whole_sequence(gates.unflatten(0, (len(sizes), sizes[0])), initial, name, reverse)
        products = gates.split(sizes)
        cell = self._cell(name)
        outputs: list[Tensor] = []
        state = tuple(s[: sizes[-1]] for s in initial) if reverse else initial
        ended: list[State] = []  # final states of the shorter sequences, shortest first
        for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
            rows, wanted = state[0].shape[0], sizes[t]
            if rows < wanted:  # in reverse, shorter sequences join
                state = tuple(torch.cat([s, i[rows:wanted]]) for s, i in zip(state, initial, strict=True))
            elif rows > wanted:  # forwards, shorter sequences end
                ended.append(tuple(s[wanted:] for s in state))
                state = tuple(s[:wanted] for s in state)
            state = cell(products[t], state)
            outputs.append(state[0])
        if reverse:
            outputs.reverse()
        if ended:
            state = tuple(torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True))
        return torch.cat(outputs), state

    def _is_one_sequence(self, gates: Tensor, sizes: list[int], initial: State) -> bool:
        """Return whether all time steps can run as one autograd function: a plain LSTM over equally long sequences."""
        return (
            self.mode == "LSTM"
            and not self.proj_size
            and all(site.settings.grid.block is None for site in self.bitcycle.sites.values())
            and sizes[0] == sizes[-1]
            and gates.numel() > 0
            and (is_autocast_enabled(gates) or all(gates.dtype is x.dtype for x in (*initial, self.weight_hh_l0)))  # type: ignore[attr-defined]
            and not torch.compiler.is_compiling()
            and not current_observers()
        )

    def _whole_sequence(self, gates: Tensor, initial: State, name: str, reverse: bool) -> tuple[Tensor, State]:
        """Run one layer in one direction over (steps, batch, gates)."""
        local = f"weight_hh{name}"
        site, weight = self.bitcycle.sites[local], getattr(self, local)
        bias = self.round_bias(local, getattr(self, f"bias_hh{name}") if self.bias else None)
        weight_spec = OperandSpec(weight_dims(site.recipe.weights, weight), role=Role.WEIGHT)
        weight = round_operand(site, weight, weight_spec, self.training, "b")
        spec = OperandSpec(feature_dims(site.recipe.activations, initial[0]))
        gates = gates.flip(0) if reverse else gates
        # Under autocast the gates are in half precision; all that follows from them is computed in that of the weight.
        dtype = gates.dtype
        with hide_products(), without_autocast(gates):
            gates, h, c = (x.to(weight.dtype) for x in (gates, *initial))
            out, cell = lstm_sequence(site, gates, h, c, weight, bias, spec, self.training)
        out, cell = out.to(dtype), cell.to(dtype)
        return (out.flip(0) if reverse else out).flatten(0, 1), (out[-1], cell)

    def _cell(self, name: str) -> Callable[[Tensor, State], State]:
        """Return the function for one time step of a layer: (product with the input, state) -> state."""
        recurrent = self._step_product(f"weight_hh{name}", getattr(self, f"bias_hh{name}") if self.bias else None)
        project = self._step_product(f"weight_hr{name}", None) if self.proj_size else None
        cell = CELLS[self.mode]

        def step(x: Tensor, state: State) -> State:
            state = cell(x, recurrent(state[0]), state)
            return state if project is None else (project(state[0]), *state[1:])

        return step

    def _step_product(self, site: str, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Return the product with a state as a function. Its weight and bias are rounded once, here.

        Blocks run along other dimensions in the gradient products: with them, each step rounds the weight.
        """
        own = self.bitcycle.sites[site]
        weight = getattr(self, site)
        weight_spec = OperandSpec(weight_dims(own.recipe.weights, weight), role=Role.WEIGHT)
        if own.settings.grid.block is None:
            weight = round_operand(own, weight, weight_spec, self.training, "b")
            weight_spec = OperandSpec(already_rounded=True, role=Role.WEIGHT)
        bias = self.round_bias(site, bias)

        def product(h: Tensor) -> Tensor:
            h_spec = OperandSpec(feature_dims(own.recipe.activations, h), role=Role.ACTIVATION)
            return self.multiply(site, LinearProduct(), h, weight, bias, a_spec=h_spec, b_spec=weight_spec)

        return product


def _suffixes(bidirectional: bool) -> list[str]:
    return ["", "_reverse"] if bidirectional else [""]
