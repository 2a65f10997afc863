"""Conversion: make a model compute with only a few bits, set the bits, and return to the float model."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from bitcycle.arithmetic import Site
from bitcycle.arithmetic.execution import Execution, resolve
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.site import UNCHANGED, SetBits, SiteGroup, Unchanged, check_width, write_bits
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.rules import Rule, Rules, as_rules, excluded_layers, ruled_out_modules
from bitcycle.conversion.sequence_models import ActivationChoice, choose_activations, recipe_for
from bitcycle.conversion.sites import conversions, sites
from bitcycle.conversion.skip_reasons import FORWARD, explain, mixin_for
from bitcycle.conversion.tracing import ProductTracer, preserve_state, run_on_copies
from bitcycle.nn.activation import LightReLU
from bitcycle.nn.code_scan import products_of_function, products_of_module
from bitcycle.nn.families import load_families
from bitcycle.nn.layer import Conversion, QuantizedLayer, conversion_of, original_class, quantized_class
from bitcycle.nn.own_products import KeptLayer, OwnProducts, QuantizedForward
from bitcycle.nn.registry import owner_of, target_class
from bitcycle.nn.site_names import join_names, skip_site
from bitcycle.nn.transformer import FusedContainer
from bitcycle.schedules.strengths import check_strength

M = TypeVar("M", bound=nn.Module)

_SKIPS = "bitcycle_skips"
"""The attribute in which conversion stores on a module why it, or a part of it, was skipped."""
_CHOICE = "bitcycle_activations"
"""The attribute in which conversion stores on a model the granularity of its activations, and why."""


def quantize(
    model: M,
    recipe: Recipe | None = None,
    *,
    keep: Rules = None,
    where: Rules = None,
    policy: str | None = None,
    example_inputs: Any = None,
    execute: str = "auto",
) -> M:
    """Convert a model in place so that it can compute its products with only a few bits.

    The model computes in full precision until bits are set; it warns if it evaluates before that. The bits of
    evaluation travel with copies, pickles and ``state_dict`` files of the model: a converted model whose bits were not
    set takes them from the state it loads. Its parameters stay the same objects under the same names.
    :func:`restore` undoes the conversion. Products that a module's own code computes, such as
    ``F.scaled_dot_product_attention`` or ``a @ b``, become sites of that module when it first runs. Products that stay
    in full precision because bitcycle does not know them are reported in one warning.

    Args:
        model: The model to convert. Convert it before you wrap it (DDP, FSDP) or compile it.
        recipe: How sites quantise; by default ``bc.Recipe()``.
        keep: What stays in full precision: names with wildcards or module classes. A container includes everything
            inside it. A name may also be that of a single site in a layer with several sites.
        where: What is converted, by the same rules; by default everything.
        policy: A model family of the paper: keeps in full precision what the paper kept (nothing in some families), and
            uses one grid per tensor for activations. ``"cifar-resnet"``, ``"imagenet-resnet"``, ``"retinanet"``,
            ``"gnn"``, ``"lstm"`` or ``"bert"``.
        example_inputs: A tensor, a tuple of arguments, or a mapping of keyword arguments. The model runs on them once,
            so that the products of modules' own ``forward`` become sites now.
        execute: How sites compute what the recipe says: ``"simulated"`` rounds and multiplies in floating point,
            ``"integer"`` multiplies integers wherever that is exact, ``"auto"`` where it is also faster, if this
            machine has fast integer products. The results differ only by the rounding of floating-point sums.

    Returns:
        The same model.

    Raises:
        TypeError: ``model`` is not a :class:`torch.nn.Module`.
        ValueError: The model is converted already, wrapped or compiled, or an argument is invalid.

    Example:
        >>> import bitcycle as bc
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model = bc.quantize(model, keep="2")
        >>> bc.set_bits(model, forward=4, backward=8)
        >>> model
        Sequential(
          (0): QuantizedLinear(in_features=8, out_features=8, bias=True, bits=4/8)
          (1): ReLU()
          (2): Linear(in_features=8, out_features=2, bias=True)
        )
    """
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe must be a bc.Recipe, got {type(recipe).__name__}; inputs are example_inputs=...")
    _refuse_what_cannot_be_converted(model)
    execution = resolve(execute)
    load_families()
    keep_rules = as_rules(keep)
    ruled_out = ruled_out_modules(model, keep_rules, as_rules(where))
    excluded = excluded_layers(model, ruled_out, policy)
    _refuse_what_makes_no_sense(model, recipe, excluded)
    choice = choose_activations(model, recipe, policy)
    vars(model)[_CHOICE] = choice
    try:
        for name, module in list(model.named_modules()):
            if owner_of(name, model) is None:
                own = recipe_for(module, recipe, choice)
                skips = (excluded[module],) if module in excluded else convert_module(name, module, own, keep_rules)
                vars(module)[_SKIPS] = skips + _skips_of_hooks(module)
        hide_nested_layers(model)
        set_execution(model, execution)
        if example_inputs is not None:
            discover_products(model, recipe_for(model, recipe, choice), keep_rules, ruled_out, example_inputs)
            set_execution(model, execution)  # modules that were found by the run
        _join_sites(model)
    except BaseException:  # such as example inputs that do not fit
        restore(model)
        raise
    unknown = [
        f"{name or 'the model itself'} ({original_class(module).__name__}: {explain(vars(module)[_SKIPS])})"
        for name, module in model.named_modules()
        if any(skip.kind.is_unknown for skip in vars(module).get(_SKIPS, ()))
    ]
    if unknown:
        warnings.warn(
            "bc.quantize does not know these products, which stay in full precision: " + "; ".join(unknown),
            stacklevel=2,
        )
    return model


def restore(model: M) -> M:
    """Turn a converted model back into the float model: the same objects, classes and parameters as before.

    Args:
        model: A converted model. A float model is returned unchanged.

    Returns:
        The same model.

    Raises:
        ValueError: A layer was wrapped or changed after conversion. Nothing is restored then.

    Example:
        >>> import bitcycle as bc
        >>> layer = nn.Linear(2, 2)
        >>> type(bc.restore(bc.quantize(layer))) is nn.Linear
        True
    """
    modules = list(model.modules())
    for module in modules:
        _refuse_what_cannot_be_restored(module)
    for module in modules:
        restore_layer(module)
        vars(module).pop(_SKIPS, None)
        vars(module).pop(_CHOICE, None)
    return model


def set_bits(
    model: nn.Module,
    forward: SetBits = UNCHANGED,
    backward: SetBits = UNCHANGED,
    *,
    weights: SetBits = UNCHANGED,
    activations: SetBits = UNCHANGED,
    evaluate: SetBits = UNCHANGED,
    strength: float | Unchanged = UNCHANGED,
    where: str | Iterable[str] | None = None,
) -> None:
    """Set the bits of all sites of a converted model, or of those whose names match.

    Bits are a width of the recipe's grid, by default an integer from 1 to 16, or ``None`` for full precision. An
    argument that is omitted changes nothing, with one exception: without ``evaluate``, new bits of training hold in
    evaluation mode too. Setting bits never rebuilds a layer or recompiles a compiled model.

    Parameters are weights, and so are the operands that a layer or a function calls its weight. All other operands are
    activations: both operands of the products of attention, for example.

    Args:
        model: A converted model.
        forward: Bits of both operands, weights and activations.
        backward: Bits of grad_output, the gradient that arrives at the output of a site.
        weights: Bits of weights, in place of ``forward``.
        activations: Bits of activations, in place of ``forward``.
        evaluate: Bits of both operands in evaluation mode. If it is omitted, each operand follows the bits of training
            that are given, even if an earlier call gave other bits for evaluation.
        strength: How far operands go to their grid: their values are ``x + strength (Q(x) - x)``. 1, the default of a
            converted model, is on the grid; 0 is full precision. The backward pass multiplies the same values, and
            its straight-through gradient does not depend on the strength. It also holds in evaluation mode.
        where: Names of sites, with wildcards; by default all sites. A container includes everything inside it.

    Raises:
        ValueError: The bits or the strength are out of range, ``forward`` is given together with ``weights`` or
            ``activations``, the model is not converted, or a name matches no site.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
        >>> bc.set_bits(model, forward=4, backward=8)
        >>> bc.set_bits(model, forward=None, where="1")
        >>> [(row.forward, row.backward) for row in bc.summary(model).sites]
        [(4, 8), (None, 8)]
        >>> bc.set_bits(model, weights=4, activations=8)
        >>> model[0]
        QuantizedLinear(in_features=4, out_features=4, bias=True, bits=W4 A8/8)
    """
    chosen = list(sites(model, where).values())
    if forward is not UNCHANGED:
        if not (weights is UNCHANGED and activations is UNCHANGED):
            raise ValueError("forward sets the bits of weights and of activations: give forward, or the other two")
        weights = activations = check_width(forward, chosen, "forward")
    bits = {"weights": weights, "activations": activations, "backward": backward}
    given: dict[str, Any] = {
        name: check_width(width, chosen, name) for name, width in bits.items() if width is not UNCHANGED
    }
    if evaluate is not UNCHANGED:
        given["evaluate_weights"] = given["evaluate_activations"] = check_width(evaluate, chosen, "evaluate")
    if strength is not UNCHANGED:
        given["strength"] = check_strength(strength)
    write_bits(chosen, **given)


def skips_of(model: nn.Module) -> dict[str, tuple[Skip, ...]]:
    """Return why each module that is skipped, wholly or in part, is skipped, by name."""
    load_families()
    skipped = {}
    for name, module in model.named_modules():
        skips: tuple[Skip, ...] | None = vars(module).get(_SKIPS)
        conversion = conversion_of(module)
        if conversion is not None and conversion.template is not None:
            skips = (*(skips or ()), *_discovery_so_far(module, conversion))
        if skips is None:
            skips = () if conversion is not None or owner_of(name, model) is not None else _why_float(module)
        if skips:
            skipped[name] = skips
    return skipped


def activation_choice(model: nn.Module) -> ActivationChoice | None:
    """Return how the activations of a converted model are quantised, and why; None for a float model or a part."""
    choices = (vars(module).get(_CHOICE) for module in model.modules())
    return next((choice for choice in choices if choice is not None), None)


def convert_layer(module: nn.Module, mixin: type[QuantizedLayer], recipe: Recipe, sites: dict[str, Site]) -> None:
    """Put a mixin in front of a layer's class, with sites by their local names."""
    apply_conversion(module, Conversion(mixin, target_class(module), recipe, sites))


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
    _refuse_what_cannot_be_restored(module)
    if type(module) is quantized_class(conversion.mixin, conversion.original):
        conversion.mixin.detach(module)
        module.__class__ = conversion.original
    vars(module).pop("cls_to_become", None)
    del vars(module)["bitcycle"]


