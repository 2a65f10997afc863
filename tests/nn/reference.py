"""A reference computation of the numerics, independent of the package: numpy for grids, autograd for the rest."""

import numpy as np
import torch


def grid(x, bits, axes=None):
    """Affine min-max rounding, half to even: scale = (max - min) / (2^bits - 1), zero point = min."""
    if bits is None or x.numel() == 0:
        return x
    a = x.detach().numpy()
    low, high = a.min(axis=axes, keepdims=True), a.max(axis=axes, keepdims=True)
    scale = (high - low) / (2**bits - 1)
    scale = np.where(scale == 0, 1.0, scale)
    return torch.from_numpy(np.rint((a - low) / scale) * scale + low).to(x.dtype)


class Plain:
    """The recipe's default at given bits: operands straight through, grad_output to nearest on the backward bits."""

    def __init__(self, forward, backward, weights="forward", strength=1):
        self.activations, self.backward, self.strength = forward, backward, strength
        self.weights = forward if weights == "forward" else weights

    def operand(self, x, axes=None, bits="activations"):
        return x + self.strength * (grid(x, getattr(self, bits), axes) - x).detach()

    def row(self, x, bits="activations"):
        return self.operand(x, -1, bits)

    def weight(self, w, channel=0, bits="weights"):
        return self.operand(w, tuple(d for d in range(w.dim()) if d != channel), bits)

    def site(self, out):
        """The output of a site: its grad_output is rounded once."""
        if out.requires_grad:
            out.register_hook(lambda grad_output: grid(grad_output, self.backward))
        return out

    def linear(self, x, w, b=None):
        return self.site(torch.nn.functional.linear(self.operand(x), self.weight(w), b))

    def attention(self, q, k, v, scale, mask=None):
        """softmax(scale Q K^T + mask) V, each operand rounded along its last dimension."""
        scores = self.site(self.row(q * scale) @ self.row(k).mT)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return self.site(self.row(weights) @ self.row(v)), weights
