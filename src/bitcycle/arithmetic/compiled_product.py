"""Products of a compiled graph that integers compute: operators that the compiler does not look into.

They compute what eager code computes, at the bits that the site has when the graph runs. A graph keeps the operands as
they are for the backward pass, which puts them on their grids again.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.backends import integer_cpu
from bitcycle.arithmetic.control import EVALUATION, TRAINING, read_precision
from bitcycle.arithmetic.execution import Execution
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.precision import Role
from bitcycle.arithmetic.product_function import Backward, Call, on_grids, product_on_grids
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, MatmulProduct, Product
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.grids import grid_family

GRAD_OUTPUTS: tuple[GradOutput, ...] = ("tensor", "row", "row and column")
_CONVOLUTION, _MATMUL, _LINEAR = range(3)
SMALL = 2**20
"""Elements of ``a`` times outputs for each, below which a compiler does better by fusing operations."""


def is_for_integers(settings: Settings, product: Product, a: Tensor, b: Tensor, specs: tuple[OperandSpec, ...]) -> bool:
    """Return whether integers may compute a product. Its plan decides when the graph runs."""
    if settings.execution is Execution.SIMULATED or not settings.grid.has_codes or not a.is_cpu:
        return False
    if torch.compiler.is_exporting():
        return False
    if a.dtype is torch.float64 or any(spec.has_own_values for spec in specs):
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
    """Return a product at a site as one operator. What it computes with is passed as numbers."""
    settings, (a_spec, b_spec) = site.settings, specs
    if isinstance(product, ConvolutionProduct):
        numbers = [_CONVOLUTION, *product.stride, *product.padding, *product.dilation]
    elif isinstance(product, MatmulProduct):
        numbers = [_MATMUL, int(product.transpose_b)]
    else:
        numbers = [_LINEAR]
    flags = [
        a_spec.role is Role.WEIGHT,
        b_spec.role is Role.WEIGHT,
        a_spec.with_zero,
        b_spec.with_zero,
        settings.stochastic,
        settings.execution is Execution.FASTEST,
        site.slots(training) == TRAINING,
    ]
    dims = [None if spec.dims is None else list(spec.dims) for spec in specs]
    out: Tensor = _product(
        a, b, bias, site.control, settings.grid.name, GRAD_OUTPUTS.index(settings.grad_output), numbers, *dims, flags
    )
    return out


@lru_cache(maxsize=1024)
def _call(
    grid: str,
    grad_output: int,
    numbers: tuple[int, ...],
    a_dims: tuple[int, ...] | None,
    b_dims: tuple[int, ...] | None,
    flags: tuple[bool, ...],
) -> Call:
    """Return what a product is computed with from the arguments of an operator, but for its plan."""
    kind, geometry = numbers[0], numbers[1:]
    product: Product = LinearProduct()
    if kind == _MATMUL:
        product = MatmulProduct(transpose_b=bool(geometry[0]))
    elif kind == _CONVOLUTION:
        product = ConvolutionProduct(geometry[:2], geometry[2:4], geometry[4:], 1)
    roles = [Role.WEIGHT if flag else Role.ACTIVATION for flag in flags[:2]]
    a_spec, b_spec = (
        OperandSpec(dims, role=role, with_zero=with_zero)
        for dims, role, with_zero in zip((a_dims, b_dims), roles, flags[2:4], strict=True)
    )
    execution = Execution.FASTEST if flags[5] else Execution.INTEGER
    settings = Settings(flags[4], GRAD_OUTPUTS[grad_output], execution, grid_family(grid))
    return Call(product, a_spec, b_spec, settings, integer_cpu.SIMULATED)


def _on_grids(a: Tensor, b: Tensor, control: Tensor, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a call at the bits of now, and its operands."""
    *others, flags = (tuple(each) if isinstance(each, list) else each for each in arguments)
    call = _call(*others, flags)
    assert call.a_spec.role is not None
    assert call.b_spec.role is not None
    precision = read_precision(control, TRAINING if flags[-1] else EVALUATION)
    numbers = precision.width(call.a_spec.role), precision.width(call.b_spec.role), precision.strength
    plan = integer_cpu.plan(call.settings, call.product, a, b, *numbers, call.a_spec, call.b_spec)
    call = Call(call.product, call.a_spec, call.b_spec, call.settings, plan)
    return call, *on_grids(call, a, b, *numbers, False, False)


@torch.library.custom_op("bitcycle::product", mutates_args=())
def _product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    control: Tensor,
    grid: str,
    grad_output: int,
    numbers: list[int],
    a_dims: list[int] | None,
    b_dims: list[int] | None,
    flags: list[bool],
) -> Tensor:
    call, on_grid_a, on_grid_b = _on_grids(a, b, control, (grid, grad_output, numbers, a_dims, b_dims, flags))
    return product_on_grids(call, on_grid_a, on_grid_b, bias)


@_product.register_fake
def _(a: Tensor, b: Tensor, bias: Tensor | None, control: Tensor, *arguments: Any) -> Tensor:
    *others, flags = (tuple(each) if isinstance(each, list) else each for each in arguments)
    return _call(*others, flags).product.output(a, b, bias)


@torch.library.custom_op("bitcycle::product_backward", mutates_args=("control",))
def _product_backward(
    error: Tensor,
    a: Tensor,
    b: Tensor,
    control: Tensor,
    needed: list[bool],
    grid: str,
    grad_output: int,
    numbers: list[int],
    a_dims: list[int] | None,
    b_dims: list[int] | None,
    flags: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    call, on_grid_a, on_grid_b = _on_grids(a, b, control, (grid, grad_output, numbers, a_dims, b_dims, flags))
    ctx = SimpleNamespace(
        call=call, control=control, a_shape=a.shape, b_shape=b.shape, a_dtype=a.dtype, b_dtype=b.dtype
    )
    of_a, of_b, of_bias = needed
    gradients = Backward(ctx, error).gradients(on_grid_a if of_b else None, on_grid_b if of_a else None, of_bias)
    grad_a, grad_b = (_in_layout(gradient, x) for gradient, x in zip(gradients[:2], (a, b), strict=True))
    return grad_a, grad_b, error.new_empty(0) if gradients[2] is None else gradients[2]


def _in_layout(gradient: Tensor | None, x: Tensor) -> Tensor:
    """Return the gradient of an operand in the memory layout that the compiler expects; an empty tensor for none."""
    if gradient is None:
        return x.new_empty(0)
    expected = torch.empty_like(x, device="meta").stride()
    return gradient if gradient.stride() == expected else torch.empty_like(x).copy_(gradient)


@_product_backward.register_fake
def _(error: Tensor, a: Tensor, b: Tensor, control: Tensor, needed: list[bool], *arguments: Any) -> tuple[Tensor, ...]:
    shapes = [torch.empty_like(x) if need else x.new_empty(0) for x, need in zip((a, b), needed, strict=False)]
    return *shapes, error.new_empty(error.shape[_channel(arguments)] if needed[2] else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, _, ctx.control, *ctx.arguments = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, error: Tensor) -> tuple[Tensor | None, ...]:
    needed = list(ctx.needs_input_grad[:3])
    found = _product_backward(error, *ctx.saved_tensors, ctx.control, needed, *ctx.arguments)
    gradients = [gradient if need else None for gradient, need in zip(found, needed, strict=True)]
    return *gradients, None, *(None for _ in ctx.arguments)


_product.register_autograd(_gradients, setup_context=_setup)


def _channel(arguments: tuple[Any, ...]) -> int:
    """Return the dimension of the output that a bias belongs to."""
    return 1 if arguments[2][0] == _CONVOLUTION else -1
