"""The base of all quantised layers: a mixin that conversion puts in front of a layer's class and later removes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.fx import GraphModule

from bitcycle.arithmetic import OperandSpec, Product, Role, Site, multiply, round_operand
from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.recipe import Granularity, Recipe
from bitcycle.arithmetic.site import Evaluation
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.interception import hide_products
from bitcycle.nn.site_names import join_names, skip_site

METADATA = "bitcycle"
"""The entry of a module's metadata in a ``state_dict`` that holds the evaluation bits of its sites."""

TEMPLATE = ":"
"""The local name of the site whose bits new sites start with."""


@dataclass
class Conversion:
    """What conversion stores on a module: its original class, and its sites by their local names."""

    mixin: type[QuantizedLayer]
    original: type[nn.Module]
    recipe: Recipe
    sites: dict[str, Site]
    template: Site | None = None
    """The bits that new sites start with, in a module whose functional calls become sites when they run."""
    keep: tuple[str, ...] = ()
    """Rules that name new sites to keep in full precision."""
    has_run: bool = False
    """Whether a run of the module was searched for products that stay in full precision."""
    float_calls: dict[SkipKind, set[str]] = field(default_factory=dict)
    """The functions that were called, wholly or in part, in full precision, by the reason."""
    multiplies_weights: bool = False
    """Whether an operand of a discovered site is a parameter or a view of one."""
    discovered: SimpleNamespace = field(default_factory=SimpleNamespace)
    """The discovered sites as attributes: a compiler that is tracing sees a new attribute, but no new key of a dict."""

    def site(self, local: str) -> Site:
        """Return a site by its local name."""
        if not local.startswith(":"):
            return self.sites[local]
        site: Site = getattr(self.discovered, local.replace(".", " "))  # a compiler allows no dot in an attribute
        return site

    def all_sites(self) -> list[Site]:
        """Return the sites, and the template of those that are yet to be discovered."""
        return [*self.sites.values(), *([] if self.template is None else [self.template])]

    def discover(self, local: str) -> None:
        """Create the site of a product that is computed for the first time, with the bits of the template."""
        template = self.template
        assert template is not None
        name = join_names(template.name, local)
        site = Site(name, template.recipe, skip_site(name, self.keep))
        site.execution = template.execution
        if site.skip is None:
            key = site.key
            site.control.copy_(template.control)
            site.control[KEY] = key
            site.baseline = template.baseline
            site.join(template.group)
            template.followers.append(site)
        self.sites[local] = site
        setattr(self.discovered, local.replace(".", " "), site)

    def skips(self) -> tuple[Skip, ...]:
        """Return which calls were left in full precision, and why."""
        return tuple(Skip(kind, tuple(sorted(names))) for kind, names in self.float_calls.items())

    def evaluation_bits(self) -> dict[str, Any]:
        """Return the evaluation bits that were set, by local names, for the metadata of a checkpoint."""
        named = self.sites if self.template is None else {TEMPLATE: self.template, **self.sites}
        return {
            local: site.evaluation.saved()
            for local, site in named.items()
            if site.skip is None and site.evaluation_was_set
        }

    def load_evaluation_bits(self, saved: dict[str, Any]) -> None:
        """Take the evaluation bits of a checkpoint, by local names, unless bits of the model were set."""
        named = dict(self.sites)
        if self.template is not None:
            for local, bits in saved.items():
                is_new = local.startswith(":") and local != TEMPLATE and local not in self.sites
                if is_new and bits != saved.get(TEMPLATE):
                    self.discover(local)  # a product that was not computed yet
            named = {TEMPLATE: self.template, **self.sites}
        for local, site in named.items():
            if local in saved and site.skip is None:
                site.load_evaluation(Evaluation.loaded(saved[local]))

    def describe(self) -> str:
        """Return the bits (forward/backward) and the recipe, as the ``repr`` of a converted layer shows them."""
        if not self.sites:
            return ""
        changes = self.recipe.changes()
        parts = [f"{name}={value!r}" for name, value in changes.items()]
        bits = {name: _show_bits(site) for name, site in self.sites.items()}
        if len(set(bits.values())) == 1:
            parts.insert(0, f"bits={next(iter(bits.values()))}")
        elif bits:
            parts.insert(0, f"bits=({', '.join(f'{name}: {shown}' for name, shown in bits.items())})")
        return ", ".join(parts)