def discover_products(
    model: nn.Module, recipe: Recipe, keep: tuple[Rule, ...], ruled_out: Mapping[nn.Module, Skip], inputs: Any
) -> None:
    """Run a converted model once, so that products in modules' own ``forward`` become sites.

    A module that multiplies although its code does not show it is converted unless rules exclude it, and the model runs
    again. What cannot be computed at sites in this way either is a reason to skip the module.
    """
    while True:
        outside: dict[nn.Module, tuple[str, list[str]]] = {}

        def ran_outside(
            name: str, module: nn.Module, operation: str, *_: Any, outside: dict[Any, Any] = outside
        ) -> None:
            if _showed_no_product(module):
                operations = outside.setdefault(module, (name, []))[1]
                operations += [operation] if operation not in operations else []

        with preserve_state(model), torch.no_grad(), ProductTracer(model, ran_outside):
            run_on_copies(model, inputs)
        changed = False
        for module, (name, _) in outside.items():
            if module in ruled_out:
                vars(module)[_SKIPS] = (ruled_out[module],)
            elif conversion_of(module) is None and FORWARD not in vars(module):
                convert_own_forward(name, module, recipe, keep)
                vars(module)[_SKIPS] = ()
            else:
                continue
            changed = True
        if not changed:
            break
        hide_nested_layers(model)
    for module, (_, operations) in outside.items():
        conversion = conversion_of(module)
        if conversion is None or not (conversion.sites or any(_left_float(conversion))):
            vars(module)[_SKIPS] = (Skip(SkipKind.RAN_OUTSIDE_SITES, tuple(operations)),)


