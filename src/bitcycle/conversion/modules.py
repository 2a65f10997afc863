"""Conversion of single modules: put a mixin in front of the class of a module, and remove it."""

from __future__ import annotations

from torch import nn

from bitcycle.arithmetic import Site
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, recorded_skips
from bitcycle.conversion.rules import Rule
from bitcycle.conversion.skip_reasons import mixin_for
from bitcycle.nn.activation import LightReLU
from bitcycle.nn.functional_ops import FunctionalOps, KeptLayer, public_methods
from bitcycle.nn.layer import Conversion, conversion_of, quantized_class
from bitcycle.nn.registry import target_class
from bitcycle.nn.site_names import join_names, skip_site
from bitcycle.nn.transformer import FusedContainer


def convert_module(name: str, module: nn.Module, recipe: Recipe, keep: tuple[Rule, ...] = ()) -> tuple[Skip, ...]:
    """Convert a module if it multiplies, or if its code may. Return what of it stays in full precision."""
    mixin, skip = mixin_for(module)
    if mixin is None:
        if LightReLU.supports(module):
            apply_conversion(module, Conversion(LightReLU, target_class(module), recipe, {}))
        elif skip is None and not name:  # a container that is the whole model: its first run is searched
            apply_conversion(module, Conversion(FunctionalOps, target_class(module), recipe, {}))
        return () if skip is None else (skip,)
    local_names = mixin.site_names(module, recipe)
    has_calls = mixin.is_intercepted or bool(public_methods(target_class(module)))
    if local_names or has_calls or issubclass(mixin, FusedContainer):
        full_names = {local: join_names(name, local) for local in local_names}
        layer_sites = {local: Site(full, recipe, skip_site(full, keep)) for local, full in full_names.items()}
        rules = tuple(rule for rule in keep if isinstance(rule, str))
        template = Site(name, recipe) if has_calls else None
        apply_conversion(module, Conversion(mixin, target_class(module), recipe, layer_sites, template, rules))
    return mixin.skips(module, recipe)


def apply_conversion(module: nn.Module, conversion: Conversion) -> None:
    """Put the mixin of a conversion in front of the class of a float layer."""
    assert conversion_of(module) is None, f"{type(module).__name__} is already converted"
    vars(module)["bitcycle"] = conversion
    converted = quantized_class(conversion.mixin, conversion.original)
    if type(module) is conversion.original:
        module.__class__ = converted
        conversion.mixin.attach(module)
    else:  # a lazy module takes this class when it learns its shape
        vars(module)["cls_to_become"] = converted


def restore_layer(module: nn.Module) -> None:
    """Remove the mixin from a layer that has one."""
    conversion = conversion_of(module)
    if conversion is None:
        return
    check_restorable(module)
    if type(module) is quantized_class(conversion.mixin, conversion.original):
        conversion.mixin.detach(module)
        module.__class__ = conversion.original
    vars(module).pop("cls_to_become", None)
    del vars(module)["bitcycle"]


def check_restorable(module: nn.Module) -> None:
    """Raise an error if a converted module is no longer what conversion made of it."""
    conversion = conversion_of(module)
    if conversion is None:
        return
    converted = quantized_class(conversion.mixin, conversion.original)
    if type(module) is not converted and vars(module).get("cls_to_become") is not converted:
        raise ValueError(f"{type(module).__name__} was wrapped or changed after conversion: undo that, then restore")


def hide_kept_layers(model: nn.Module) -> None:
    """Hide the products of layers in full precision from the modules of user code in whose ``forward`` they run."""
    for outer in model.modules():
        conversion = conversion_of(outer)
        if conversion is None or conversion.template is None:
            continue
        for module in outer.modules():
            is_chosen = any(skip.kind.is_chosen for skip in recorded_skips(module) or ())
            if is_chosen and conversion_of(module) is None:
                apply_conversion(module, Conversion(KeptLayer, target_class(module), conversion.recipe, {}))
