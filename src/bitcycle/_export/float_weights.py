"""Float weights on their grids: a plain ``state_dict`` that the unconverted model loads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

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
        copies: dict[int, Tensor] = {}
        state: dict[str, Tensor] = {}
        names: dict[int, list[str]] = {}
        for name, tensor in model.state_dict().items():
            if not isinstance(tensor, Tensor):
                state[name] = tensor
                continue
            address = tensor.untyped_storage().data_ptr() if tensor.numel() else id(tensor)
            names.setdefault(address, []).append(name)
            whole = copies.setdefault(address, _memory(tensor).clone())
            state[name] = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        looked_up = {
            module.weight.untyped_storage().data_ptr(): ("the table of an embedding",)
            for module in model.modules()
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and conversion_of(module) is None
        }
        tied = set()
        written: list[tuple[str, Tensor, Tensor]] = []
        for site, tensor, values in map(_without_repetition, _rounded_weights(model, recording)):
            if not tensor.numel():
                continue
            address = tensor.untyped_storage().data_ptr()
            if address not in copies:
                raise ValueError(
                    f"the weight of {site.name or 'the model'} is computed from other parameters, which cannot hold "
                    "its values on the grid: call bc.restore(model), make it a parameter (for example with "
                    "torch.nn.utils.parametrize.remove_parametrizations), then convert the model again and export it"
                )
            place = copies[address].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            written.append((site.name, place.copy_(values), values))
            if len(names[address]) > 1 or address in looked_up:
                tied.add(" and ".join([*names[address], *looked_up.get(address, ())]))
        for name, place, values in written:
            if not torch.allclose(place, values.to(place.dtype), rtol=0, atol=0, equal_nan=True):
                raise ValueError(
                    f"the weight of {name or 'the model'} is also used on another grid, and one tensor cannot hold "
                    "both: keep one of its uses in full precision, with bc.set_bits(model, evaluate=None, where=...)"
                )
    if tied:
        warnings.warn(
            f"these are one tensor, which is on the grid for all uses: {'; '.join(sorted(tied))}", stacklevel=2
        )
    return state


class RoundedWeight(NamedTuple):
    """The weight of a site, usually a parameter or a view of one, and its values on the grid."""

    site: Site
    tensor: Tensor
    values: Tensor


def _rounded_weights(model: nn.Module, recording: Recording | None) -> Iterator[RoundedWeight]:
    """Yield the weights that a converted model rounds in evaluation mode."""
    for name, conversion in conversions(model):
        module: Any = model.get_submodule(name)
        for local, tensor, dims in conversion.mixin.weights_on_grid(module):
            site = conversion.sites[local]
            bits = site.evaluation.weights
            if bits is not None:
                values = round_to_grid(tensor.detach(), bits, dims, symmetric=is_symmetric(site))
                yield RoundedWeight(site, tensor.detach(), values)
        if conversion.template is None:
            continue
        if recording is None and _may_multiply_weights(module, conversion):
            raise ValueError(
                f"the code of {name or 'the model'} multiplies parameters, or may do so: pass example_inputs, with "
                "which a run shows how they are rounded"
            )
        if recording is not None:
            for site in conversion.sites.values():
                yield from (RoundedWeight(site, *found) for found in recording.weights_of(site))


def _may_multiply_weights(module: nn.Module, conversion: Conversion) -> bool:
    """Return whether functional calls of a module multiply parameters; if it has not run, whether it has any."""
    if conversion.has_run or conversion.multiplies_weights:
        return conversion.multiplies_weights
    embeddings = any(isinstance(child, nn.Embedding) for child in module.children())
    return embeddings or any(parameter.dim() > 0 for parameter in module.parameters(recurse=False))


def _without_repetition(weight: RoundedWeight) -> RoundedWeight:
    """Return a weight once along dimensions in which it was expanded."""
    site, tensor, values = weight
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor, values = tensor.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    return RoundedWeight(site, tensor, values)


def _memory(tensor: Tensor) -> Tensor:
    """Return all of the memory that a tensor lies in, as a vector."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)