def _showed_no_product(module: nn.Module) -> bool:
    """Return whether conversion found no reason to skip a module, except that its code shows no product."""
    return all(skip.kind.denies_products for skip in vars(module).get(_SKIPS, ()))


def convert_own_forward(name: str, module: nn.Module, recipe: Recipe, keep: tuple[Rule, ...] = ()) -> None:
    """Make the products of a module's own ``forward`` sites, which are created when it runs."""
    convert_layer(module, QuantizedForward, recipe, {})
    _prepare_discovery(name, module, recipe, keep)


def _prepare_discovery(name: str, module: nn.Module, recipe: Recipe, keep: tuple[Rule, ...]) -> None:
    conversion = conversion_of(module)
    assert conversion is not None
    conversion.template = Site(name, recipe)
    conversion.keep = tuple(rule for rule in keep if isinstance(rule, str))


def convert_module(name: str, module: nn.Module, recipe: Recipe, keep: tuple[Rule, ...] = ()) -> tuple[Skip, ...]:
    """Convert a module if it multiplies. Return what of it stays in full precision."""
    mixin, skip, _ = mixin_for(module)
    if mixin is None:
        if LightReLU.takes(module):
            convert_layer(module, LightReLU, recipe, {})
        return () if skip is None else (skip,)
    skips = (*mixin.skips(module, recipe), *([] if skip is None else [skip]))
    local_names = mixin.site_names(module, recipe)
    own_products = issubclass(mixin, QuantizedForward) or (
        issubclass(mixin, OwnProducts) and bool(mixin.unknown_products(module))
    )
    if local_names or own_products or issubclass(mixin, FusedContainer):
        full_names = {local: join_names(name, local) for local in local_names}
        layer_sites = {local: Site(full, recipe, skip_site(full, keep)) for local, full in full_names.items()}
        convert_layer(module, mixin, recipe, layer_sites)
        if own_products:
            _prepare_discovery(name, module, recipe, keep)
    return skips