class ConvertedModule:
    """What every converted module has: its bits in its ``repr``, in its ``state_dict`` and in its pickles.

    Every other name in front of a class hides what the class calls by this name, a method or a child module. So
    nothing else is put in front of the classes of user code.
    """

    bitcycle: Conversion
    training: bool

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        bits = self.bitcycle.evaluation_bits()
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if bits and metadata is not None:  # the keys stay those of the float model, which ignores this entry
            metadata[METADATA] = bits

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *arguments: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *arguments)  # type: ignore[misc]
        self.bitcycle.load_evaluation_bits(local_metadata.get(METADATA, {}))

    def extra_repr(self) -> str:
        parts = (super().extra_repr(), self.bitcycle.describe())  # type: ignore[misc]
        return ", ".join(part for part in parts if part)

    def __repr__(self) -> str:
        text, added = super().__repr__(), self.bitcycle.describe()
        if self.bitcycle.original.__repr__ is nn.Module.__repr__ or not added:
            return text
        return f"{text.removesuffix(')')}, {added})"  # a __repr__ of the layer's own does not call extra_repr

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The class is created at run time, so a pickle (and a deep copy) stores the classes it is made of.
        return _rebuild, (self.bitcycle.mixin, self.bitcycle.original), self.__getstate__()


class QuantizedLayer(ConvertedModule):
    """Base class of quantised layers: a mixin that says how a layer computes on its sites.

    A subclass gives :meth:`quantized_forward`, and :meth:`site_names` if the layer has other sites than itself. At full
    precision the float layer's own ``forward`` runs, so the result is equal bit for bit.
    See :mod:`bitcycle.nn` for a complete example.
    """

    replaces: tuple[str, ...] = ("forward",)
    """The methods that the mixin replaces. A subclass of the layer that overrides one of them is user code."""
    prefix: ClassVar[str] = "Quantized"
    """What the name of the converted class starts with."""
    owns: tuple[str, ...] = ()
    """Names of child modules whose parameters the layer multiplies itself, without calling the child."""
    sums_elementwise: ClassVar[bool] = False
    """Whether the layer may multiply activations elementwise and sum, which no count of products includes."""
    is_intercepted: ClassVar[bool] = False
    """Whether products among the functional calls in ``forward`` become sites when they run."""
    own_product: ClassVar[str] = ""
    """A function whose first call in ``forward`` has the name of the module alone."""
    front: ClassVar[type[ConvertedModule] | None] = None
    """What is put in front of a module's class; None for the mixin itself."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        """Return the local names of the module's sites; ``""`` is the module itself.

        An empty list means that the recipe quantises nothing in the module.
        """
        return [""]

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        """Return which parts of the module stay in full precision under this recipe, and why."""
        return ()

    @classmethod
    def refuses(cls, module: nn.Module, recipe: Recipe) -> str | None:
        """Return why the recipe makes no sense for the module, in words; None if it does. Conversion asks first."""
        return None

    @classmethod
    def uncounted_weights(cls, module: nn.Module) -> tuple[str, ...]:
        """Return the names of parameters that multiply activations elementwise, which no count of products includes."""
        return ()

    @classmethod
    def attach(cls, module: nn.Module) -> None:
        """Change the module beyond its class. Conversion calls this once."""

    @classmethod
    def detach(cls, module: nn.Module) -> None:
        """Undo :meth:`attach`."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the float layer at full precision, else :meth:`quantized_forward`."""
        with hide_products():
            for site in self.bitcycle.sites.values():
                if not site.in_full_precision(self.training):
                    return self.quantized_forward(*arguments, **keywords)
            return super().forward(*arguments, **keywords)  # type: ignore[misc]

    def quantized_forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute on the sites. It takes the arguments of the float layer's ``forward``."""
        raise NotImplementedError(f"{type(self).__name__} does not define quantized_forward")

    def multiply(
        self,
        site: str,
        product: Product,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None = None,
        *,
        a_spec: OperandSpec,
        b_spec: OperandSpec,
    ) -> Tensor:
        """Compute the product of one of this layer's sites at its current bits.

        Args:
            site: Local name of the site; ``""`` is the layer itself.
            product: Which product it is.
            a: The first operand, an activation.
            b: The second operand, a weight or an activation.
            bias: Added to the product; see :meth:`round_bias`.
            a_spec: How ``a`` is put on its grid.
            b_spec: How ``b`` is put on its grid.
        """
        own = self.bitcycle.site(site)
        return multiply(own, product, a, b, bias, a_spec=a_spec, b_spec=b_spec, training=self.training)

    def round_bias(self, site: str, bias: Tensor | None) -> Tensor | None:
        """Round a bias to the bits of the site's weights if the recipe asks for it, else return it unchanged."""
        own = self.bitcycle.site(site)
        if bias is None or not own.recipe.bias:
            return bias
        return round_operand(own, bias, OperandSpec(role=Role.WEIGHT), self.training, "bias")

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        """Yield the weights that the layer rounds: the site, a parameter or a view of one, and what shares a grid.

        By default every site has the parameter of its name, and its bias if the recipe rounds biases.
        """
        for local in self.bitcycle.sites:
            name = local or "weight"
            weight, bias = getattr(self, name, None), getattr(self, name.replace("weight", "bias"), None)
            if isinstance(weight, Tensor):
                yield from self.weight_and_bias(local, weight, bias if isinstance(bias, Tensor) else None)

    def weight_and_bias(
        self, site: str, weight: Tensor, bias: Tensor | None, channel: int = 0
    ) -> Iterator[tuple[str, Tensor, Dims]]:
        """Yield a weight with output channels in dimension ``channel``, and its bias if the recipe rounds biases."""
        recipe = self.bitcycle.recipe
        yield site, weight, weight_dims(recipe.weights, weight, channel)
        if bias is not None and recipe.bias:
            yield site, bias, None


