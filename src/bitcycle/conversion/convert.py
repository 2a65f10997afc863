"""Conversion: make a model compute with only a few bits, set the bits, and return to the float model."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, TypeVar

import torch
from torch import nn

from bitcycle.arithmetic import Observer, observing
from bitcycle.arithmetic.execution import Execution, resolve
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.site import UNCHANGED, SetBits, SiteGroup, Unchanged, check_width, write_bits
from bitcycle.arithmetic.skip import SkipKind, forget_skips, record_skips
from bitcycle.conversion.modules import check_restorable, convert_module, hide_kept_layers, restore_layer
from bitcycle.conversion.rules import Rules, as_rules, excluded_layers
from bitcycle.conversion.running import copy_inputs, preserve_state, run_model
from bitcycle.conversion.sites import conversions, sites
from bitcycle.conversion.skip_reasons import mixin_for
from bitcycle.nn.families import load_families
from bitcycle.nn.functional_ops import search_run, warn_of_skips
from bitcycle.nn.interception import hide_products
from bitcycle.nn.layer import conversion_of
from bitcycle.nn.registry import owner_of
from bitcycle.schedules.base import validate_strength

M = TypeVar("M", bound=nn.Module)


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
        policy: A model family of the paper: keeps in full precision what the paper kept (nothing in some families).
            ``"cifar-resnet"``, ``"imagenet-resnet"``, ``"retinanet"``, ``"gnn"``, ``"lstm"`` or ``"bert"``.
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
    _check_convertible(model)
    execution = resolve(execute)
    load_families()
    keep_rules = as_rules(keep)
    excluded = excluded_layers(model, keep_rules, as_rules(where), policy)
    _check_recipe_fits(model, recipe, excluded)
    try:
        for name, module in list(model.named_modules()):
            if owner_of(name, model) is None:
                skips = (excluded[module],) if module in excluded else convert_module(name, module, recipe, keep_rules)
                record_skips(module, skips)
        hide_kept_layers(model)
        set_execution(model, execution)
        group = SiteGroup()
        for _, conversion in conversions(model):
            for site in conversion.all_sites():
                site.join(group)
        if example_inputs is not None:
            inputs = copy_inputs(model, example_inputs)
            with hide_products(), search_run(model), preserve_state(model), observing(Observer()), torch.no_grad():
                run_model(model, inputs)
    except BaseException:  # such as example inputs that do not fit
        restore(model)
        raise
    warn_of_skips(model, {SkipKind.PATCHED_METHOD}, "products of these modules stay in full precision")
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
        check_restorable(module)
    for module in modules:
        restore_layer(module)
        forget_skips(module)
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
        given["strength"] = validate_strength(strength)
    write_bits(chosen, **given)


def set_execution(model: nn.Module, execution: Execution) -> None:
    """Set how all sites of a model compute, also those that are yet to be discovered."""
    for _, conversion in conversions(model):
        for site in conversion.all_sites():
            site.execution = execution


def _check_recipe_fits(model: nn.Module, recipe: Recipe, excluded: Container[nn.Module]) -> None:
    """Raise an error before anything changes if some layer cannot be quantised by this recipe."""
    for name, module in model.named_modules():
        mixin = None if module in excluded else mixin_for(module)[0]
        reason = None if mixin is None else mixin.refuses(module, recipe)
        if reason is not None:
            label = f"{name or 'the model'} ({type(module).__name__})"
            raise ValueError(f"{label}: {reason}; keep it in full precision with keep={name!r}")


def _check_convertible(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"bc.quantize takes a torch.nn.Module, got {type(model).__name__}")
    for name, module in model.named_modules():
        bases = {base.__name__ for base in type(module).__mro__}
        wrappers = bases & {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DataParallel"}
        if wrappers:
            raise ValueError(f"the model is wrapped by {wrappers.pop()}: convert it first, then wrap it")
        if "OptimizedModule" in bases:
            raise ValueError("the model is compiled: convert it first, then torch.compile it")
        if "ScriptModule" in bases:
            raise ValueError("a TorchScript module cannot be converted: convert the model it was made from")
        if conversion_of(module) is not None:
            raise ValueError(f"{name or 'the model'} is already quantised: call bc.restore(model) first")
