"""What all quantised layers share: a mixin that is put in front of a layer's class, and taken away again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bitcycle.arithmetic import Operand, Product, Site, multiply, on_grid
from bitcycle.arithmetic.recipe import Granularity, Recipe
from bitcycle.kernels.rounding import Dims


@dataclass
class Conversion:
    """What conversion leaves on a module: the class it had, and its sites by their local names."""

    mixin: type[QuantizedLayer]
    original: type[nn.Module]
    recipe: Recipe
    sites: dict[str, Site]


class QuantizedLayer:
    """Base of the quantised layers. One is a mixin that says how a layer computes on its sites.

    A subclass names the ``sites`` of a module (``""`` is the module itself) and gives :meth:`quantized_forward`.
    At full precision the float layer's own ``forward`` runs, so it is equal bit for bit.
    """

    bitcycle: Conversion
    training: bool
    replaces: tuple[str, ...] = ("forward",)
    """The methods it replaces: a class that has its own version of one of them is not this layer."""
    owns: tuple[str, ...] = ()
    """Child modules whose parameters this layer multiplies by itself, without calling them."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        """The local names of the module's sites; none means there is nothing to quantise under this recipe."""
        return [""]

    @classmethod
    def in_full_precision(cls, module: nn.Module, recipe: Recipe) -> str:
        """What of the module multiplies in full precision under this recipe; empty if nothing does."""
        return ""

    @classmethod
    def unknown_products(cls, module: nn.Module) -> tuple[str, ...]:
        """Products that show in the module's code and are none of its sites."""
        return ()

    @classmethod
    def uncounted(cls, module: nn.Module) -> str:
        """What of the module multiplies and has no place in a count of products; empty if nothing does."""
        return ""

    @classmethod
    def attach(cls, module: nn.Module) -> None:
        """Change on the module what its class cannot; called once it is converted."""

    @classmethod
    def detach(cls, module: nn.Module) -> None:
        """Undo :meth:`attach`."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """The float layer at full precision, else :meth:`quantized_forward`."""
        if all(site.in_full_precision(self.training) for site in self.bitcycle.sites.values()):
            return super().forward(*arguments, **keywords)  # type: ignore[misc]
        return self.quantized_forward(*arguments, **keywords)

    def quantized_forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute on the sites."""
        raise AssertionError(f"{type(self).__name__} does not say how it computes")

    def multiply(
        self,
        site: str,
        product: Product,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None = None,
        *,
        of_a: Operand,
        of_b: Operand,
    ) -> Tensor:
        """The product of one of this layer's sites."""
        own = self.bitcycle.sites[site]
        return multiply(own, product, a, b, bias, of_a=of_a, of_b=of_b, training=self.training)

    def bias_on_grid(self, site: str, bias: Tensor | None) -> Tensor | None:
        """A bias on the site's bits if the recipe says so, else as it is."""
        own = self.bitcycle.sites[site]
        if bias is None or not own.recipe.bias:
            return bias
        return on_grid(own, bias, None, self.training, "bias")

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The class was made on the fly, so a pickle (and a deep copy) names what it was made of.
        return _rebuild, (self.bitcycle.mixin, self.bitcycle.original), self.__getstate__()


_MADE: dict[tuple[type, type], type[nn.Module]] = {}


def quantized_class(mixin: type[QuantizedLayer], original: type[nn.Module]) -> type[nn.Module]:
    """The class of a quantised layer, always the same one: the mixin in front of the layer's own class."""
    if (mixin, original) not in _MADE:
        namespace = {"__module__": original.__module__}
        _MADE[mixin, original] = type(f"Quantized{original.__name__}", (mixin, original), namespace)
    return _MADE[mixin, original]


def conversion_of(module: nn.Module) -> Conversion | None:
    """What conversion left on a module; none if it was not converted."""
    found = vars(module).get("bitcycle")
    return found if isinstance(found, Conversion) else None


def _rebuild(mixin: type[QuantizedLayer], original: type[nn.Module]) -> nn.Module:
    made = quantized_class(mixin, original)
    return made.__new__(made)


def feature_dims(granularity: Granularity, x: Tensor) -> Dims:
    """Dimensions that share a grid, of activations whose features are the last dimension."""
    if granularity == "tensor":
        return None
    if granularity == "row":
        return (-1,)
    return tuple(range(x.dim() - 1)) or None


def weight_dims(granularity: Granularity, weight: Tensor, channel: int = 0) -> Dims:
    """Dimensions that share a grid, of a weight whose output channels are the given dimension."""
    if granularity == "tensor":
        return None
    if granularity == "row":
        return (weight.dim() - 1,)
    return tuple(d for d in range(weight.dim()) if d != channel)