_CLASSES: dict[tuple[type, type], type[nn.Module]] = {}


def quantized_class(mixin: type[QuantizedLayer], original: type[nn.Module]) -> type[nn.Module]:
    """Return the class of a quantised layer: the mixin in front of the layer's own class, created once."""
    known = _CLASSES.get((mixin, original))
    if known is None:
        from bitcycle.nn.functional_ops import intercepted_methods  # it needs the layers

        front = mixin.front or mixin
        forward = _forward_like(original, front)
        members = {"__module__": original.__module__, "forward": forward, **intercepted_methods(original)}
        if issubclass(original, GraphModule):  # its own deep copy has a new class without the conversion
            members["__deepcopy__"] = _copy_attributes
        created = type(mixin.prefix + original.__name__, (front, original), members)
        known = _CLASSES.setdefault((mixin, original), created)  # another thread may have been faster
    return known


def _forward_like(original: type[nn.Module], front: type[ConvertedModule]) -> Callable[..., Any]:
    """Return a ``forward`` that runs that of the front, with the signature of the layer's own.

    Trainers, text generation and exporters learn from the signature which arguments a model takes.
    """

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(self, front):  # restored, but a wrapper such as Accelerate's has kept this method
            return original.forward(self, *arguments, **keywords)
        return front.forward(self, *arguments, **keywords)  # type: ignore[attr-defined]

    forward.__doc__ = original.forward.__doc__
    # Not functools.wraps: code that follows __wrapped__ to undo a wrapper would arrive at the float method.
    with suppress(ValueError):  # a method that is not written in Python may have no signature
        forward.__signature__ = inspect.signature(original.forward)  # type: ignore[attr-defined]
    return forward


def conversion_of(module: nn.Module) -> Conversion | None:
    """Return what conversion stored on a module, or None if the module is not converted."""
    stored = vars(module).get("bitcycle")
    return stored if isinstance(stored, Conversion) else None


def original_class(module: nn.Module) -> type[nn.Module]:
    """Return the class that a module has as a float module."""
    conversion = conversion_of(module)
    return type(module) if conversion is None else conversion.original


def _copy_attributes(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """Return a deep copy of a module, with the same class."""
    copied: nn.Module = object.__new__(type(module))
    memo[id(module)] = copied
    vars(copied).update(copy.deepcopy(vars(module), memo))
    return copied


def _rebuild(mixin: type[QuantizedLayer], original: type[nn.Module]) -> nn.Module:
    rebuilt = quantized_class(mixin, original)
    return rebuilt.__new__(rebuilt)


def _show_bits(site: Site) -> str:
    forward = show_forward(site.weight_bits, site.activation_bits, site.strength)
    backward = show_width(site.backward_bits)
    return forward if forward == backward == "full" else f"{forward}/{backward}"


def show_width(bits: int | None) -> str:
    """Return a width in words."""
    return "full" if bits is None else str(bits)


def show_forward(weights: int | None, activations: int | None, strength: float) -> str:
    """Return the widths of weights and activations, one if they are equal, and a strength that is not 1.

    >>> show_forward(4, 4, 1.0), show_forward(4, None, 1.0), show_forward(4, 8, 0.5)
    ('4', 'W4 Afull', 'W4 A8 strength 0.5')
    """
    bits = show_width(weights)
    if weights != activations:
        bits = f"W{bits} A{show_width(activations)}"
    return bits if strength == 1 else f"{bits} strength {strength:.3g}"


def feature_dims(granularity: Granularity, x: Tensor, features: int = -1) -> Dims:
    """Return which dimensions share a grid, for activations with features in the dimension ``features``, -1 or -2."""
    if granularity == "tensor":
        return None
    if granularity == "row":
        return (features,)
    return tuple(d for d in range(x.dim()) if d != x.dim() + features) or None


def weight_dims(granularity: Granularity, weight: Tensor, channel: int = 0) -> Dims:
    """Return the dimensions that share a grid, for a weight with output channels in dimension ``channel``."""
    if granularity == "tensor":
        return None
    if granularity == "row":
        return (weight.dim() - 1,)
    return (*range(channel), *range(channel + 1, weight.dim()))
