"""Embeddings: full precision unless the recipe asks."""

from __future__ import annotations

from torch import Tensor, nn

from bitcycle.arithmetic import error_on_grid, on_grid
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.nn.layer import QuantizedLayer
from bitcycle.nn.registry import register


@register(nn.Embedding)
class QuantizedEmbedding(QuantizedLayer):
    """The vectors that are looked up, each on a grid of its own; there is no product, so it costs no MACs."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return [""] if recipe.embeddings else []

    @classmethod
    def in_full_precision(cls, module: nn.Module, recipe: Recipe) -> str:
        return "" if recipe.embeddings else "embeddings stay in full precision unless Recipe(embeddings=True)"

    def quantized_forward(self, input: Tensor) -> Tensor:
        site = self.bitcycle.sites[""]
        vectors = super(QuantizedLayer, self).forward(input)  # type: ignore[misc]
        return error_on_grid(site, on_grid(site, vectors, (-1,), self.training, "a"))
