"""Products as modules, for code that prefers to name its products: Matmul, Attention and Einsum.

They compute what torch's functions compute. Once converted, their product is a site with the name of the module.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.registry import register


class Matmul(nn.Module):
    """``torch.matmul`` as a module: ``a b`` over the last two dimensions.

    Once converted by :func:`bitcycle.quantize`, the product is one site, with the name of the module.

    Example:
        >>> import bitcycle as bc
        >>> model = nn.ModuleDict({"scores": bc.Matmul()})
        >>> q, k = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
        >>> torch.equal(model["scores"](q, k.mT), q @ k.mT)
        True
        >>> _ = bc.quantize(model)
        >>> bc.set_bits(model, forward=4, backward=8, where="scores")
        >>> model
        ModuleDict(
          (scores): QuantizedMatmul(bits=4/8)
        )
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product of two tensors.

        Args:
            a: The first operand.
            b: The second operand. A parameter, or a matrix that multiplies a batch, is rounded like a weight.
        """
        return torch.matmul(a, b)


class Attention(nn.Module):
    """``F.scaled_dot_product_attention`` as a module: ``softmax(scale Q K^T + mask) V``.

    Once converted by :func:`bitcycle.quantize`, its two products are the sites ``scores`` and ``context``.

    Example:
        >>> import bitcycle as bc
        >>> attention = bc.Attention()
        >>> q, k, v = torch.randn(3, 2, 4, 6, 8)
        >>> out = attention(q, k, v, is_causal=True)
        >>> torch.equal(out, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        True
        >>> _ = bc.quantize(attention)
        >>> [row.name for row in bc.summary(attention).sites]
        ['scores', 'context']
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Return the attention of queries to keys and values. The arguments are those of the function.

        Args:
            query: Queries, (..., queries, features).
            key: Keys, (..., keys, features).
            value: Values, (..., keys, features).
            attn_mask: Boolean, true where attention is allowed, or floating-point, added to the scores.
            dropout_p: Dropout probability of the attention weights. As in the function it also applies in evaluation
                mode: pass 0.0 there.
            is_causal: A query attends to no later key.
            scale: Multiplies the scores; by default one over the square root of the number of features.
            enable_gqa: Keys and values may have fewer heads than queries; each serves a group of query heads.
        """
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


class Einsum(nn.Module):
    """``torch.einsum`` as a module: a sum of products, with its indices named by letters.

    Once converted by :func:`bitcycle.quantize`, it is one site, with the name of the module.

    Args:
        equation: The indices of the operands and of the result, such as ``"bij,bjk->bik"``.

    Raises:
        TypeError: ``equation`` is not a string.

    Example:
        >>> import bitcycle as bc
        >>> product = bc.Einsum("bij,bjk->bik")
        >>> a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
        >>> torch.equal(product(a, b), torch.einsum("bij,bjk->bik", a, b))
        True
        >>> bc.quantize(product)
        QuantizedEinsum('bij,bjk->bik', bits=full)
    """

    def __init__(self, equation: str) -> None:
        super().__init__()
        if not isinstance(equation, str):
            raise TypeError(f"equation must be a string such as 'bij,bjk->bik', got {equation!r}")
        self.equation = equation

    def forward(self, *operands: Tensor) -> Tensor:
        """Return the sum of products.

        Args:
            operands: One tensor per operand of the equation.
        """
        return torch.einsum(self.equation, *operands)

    def extra_repr(self) -> str:
        return repr(self.equation)


@register(Matmul)
class QuantizedMatmul(FunctionalOps):
    """``a b`` at one site."""

    own_product = "matmul"


@register(Attention)
class QuantizedScaledDotProduct(FunctionalOps):
    """The scores QK^T and the context PV; softmax is in full precision."""

    own_product = "sdpa"


@register(Einsum)
class QuantizedEinsum(FunctionalOps):
    """A sum of products at one site."""

    own_product = "einsum"

    @classmethod
    def refuses(cls, module: nn.Module, recipe: Recipe) -> str | None:
        return None if recipe.family.block is None else "blocks run along one summed dimension: use bc.Matmul"
