"""Weights on their grids: a plain ``state_dict`` that the unconverted model loads."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._export.recording import Recording, evaluating, is_symmetric, record
from bitcycle.arithmetic import Site
from bitcycle.conversion.sites import conversions
from bitcycle.kernels.rounding import round_to_grid
from bitcycle.nn.layer import Conversion, conversion_of


def export(model: nn.Module, example_inputs: Any = None) -> dict[str, Tensor]:
    """Return the weights of a converted model, rounded to the grids of its evaluation bits, as a plain ``state_dict``.

    The unconverted model loads it. It then computes what the converted model computes in evaluation mode with
    activations in full precision. The converted model is not changed.

    Args:
        model: A converted model with evaluation bits.
        example_inputs: Inputs of the model. They are needed only if the ``forward`` of a module multiplies parameters
            of its own or of its children, which a run shows.

    Returns:
        The keys of the float model, with tensors of its own.

    Raises:
        ValueError: The model is not converted, its evaluation bits were never set, example inputs are needed, a weight
            is computed from other parameters, as by ``weight_norm``, or a weight is used on two grids.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Linear(4, 2))
        >>> bc.set_bits(model, evaluate=1)
        >>> weight = bc.export(model)["weight"]
        >>> [len(row.unique()) for row in weight]
        [2, 2]
    """
    with evaluating(model):
        recording = None if example_inputs is None else record(model, [example_inputs])
        before = dict(model.state_dict())
        state = copy.deepcopy(before)  # tensors that share memory still do
        copies: dict[int, Tensor] = {}
        uses: dict[int, list[str]] = defaultdict(list)
        for name, tensor in before.items():
            if isinstance(tensor, Tensor):
                copies[_address(tensor)] = state[name]
                uses[_address(tensor)].append(name)
        for module in model.modules():
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and conversion_of(module) is None:
                uses[_address(module.weight)].append("the table of an embedding")
        written: list[tuple[Site, Tensor, Tensor]] = []
        tied = set()
        for site, tensor, values in _rounded_weights(model, recording):
            if not tensor.numel():
                continue
            address = _address(tensor)
            if address not in copies:
                raise ValueError(
                    f"the weight of {site.name or 'the model'} is computed from other parameters, which cannot hold "
                    "its values on the grid: call bc.restore(model), make it a parameter (for example with "
                    "torch.nn.utils.parametrize.remove_parametrizations), then convert the model again and export it"
                )
            place = copies[address].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            written.append((site, place.copy_(values), values))
            tied |= {" and ".join(uses[address])} if len(uses[address]) > 1 else set()
        for site, place, values in written:
            if not torch.allclose(place, values.to(place.dtype), rtol=0, atol=0, equal_nan=True):
                raise ValueError(
                    f"the weight of {site.name or 'the model'} is also used on another grid, and one tensor cannot "
                    "hold both: keep one of its uses in full precision, with bc.set_bits(model, evaluate=None, "
                    "where=...)"
                )
    if tied:
        warnings.warn(
            f"these are one tensor, which is on the grid for all uses: {'; '.join(sorted(tied))}", stacklevel=2
        )
    return state


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _rounded_weights(model: nn.Module, recording: Recording | None) -> Iterator[tuple[Site, Tensor, Tensor]]:
    """Yield the weights that a model rounds in evaluation mode: the site, a parameter or a view of one, its values."""
    for name, conversion in conversions(model):
        module: Any = model.get_submodule(name)
        for local, tensor, dims in conversion.mixin.weights_on_grid(module):
            site = conversion.sites[local]
            bits = site.evaluation.weights
            if bits is not None:
                yield site, tensor.detach(), round_to_grid(tensor.detach(), bits, dims, symmetric=is_symmetric(site))
        if conversion.template is None:
            continue
        if recording is None and _may_multiply_weights(module, conversion):
            raise ValueError(
                f"the code of {name or 'the model'} multiplies parameters, or may do so: pass example_inputs, with "
                "which a run shows how they are rounded"
            )
        for site in conversion.sites.values():
            for tensor, values in () if recording is None else recording.weights_of(site):
                for dim in [d for d, stride in enumerate(tensor.stride()) if stride == 0]:  # it was expanded
                    tensor, values = tensor.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
                yield site, tensor, values


def _may_multiply_weights(module: nn.Module, conversion: Conversion) -> bool:
    """Return whether functional calls of a module multiply parameters; if it has not run, whether it has any."""
    if conversion.has_run or conversion.multiplies_weights:
        return conversion.multiplies_weights
    embeddings = any(isinstance(child, nn.Embedding) for child in module.children())
    own = module.parameters(recurse=bool(conversion.mixin.owns))
    return embeddings or any(parameter.dim() > 0 for parameter in own)
