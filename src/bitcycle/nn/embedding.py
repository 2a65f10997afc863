"""Embeddings: full precision unless the recipe asks for quantised ones."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from bitcycle.arithmetic import OperandSpec, Role, round_grad_output, round_operand
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.layer import QuantizedLayer
from bitcycle.nn.registry import register


@register(nn.Embedding)
class QuantizedEmbedding(QuantizedLayer):
    """An embedding with one grid per looked-up vector, a weight. It has no product and costs no MACs."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return [""] if recipe.embeddings else []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        return () if recipe.embeddings else (Skip(SkipKind.EMBEDDING_NOT_REQUESTED),)

    def quantized_forward(self, input: Tensor) -> Tensor:
        site = self.bitcycle.sites[""]
        vectors = super(QuantizedLayer, self).forward(input)  # type: ignore[misc]
        vectors = round_operand(site, vectors, OperandSpec((-1,), role=Role.WEIGHT), self.training, "a")
        return round_grad_output(site, vectors)

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        yield "", self.weight, (-1,)  # type: ignore[attr-defined]