def hide_nested_layers(model: nn.Module) -> list[nn.Module]:
    """Hide the products of layers from the modules in whose own ``forward`` they run.

    Return the layers in full precision that were converted for that.
    """
    kept = []
    for outer in model.modules():
        conversion = conversion_of(outer)
        if conversion is None or conversion.template is None:
            continue
        for module in outer.modules():
            inner = conversion_of(module)
            if module is outer:
                continue
            if inner is not None:
                inner.nested = inner.template is None
            elif any(skip.kind.is_chosen for skip in vars(module).get(_SKIPS, ())):
                convert_layer(module, KeptLayer, conversion.recipe, {})
                kept.append(module)
    return kept


def set_execution(model: nn.Module, execution: Execution) -> None:
    """Set how all sites of a model compute, also those that are yet to be discovered."""
    for _, conversion in conversions(model):
        for site in conversion.all_sites():
            site.execution = execution


def _join_sites(model: nn.Module) -> None:
    """Make the sites of a model one group, also those that are yet to be discovered."""
    group = SiteGroup()
    for _, conversion in conversions(model):
        for site in conversion.all_sites():
            site.join(group)


def _why_float(module: nn.Module) -> tuple[Skip, ...]:
    """Return why a module that conversion has not visited is a float module."""
    mixin, skip, _ = mixin_for(module)
    skip = skip if mixin is None else Skip(SkipKind.NOT_CONVERTED)
    return () if skip is None else (skip,)


def _discovery_so_far(module: nn.Module, conversion: Conversion) -> Iterator[Skip]:
    """Yield why products of a module's own ``forward`` are not sites."""
    left_float = [*_left_float(conversion)]
    yield from left_float
    if not left_float and not conversion.sites:
        products = products_of_module(conversion.original, module) or ("found by a run",)
        yield Skip(SkipKind.NOT_AT_A_SITE if conversion.has_run else SkipKind.NOT_RUN_YET, products)


def _left_float(conversion: Conversion) -> Iterator[Skip]:
    """Yield which calls of a module's own ``forward`` were left in full precision."""
    if conversion.products_without_grids:
        yield Skip(SkipKind.NO_GRID, tuple(sorted(conversion.products_without_grids)))
    if conversion.products_with_output_options:
        yield Skip(SkipKind.OUTPUT_OPTIONS, tuple(sorted(conversion.products_with_output_options)))


def _skips_of_hooks(module: nn.Module) -> tuple[Skip, ...]:
    """Return the products in functions that a module calls before or after its ``forward``."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    products = sorted({name for hook in hooks for name in products_of_function(hook)})
    return (Skip(SkipKind.HOOK, tuple(products)),) if products else ()


def _refuse_what_cannot_be_restored(module: nn.Module) -> None:
    conversion = conversion_of(module)
    if conversion is None:
        return
    converted = quantized_class(conversion.mixin, conversion.original)
    if type(module) is not converted and vars(module).get("cls_to_become") is not converted:
        raise ValueError(f"{type(module).__name__} was wrapped or changed after conversion: undo that, then restore")


def _refuse_what_makes_no_sense(model: nn.Module, recipe: Recipe, excluded: Container[nn.Module]) -> None:
    """Raise an error before anything changes if some layer cannot be quantised by this recipe."""
    for name, module in model.named_modules():
        mixin = None if module in excluded else mixin_for(module)[0]
        reason = None if mixin is None else mixin.refuses(module, recipe)
        if reason is not None:
            label = f"{name or 'the model'} ({type(module).__name__})"
            raise ValueError(f"{label}: {reason}; keep it in full precision with keep={name!r}")


def _refuse_what_cannot_be_converted(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"bc.quantize takes a torch.nn.Module, got {type(model).__name__}")
    for name, module in model.named_modules():
        if conversion_of(module) is not None:
            raise ValueError(f"{name or 'the model'} is already quantised: call bc.restore(model) first")
        bases = {base.__name__ for base in type(module).__mro__}
        wrappers = bases & {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DataParallel"}
        if wrappers:
            raise ValueError(f"the model is wrapped by {wrappers.pop()}: convert it first, then wrap it")
        if "OptimizedModule" in bases:
            raise ValueError("the model is compiled: convert it first, then torch.compile it")
        if "ScriptModule" in bases:
            raise ValueError("a TorchScript module cannot be converted: convert the model it was made from")
