"""A reference computation of the numerics, independent of the package: numpy for grids, autograd for the rest."""

import ml_dtypes
import numpy as np
import torch


def grid(x, bits, axes=None, with_zero=False):
    """Affine min-max rounding, half to even: scale = (max - min) / (2^bits - 1), zero point = min."""
    if bits is None or x.numel() == 0:
        return x
    a = x.detach().numpy()
    low, high = a.min(axis=axes, keepdims=True), a.max(axis=axes, keepdims=True)
    low, high = (np.minimum(low, 0), np.maximum(high, 0)) if with_zero else (low, high)
    scale = (high - low) / (2**bits - 1)
    scale = np.where(scale == 0, 1.0, scale)
    return torch.from_numpy(np.rint((a - low) / scale) * scale + low).to(x.dtype)


def symmetric(x, bits, axes=None):
    """Integers around zero: scale = max|x| / (2^(bits - 1) - 1)."""
    if bits is None or x.numel() == 0:
        return x
    a = x.detach().numpy()
    scale = np.abs(a).max(axis=axes, keepdims=True) / (2 ** (bits - 1) - 1)
    return torch.from_numpy(np.rint(a / np.where(scale == 0, 1.0, scale)) * scale).to(x.dtype)


TYPES = {
    "E2M1": ml_dtypes.float4_e2m1fn,
    "E2M3": ml_dtypes.float6_e2m3fn,
    "E3M2": ml_dtypes.float6_e3m2fn,
    "E4M3": ml_dtypes.float8_e4m3fn,
    "E5M2": ml_dtypes.float8_e5m2,
}


def to_type(a, name):
    """The nearest number of a type, saturating."""
    largest = float(ml_dtypes.finfo(TYPES[name]).max)
    return np.clip(a, -largest, largest).astype(TYPES[name]).astype(a.dtype)


def scaled_float(x, bits, axes=None):
    """The largest magnitude becomes the largest number of the format."""
    if bits is None or x.numel() == 0:
        return x
    name, a = {4: "E2M1", 6: "E2M3", 8: "E4M3"}[bits], x.detach().numpy()
    scale = np.abs(a).max(axis=axes, keepdims=True) / float(ml_dtypes.finfo(TYPES[name]).max)
    return torch.from_numpy(to_type(a / np.where(scale == 0, 1.0, scale), name) * scale).to(x.dtype)


def microscaling(x, bits, dim):
    """Blocks of 32 along a dimension, each with a power of two as its scale."""
    if bits is None or x.numel() == 0:
        return x
    name, a = {4: "E2M1", 6: "E2M3", 8: "E4M3"}[bits], np.moveaxis(x.detach().numpy(), dim, -1)
    emax = np.floor(np.log2(float(ml_dtypes.finfo(TYPES[name]).max)))
    out = np.empty_like(a)
    for first in range(0, a.shape[-1], 32):
        block = a[..., first : first + 32]
        most = np.abs(block).max(-1, keepdims=True)
        scale = 2.0 ** (np.frexp(np.where(most == 0, 1, most))[1] - 1 - emax)
        out[..., first : first + 32] = to_type(block / scale, name) * scale
    return torch.from_numpy(np.moveaxis(out, -1, dim).copy()).to(x.dtype)


def nvfp4(x, bits, dim):
    """Blocks of 16 along a dimension with scales in E4M3, and a scale of the tensor."""
    if bits is None or x.numel() == 0:
        return x
    assert bits == 4
    a = np.moveaxis(x.detach().numpy(), dim, -1)
    tensor = np.abs(a).max() / (448 * 6)
    out = np.empty_like(a)
    for first in range(0, a.shape[-1], 16):
        block = a[..., first : first + 16]
        scale = to_type(np.abs(block).max(-1, keepdims=True) / 6 / tensor, "E4M3") * tensor
        out[..., first : first + 16] = to_type(block / np.where(scale == 0, 1, scale), "E2M1") * scale
    return torch.from_numpy(np.moveaxis(out, -1, dim).copy()).to(x.dtype)


class Plain:
    """The recipe's default at given bits: operands straight through, grad_output to nearest on the backward bits."""

    def __init__(self, forward, backward, weights="forward", strength=1, grid=grid):
        self.activations, self.backward, self.strength, self.grid = forward, backward, strength, grid
        self.weights = forward if weights == "forward" else weights

    def operand(self, x, axes=None, bits="activations"):
        return x + self.strength * (self.grid(x, getattr(self, bits), axes) - x).detach()

    def row(self, x, bits="activations"):
        return self.operand(x, -1, bits)

    def weight(self, w, channel=0, bits="weights"):
        return self.operand(w, tuple(d for d in range(w.dim()) if d != channel), bits)

    def site(self, out):
        """The output of a site: its grad_output is rounded once."""
        if out.requires_grad:
            out.register_hook(lambda grad_output: self.grid(grad_output, self.backward))
        return out

    def linear(self, x, w, b=None):
        return self.site(torch.nn.functional.linear(self.operand(x), self.weight(w), b))

    def attention(self, q, k, v, scale, mask=None):
        """softmax(scale Q K^T + mask) V, each operand rounded along its last dimension."""
        scores = self.site(self.row(q * scale) @ self.row(k).mT)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return self.site(self.row(weights) @ self.row(v)), weights
