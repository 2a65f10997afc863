"""The same values in all memory layouts that a tensor can have, and under other defaults of torch."""

from contextlib import contextmanager

import torch

LAYOUTS = ("contiguous", "channels last", "permuted", "sliced", "strided", "offset", "expanded")


def in_layout(x, layout, order=None):
    """Return a tensor with the values of ``x`` in another memory layout.

    ``order`` is a permutation of the dimensions for "permuted". "expanded" repeats the values of the first index, so
    its values differ from those of ``x``. Where a layout does not apply, ``x`` is returned.
    """
    if layout == "channels last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if layout == "permuted" and x.dim() > 1:
        back = [order.index(d) for d in range(x.dim())]
        return x.permute(*order).contiguous().permute(*back)
    if layout == "sliced" and x.dim() > 0:
        wide = x.new_zeros(*x.shape[:-1], x.shape[-1] + 3)
        wide[..., 1:-2] = x
        return wide[..., 1:-2]
    if layout == "strided" and x.dim() > 0:
        wide = x.new_zeros(x.shape[0] * 2, *x.shape[1:])
        wide[::2] = x
        return wide[::2]
    if layout == "offset":  # dense, but not aligned to a vector
        return torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(x.shape)
    if layout == "expanded" and x.dim() > 0 and x.shape[0] > 0:
        return x[:1].expand_as(x)
    return x


DEFAULTS = (torch.float64, torch.bfloat16, torch.device("meta"))


@contextmanager
def default(value):
    """Make a type or a device the default of torch for new tensors."""
    if isinstance(value, torch.device):
        with value:
            yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(value)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
