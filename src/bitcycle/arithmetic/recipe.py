"""Recipes: how sites quantise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from bitcycle.grids import GridFamily, grid_family
from bitcycle.grids.family import DEFAULT, FP6Format, GradFormat

Granularity = Literal["tensor", "channel", "row"]
GradOutput = Literal["tensor", "row", "row and column"]


@dataclass(frozen=True)
class Recipe:
    """How sites quantise. :meth:`paper` is the recipe of the paper.

    A granularity says which values share one grid. ``"tensor"``: all of them. ``"channel"``: an output channel of a
    weight or a feature channel of an activation. ``"row"``: a vector along the last dimension of a weight or of the
    input of a linear layer, one position of the input of a 1-D convolution with several channels, or one sample of the
    input of another convolution.

    Args:
        weights: Granularity of weights.
        activations: Granularity of activations. With ``"row"``, no prediction depends on the rest of its batch, nor on
            later tokens.
        attention: Granularity of the operands of attention products.
        attention_zero: Include 0 in the affine grids of these operands. A row of attention weights then has the same
            grid whether later positions are masked or not there yet: generation with a key-value cache gives the logits
            of generation without one.
        node_features: Granularity of the node features of graphs.
        gradients: How the grad_output of a site is rounded to the backward bits: ``"stochastic"`` (unbiased) or
            ``"nearest"``.
        grad_output: Granularity of grad_output. ``"tensor"``: it is rounded once, on one grid. ``"row"``: once, with a
            grid per row, or per sample of a convolution. ``"row and column"``: once for each of the two gradient
            products, with grids that do not vary along the sum. It is multiplied by the scales of the other operand
            first where these do: for the input gradient by those of the weight, with a grid per row or sample; for the
            weight gradient by those of the input, with a grid per output channel of each block of 128 rows, or of each
            sample. Integers can then compute both.
        bias: Round biases to the forward bits too.
        embeddings: Round embedding vectors to the forward bits too.
        aggregation: ``"quantized"`` rounds features to the forward bits before a graph network aggregates them, and
            grad_output of the aggregation to the backward bits (Q-Agg). ``"full"`` aggregates in full precision
            (FP-Agg).
        evaluate_at: In evaluation mode, use the schedule's q_max (``"max"``) or the current training bits
            (``"current"``).
        seed: Random seed of the noise for stochastic rounding.
        grid: What a width means: ``"integer"`` (affine, 1 to 16 bits), ``"symmetric"`` (integers around zero, 2 to 16),
            ``"float"`` (E2M1, E2M3, E4M3 and bfloat16 for 4, 6, 8 and 16 bits), ``"mx"`` (microscaling formats of 4, 6
            and 8 bits) or ``"nvfp4"`` (NVFP4 for 4 bits, 8 and 16 bits as ``"float"``). The scales of ``"mx"`` and of
            NVFP4 belong to blocks along the dimension that a product sums over, whatever the granularity.
            See ``docs/formats.md``.
        fp6_format: The floating-point format of 6 bits: ``"E2M3"`` or ``"E3M2"``.
        grad_format: The floating-point format of grad_output at 8 bits: ``"E4M3"`` or ``"E5M2"``.
        hadamard: Multiply both operands of a gradient product by a random Hadamard matrix along the dimension it sums
            over, where grad_output has 4 bits, before they are rounded in blocks. It cancels in the product.

    Raises:
        ValueError: A field has a value that is not listed above.

    Example:
        >>> import bitcycle as bc
        >>> bc.Recipe(gradients="nearest", weights="tensor").activations
        'row'
        >>> bc.Recipe.paper().activations
        'tensor'
    """

    weights: Granularity = "channel"
    activations: Granularity = "row"
    attention: Granularity = "row"
    attention_zero: bool = True
    node_features: Granularity = "row"
    gradients: Literal["stochastic", "nearest"] = "stochastic"
    grad_output: GradOutput = "row and column"
    bias: bool = False
    embeddings: bool = False
    aggregation: Literal["full", "quantized"] = "full"
    evaluate_at: Literal["max", "current"] = "max"
    seed: int = 0
    grid: str = DEFAULT
    fp6_format: FP6Format = "E2M3"
    grad_format: GradFormat = "E4M3"
    hadamard: bool = False

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, expected = getattr(self, field.name), hints[field.name]
            choices = get_args(expected)
            if choices and value not in choices:
                raise ValueError(f"Recipe({field.name}=...) must be {' or '.join(map(repr, choices))}, got {value!r}")
            if not choices and type(value) is not expected:
                raise ValueError(f"Recipe({field.name}=...) must be of type {expected.__name__}, got {value!r}")
        family = self.family  # an unknown grid raises here
        if self.hadamard and family.block is None:
            raise ValueError(
                f"Recipe(hadamard=True) is for grids with blocks, 'mx' and 'nvfp4', got grid={self.grid!r}"
            )

    @classmethod
    def paper(cls, **changes: Any) -> Recipe:
        """Return the recipe of the paper: one grid for the activations and one for the grad_output of a product.

        Node features of graphs and the operands of attention have a grid per row, which need not include 0.

        Args:
            changes: Fields with another value, as for the constructor.
        """
        return cls(**{"activations": "tensor", "attention_zero": False, "grad_output": "tensor", **changes})

    @property
    def family(self) -> GridFamily:
        """The family of grids, which gives each width its meaning."""
        return grid_family(self.grid, self.fp6_format, self.grad_format)

    def changes(self) -> dict[str, object]:
        """Return the fields that differ from the default recipe.

        >>> Recipe(bias=True).changes()
        {'bias': True}
        """
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
