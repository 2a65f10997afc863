"""Products of a compiled graph that integers compute: operators that the compiler does not look into.

They compute what eager code computes, at the bits that the site has when the graph runs. A graph keeps the operands as
they are for the backward pass, which puts them on their grids again, at the bits of the forward pass.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.backends import integer_cpu
from bitcycle.arithmetic.control import EVALUATION, TRAINING, read_precision
from bitcycle.arithmetic.execution import Execution
from bitcycle.arithmetic.operands import Operand, OperandSpec
from bitcycle.arithmetic.precision import Role
from bitcycle.arithmetic.product_function import Backward, Call, on_grids, product_on_grids
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, MatmulProduct, Product
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.grids import grid_family

GRAD_OUTPUTS: tuple[GradOutput, ...] = ("tensor", "row", "row and column")
SMALL = 2**20
"""Elements of ``a`` times outputs for each, below which a compiler does better by fusing operations."""


def is_for_integers(settings: Settings, product: Product, a: Tensor, b: Tensor, specs: tuple[OperandSpec, ...]) -> bool:
    """Return whether integers may compute a product. Its plan decides when the graph runs."""
    if settings.execution is Execution.SIMULATED or not settings.grid.has_codes or not a.is_cpu:
        return False
    if torch.compiler.is_exporting() or a.dtype is torch.float64 or any(spec.has_own_values for spec in specs):
        return False
    outputs = b.shape[0]
    if isinstance(product, ConvolutionProduct):
        if a.dim() != 4 or product.transposed or product.groups > 1:
            return False
    elif isinstance(product, MatmulProduct):
        outputs = b.shape[-2 if product.transpose_b else -1]
    elif not isinstance(product, LinearProduct):
        return False
    return settings.execution is Execution.INTEGER or bool(a.numel() * outputs >= SMALL)


def compiled_product(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    specs: tuple[OperandSpec, OperandSpec],
    training: bool,
) -> Tensor:
    """Return a product at a site as one operator. What it computes with is passed as numbers, see :func:`_call`."""
    settings = site.settings
    geometry: list[int] = []
    if isinstance(product, ConvolutionProduct):
        geometry = [*product.stride, *product.padding, *product.dilation]
    elif isinstance(product, MatmulProduct):
        geometry = [int(product.transpose_b)]
    is_training = training or site.evaluation_slots == TRAINING
    flags = [is_training, settings.stochastic, settings.execution is Execution.FASTEST]
    flags += [spec.role is Role.WEIGHT for spec in specs] + [spec.with_zero for spec in specs]
    numbers = [GRAD_OUTPUTS.index(settings.grad_output), *map(int, flags), *geometry]
    dims = [None if spec.dims is None else list(spec.dims) for spec in specs]
    out: Tensor = _product(a, b, bias, site.control, settings.grid.name, numbers, *dims)[0]
    return out


@lru_cache(maxsize=1024)
def _call(grid: str, numbers: tuple[int, ...], *dims: tuple[int, ...] | None) -> Call:
    """Return what a product is computed with, but for its plan. Its kind follows from the length of its geometry."""
    grad_output, _, stochastic, is_fastest, *of_operands = numbers[:8]
    geometry = numbers[8:]
    product: Product = LinearProduct()
    if len(geometry) == 1:
        product = MatmulProduct(transpose_b=bool(geometry[0]))
    elif geometry:
        product = ConvolutionProduct(geometry[:2], geometry[2:4], geometry[4:], 1)
    a_spec, b_spec = (
        OperandSpec(each, role=Role.WEIGHT if is_weight else Role.ACTIVATION, with_zero=bool(with_zero))
        for each, is_weight, with_zero in zip(dims, of_operands[:2], of_operands[2:], strict=True)
    )
    execution = Execution.FASTEST if is_fastest else Execution.INTEGER
    settings = Settings(bool(stochastic), GRAD_OUTPUTS[grad_output], execution, grid_family(grid))
    return Call(product, a_spec, b_spec, settings, integer_cpu.SIMULATED)


def _call_of(arguments: tuple[Any, ...]) -> Call:
    return _call(*(tuple(each) if isinstance(each, list) else each for each in arguments))


def _on_grids(a: Tensor, b: Tensor, control: Tensor, arguments: tuple[Any, ...]) -> tuple[Call, Operand, Operand]:
    """Return a call at the bits of a site, and its operands."""
    call = _call_of(arguments)
    assert call.a_spec.role is not None
    assert call.b_spec.role is not None
    precision = read_precision(control, TRAINING if arguments[1][1] else EVALUATION)
    numbers = precision.width(call.a_spec.role), precision.width(call.b_spec.role), precision.strength
    plan = integer_cpu.plan(call.settings, call.product, a, b, *numbers, call.a_spec, call.b_spec)
    call = replace(call, plan=plan)
    return call, *on_grids(call, a, b, *numbers, False, False)


@torch.library.custom_op("bitcycle::product", mutates_args=())
def _product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    control: Tensor,
    grid: str,
    numbers: list[int],
    a_dims: list[int] | None,
    b_dims: list[int] | None,
) -> tuple[Tensor, Tensor]:
    """Return the product, and the numbers of the site as they are now."""
    out = product_on_grids(*_on_grids(a, b, control, (grid, numbers, a_dims, b_dims)), bias)
    return out, control.clone()


@_product.register_fake
def _(a: Tensor, b: Tensor, bias: Tensor | None, control: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    return _call_of(arguments).product.output(a, b, bias), torch.empty_like(control)


@torch.library.custom_op("bitcycle::product_backward", mutates_args=("control",))
def _product_backward(
    error: Tensor,
    a: Tensor,
    b: Tensor,
    before: Tensor,
    control: Tensor,
    needed: list[bool],
    grid: str,
    numbers: list[int],
    a_dims: list[int] | None,
    b_dims: list[int] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients. ``before`` has the numbers of the site in the forward pass."""
    call, on_grid_a, on_grid_b = _on_grids(a, b, before, (grid, numbers, a_dims, b_dims))
    of_a, of_b, of_bias = needed
    types = {"a_shape": a.shape, "a_dtype": a.dtype, "b_shape": b.shape, "b_dtype": b.dtype}
    backward = Backward(SimpleNamespace(call=call, control=control, **types), error)
    grad_a, grad_b, bias = backward.gradients(on_grid_a if of_b else None, on_grid_b if of_a else None, of_bias)
    return _in_layout(grad_a, a), _in_layout(grad_b, b), error.new_empty(0) if bias is None else bias


def _in_layout(gradient: Tensor | None, x: Tensor) -> Tensor:
    """Return the gradient of an operand in the memory layout that the compiler expects; an empty tensor for none."""
    if gradient is None:
        return x.new_empty(0)
    expected = torch.empty_like(x, device="meta").stride()
    return gradient if gradient.stride() == expected else torch.empty_like(x).copy_(gradient)


@_product_backward.register_fake
def _(
    error: Tensor, a: Tensor, b: Tensor, before: Tensor, control: Tensor, needed: list[bool], *arguments: Any
) -> tuple[Tensor, ...]:
    grad_a, grad_b = (
        torch.empty_like(x) if is_needed else x.new_empty(0) for x, is_needed in zip((a, b), needed, strict=False)
    )
    channel = 1 if isinstance(_call_of(arguments).product, ConvolutionProduct) else -1
    return grad_a, grad_b, error.new_empty(error.shape[channel] if needed[2] else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, _, ctx.control, *ctx.arguments = inputs
    ctx.save_for_backward(a, b, output[1])


def _gradients(ctx: Any, error: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    needed = list(ctx.needs_input_grad[:3])
    found = _product_backward(error, *ctx.saved_tensors, ctx.control, needed, *ctx.arguments)
    gradients = [gradient if is_needed else None for gradient, is_needed in zip(found, needed, strict=True)]
    return *gradients, None, *(None for _ in ctx.arguments)


_product.register_autograd(_gradients, setup_context=_setup)
