"""Products that a module's own ``forward`` computes: each call of a product function becomes a site.

While such a module runs, a :class:`torch.overrides.TorchFunctionMode` sees the torch functions that its ``forward``
calls. A function that multiplies is computed at a site of the module. Sites are named by the function and the order of
calls, ``attn:sdpa.scores``, ``attn:matmul``, ``attn:matmul#2``, and are created at the first call. The code of child
modules that are layers, converted or kept in full precision, is hidden from the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from bitcycle.arithmetic import (
    ComposedProduct,
    ConvolutionProduct,
    LinearProduct,
    MatmulProduct,
    OperandSpec,
    Role,
    Site,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.op_macs import RULES
from bitcycle.arithmetic.precision import role_of
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.site import KEY
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.code_scan import scan_for_products
from bitcycle.nn.convolution import activation_dims
from bitcycle.nn.layer import TEMPLATE, QuantizedLayer, feature_dims, weight_dims
from bitcycle.nn.site_names import join_names, skip_site

Function = Callable[..., Any]

FUSED = {"multi_head_attention_forward"}
"""Functions with products inside that a mode does not see."""

COLUMN_MAJOR = {
    *(torch.linalg.solve, torch.linalg.solve_triangular, torch.linalg.inv, torch.linalg.cholesky),
    *(torch.inverse, torch.Tensor.inverse, torch.cholesky_solve, torch.Tensor.cholesky_solve),
}
"""Functions whose results lie in memory like a transposed view, although nothing was transposed."""


class OwnProducts(AttentionLayer):
    """Base of modules whose own ``forward`` multiplies."""

    def run_own_forward(self, forward: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Run the float ``forward`` with each of its products computed at a site."""
        compiling = torch.compiler.is_compiling()
        sites = () if compiling else self.bitcycle.sites.values()
        if sites and all(site.in_full_precision(self.training) for site in sites):
            return forward(*arguments, **keywords)
        with _Interceptor(self):
            return forward(*arguments, **keywords)

    def site(self, local: str) -> Site:
        """Return the site of a product, created at its first call."""
        _ensure_site(self, local)
        return self.bitcycle.site(local)

    def load_evaluation_bits(self, saved: dict[str, Any]) -> None:
        """Take the evaluation bits of a checkpoint, also of products that were not called yet."""
        if self.bitcycle.template is not None:
            for local, bits in saved.items():
                if local.startswith(":") and bits != saved.get(TEMPLATE):
                    self.site(local)
        super().load_evaluation_bits(saved)

    def is_float(self, *sites: Site) -> bool:
        """Return whether the sites compute in full precision, so that the float function can run unchanged."""
        return all(site.skip is not None or site.in_full_precision(self.training) for site in sites)


class QuantizedForward(OwnProducts):
    """Any module whose code multiplies and that no other mixin quantises."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        fused = tuple(name for name in scan_for_products(type(module)) if name in FUSED)
        return (Skip(SkipKind.PRODUCTS_OUTSIDE_SITES, fused),) if fused else ()

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.run_own_forward(super(QuantizedLayer, self).forward, *arguments, **keywords)  # type: ignore[misc]


class KeptLayer(QuantizedLayer):
    """A layer in full precision inside the ``forward`` of another module, from which it hides its products."""

    prefix = "Kept"

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return super(QuantizedLayer, self).forward(*arguments, **keywords)  # type: ignore[misc]


class _Interceptor(TorchFunctionMode):
    """Computes the products among the torch functions that run inside it at sites of a module."""

    def __init__(self, module: OwnProducts) -> None:
        super().__init__()
        self.module = module
        self.calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        product = PRODUCTS.get(func)
        if product is None:
            # The method is Python code with a super() that a compiler cannot trace; the function is the same.
            func = torch.unflatten if func is torch.Tensor.unflatten else func
            out = func(*args, **kwargs)
            return out.contiguous() if func in COLUMN_MAJOR else out
        name, compute = product
        count = self.calls.get(name, 0) + 1
        self.calls[name] = count
        local = f":{name}" if count == 1 else f":{name}#{count}"
        with torch._C.DisableTorchFunction():  # enclosing interceptors must not see what a product is made of
            return compute(self.module, local, func, *args, **kwargs)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _ensure_site(module: OwnProducts, local: str) -> bool:
    """Create a site if the module has none of this name. A compiler runs this once, while it traces."""
    conversion = module.bitcycle
    if local not in conversion.sites:
        template = conversion.template
        assert template is not None
        name = join_names(template.name, local)
        site = Site(name, conversion.recipe, skip_site(name, conversion.keep))
        site.execution = template.execution
        if site.skip is None:
            key = site.key
            site.control.copy_(template.control)
            site.control[KEY] = key
            site.baseline = template.baseline
            site.join(template.group)
            template.followers.append(site)
        conversion.add_site(local, site)
    return True


# --- How each function computes at its site. Where its operands are no dense matrices, or its site is in full
# precision, the function itself runs.


def _linear(
    module: OwnProducts, local: str, func: Function, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    site = module.site(local)
    if not _dense(input, weight) or weight.dim() != 2 or module.is_float(site):
        return func(input, weight, bias)
    recipe = module.bitcycle.recipe
    bias = module.round_bias(local, bias)
    a_spec = OperandSpec(feature_dims(recipe.activations, input), role=Role.ACTIVATION)
    dims = weight_dims(recipe.weights, weight)
    weight, b_spec = _operand(module, site, weight, OperandSpec(dims, role=Role.WEIGHT), "b", input)
    return module.multiply(local, LinearProduct(), input, weight, bias, a_spec=a_spec, b_spec=b_spec)


def _convolution(
    module: OwnProducts,
    local: str,
    func: Function,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    site = module.site(local)
    if not _dense(input, weight) or module.is_float(site):
        return func(input, weight, bias, stride, padding, dilation, groups)
    if input.dim() != weight.dim():  # an input without a batch
        geometry = (stride, padding, dilation, groups)
        return _convolution(module, local, func, input.unsqueeze(0), weight, bias, *geometry).squeeze(0)
    recipe = module.bitcycle.recipe
    bias = module.round_bias(local, bias)
    dims = activation_dims(recipe.activations, input), weight_dims(recipe.weights, weight)
    if isinstance(padding, str):  # torch works out what the padding is, which can differ from side to side
        after = (bias, stride, padding, dilation, groups)
        return _composed(module, site, func, (), (input, weight), after, {}, _layer_specs(*dims))
    stride, padding, dilation = (_per_dimension(value, weight.dim() - 2) for value in (stride, padding, dilation))
    product = ConvolutionProduct(stride, padding, dilation, groups)
    a_spec, weight_spec = _layer_specs(*dims)
    weight, b_spec = _operand(module, site, weight, weight_spec, "b", input)
    return module.multiply(local, product, input, weight, bias, a_spec=a_spec, b_spec=b_spec)


def _transposed_convolution(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    site = module.site(local)
    operands, others = _in_order(args, kwargs)
    if not _dense(*operands[:2]) or module.is_float(site):
        return func(*args, **kwargs)
    recipe, (input, weight) = module.bitcycle.recipe, operands[:2]
    dims = activation_dims(recipe.activations, input), weight_dims(recipe.weights, weight, 1)
    return _composed(module, site, func, (), (input, weight), operands[2:], others, _layer_specs(*dims))


def _layer_specs(input_dims: Dims, dims_of_weight: Dims) -> tuple[OperandSpec, OperandSpec]:
    """Return how the operands of a function are put on their grids whose second argument is a weight by definition."""
    return OperandSpec(input_dims, role=Role.ACTIVATION), OperandSpec(dims_of_weight, role=Role.WEIGHT)


def _grouped_matmul(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute a product per group. Groups of a batch ``b`` are weights, one for each group of rows of ``a``."""
    site = module.site(local)
    operands, others = _in_order(args, kwargs)
    if not _dense(*operands[:2]) or module.is_float(site):
        return func(*args, **kwargs)
    recipe, (a, b) = module.bitcycle.recipe, operands[:2]
    b_dims = (1,) if b.dim() == 3 and recipe.weights == "channel" else weight_dims(recipe.weights, b, b.dim() - 1)
    dims = feature_dims(recipe.activations, a), b_dims
    return _composed(module, site, func, (), (a, b), operands[2:], others, _specs((a, b), dims))


def compute_matmul(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Tensor:
    """Compute a matrix product at a site of a module."""
    site = module.site(local)
    operands, others = _in_order(args, kwargs)
    if len(operands) != 2 or others or not _dense(*operands) or module.is_float(site):
        return func(*args, **kwargs)
    a, b = operands
    if min(a.dim(), b.dim()) < 2:
        return _composed(module, site, func, (), (a, b), (), {})
    a_spec, b_spec = _specs((a, b), _matmul_dims(module, a, b))
    (a, a_spec), (b, b_spec) = _operand(module, site, a, a_spec, "a", b), _operand(module, site, b, b_spec, "b", a)
    return module.multiply(local, MatmulProduct(), a, b, a_spec=a_spec, b_spec=b_spec)


def _matmul_dims(module: OwnProducts, a: Tensor, b: Tensor) -> tuple[Dims, Dims]:
    """Return the dimensions that share a grid. A matrix that multiplies a batch, or a parameter, is a weight."""
    recipe = module.bitcycle.recipe
    if isinstance(b, nn.Parameter) or b.dim() == 2:
        return feature_dims(recipe.activations, a), weight_dims(recipe.weights, b, b.dim() - 1)
    if isinstance(a, nn.Parameter) or a.dim() == 2:
        # A parameter multiplies features. Another matrix can be a mask that mixes tokens.
        features = -2 if isinstance(a, nn.Parameter) else _vector_dim(b)
        return weight_dims(recipe.weights, a, a.dim() - 2), feature_dims(recipe.activations, b, features)
    one_column = a.shape[-1] == 1  # an outer product
    return (
        feature_dims(recipe.attention, a, -2 if one_column else -1),
        feature_dims(recipe.attention, b, _vector_dim(b)),
    )


def _vector_dim(x: Tensor) -> int:
    """Return the dimension of the feature vectors of tokens: the last but one in a transposed view or a column vector.

    As ``k.mT`` in ``q @ k.mT``: the features of a token are a column.
    """
    if 1 in x.shape[-2:]:
        return -2 if x.shape[-1] == 1 else -1
    return -2 if x.stride(-2) < x.stride(-1) else -1


def _reflected_matmul(module: OwnProducts, local: str, func: Function, input: Tensor, other: Tensor) -> Tensor:
    return compute_matmul(module, local, torch.matmul, other, input)


def _plus(multiply: Callable[..., Any], product_function: Function, in_place: bool) -> Callable[..., Any]:
    """Compute ``beta * input + alpha * product`` with its product at a site, and write it to the input if in place."""

    def compute(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
        site = module.site(local)
        operands, others = _in_order(args, kwargs)
        unknown = others.keys() - {"alpha", "beta"}
        if len(operands) != 3 or unknown or not _dense(*operands) or module.is_float(site):
            return func(*args, **kwargs)
        added, alpha, beta = operands[0], others.get("alpha", 1), others.get("beta", 1)
        product = multiply(module, local, product_function, *operands[1:])
        product = product if alpha == 1 else alpha * product
        if not in_place:
            return product if beta == 0 else product + (added if beta == 1 else beta * added)
        if product.shape != added.shape:
            return func(*args, **kwargs)  # it raises torch's error
        return added.copy_(product) if beta == 0 else (added if beta == 1 else added.mul_(beta)).add_(product)

    return compute


def _summed_matmul(module: OwnProducts, local: str, func: Function, a: Tensor, b: Tensor) -> Any:
    specs = _specs((a, b), _matmul_dims(module, a, b))
    return _composed(module, module.site(local), func, (), (a, b), (), {}, specs)


def _sum_of_bmm(batch1: Tensor, batch2: Tensor) -> Tensor:
    return torch.bmm(batch1, batch2).sum(0)


def _chain(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute a chain of matrix products at one site. All matrices but the first are rounded like weights."""
    site = module.site(local)
    tensors = kwargs.get("tensors", args[0] if args and isinstance(args[0], (list, tuple)) else args)
    if kwargs.keys() - {"tensors"} or len(tensors) < 2 or not _dense(*tensors) or module.is_float(site):
        return func(*args, **kwargs)
    dims = [_composed_dims(module, tensors[0], tensors)]
    dims += [weight_dims(module.bitcycle.recipe.weights, x, 1) if x.dim() > 1 else None for x in tensors[1:]]
    return _composed(module, site, _multiply_chain, (), tuple(tensors), (), {}, _specs(tensors, dims))


def _multiply_chain(*matrices: Tensor) -> Tensor:
    return torch.linalg.multi_dot(matrices)


def _operands(first: int, last: int) -> Callable[..., Any]:
    """Compute a function on rounded operands, which are at these positions of its arguments."""

    def compute(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
        site = module.site(local)
        bound, others = _in_order(args, kwargs)
        operands = bound[first : last + 1]
        if len(operands) != last + 1 - first or not _dense(*operands) or module.is_float(site):
            return func(*args, **kwargs)
        return _composed(module, site, func, bound[:first], operands, bound[last + 1 :], others)

    return compute


def compute_einsum(module: OwnProducts, local: str, func: Function, equation: Any, *operands: Any) -> Any:
    """Compute an Einstein sum at a site of a module."""
    site = module.site(local)
    flat = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(flat) < 2 or not _dense(*flat) or module.is_float(site):
        return func(equation, *operands)
    specs = _specs(flat, _einsum_dims(module, equation, flat))
    return _composed(module, site, func, (equation,), flat, (), {}, specs)


def _einsum_dims(module: OwnProducts, equation: str, operands: tuple[Tensor, ...]) -> tuple[Dims, ...]:
    """Return the dimensions that share a grid, for each operand."""
    terms, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        output = "".join(index for index in terms if terms.count(index) == 1)
    summed = []
    for term in terms.split(","):
        before, _, after = term.rpartition("...")  # indices after an ellipsis count from the end
        positions = [*enumerate(before), *((d - len(after), index) for d, index in enumerate(after))]
        summed.append(tuple(d for d, index in positions if index not in output))
    return _summing_dims(module, operands, tuple(summed))


def _tensordot(
    module: OwnProducts, local: str, func: Function, a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None
) -> Any:
    site = module.site(local)
    if out is not None or isinstance(dims, Tensor) or not _dense(a, b) or module.is_float(site):
        return func(a, b, dims, out)
    given = (range(-dims, 0), range(dims)) if isinstance(dims, int) else dims
    summed = tuple((d,) if isinstance(d, int) else tuple(d) for d in given)
    specs = _specs((a, b), _summing_dims(module, (a, b), summed))
    return _composed(module, site, func, (), (a, b), (dims,), {}, specs)


def _vector_products(module: OwnProducts, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute one sum of products for each pair of vectors along a dimension."""
    site = module.site(local)
    operands, others = _in_order(args, kwargs)
    if len(operands) != 2 or others.keys() - {"dim"} or not _dense(*operands):
        return func(*args, **kwargs)
    if current_observers():
        func = _multiply_vectors  # torch's function multiplies elementwise, which no count of products includes
    if module.is_float(site):
        return func(*operands, **others)
    summed = ((others.get("dim", -1),),) * 2
    specs = _specs(operands, _summing_dims(module, operands, summed))
    return _composed(module, site, func, (), operands, (), others, specs)


def _multiply_vectors(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    x, y = (t.movedim(dim, -1) for t in torch.broadcast_tensors(x, y))
    return (x.unsqueeze(-2) @ y.unsqueeze(-1)).squeeze((-2, -1))


def _summing_dims(
    module: OwnProducts, operands: tuple[Tensor, ...], summed: tuple[tuple[int, ...], ...]
) -> tuple[Dims, ...]:
    """Return the dimensions that share a grid, for each operand of a product over the dimensions ``summed``.

    They are the summed dimensions of a parameter and of what it multiplies, as in a linear layer.
    """
    recipe = module.bitcycle.recipe
    has_weight = any(isinstance(x, nn.Parameter) for x in operands)
    dims = []
    for x, along in zip(operands, summed, strict=True):
        fallback = _composed_dims(module, x, operands)
        per_output = recipe.weights == "channel" if isinstance(x, nn.Parameter) else fallback == (-1,)
        dims.append(along if has_weight and along and per_output else fallback)
    return tuple(dims)


def _composed(
    module: OwnProducts,
    site: Site,
    func: Function,
    before: tuple[Any, ...],
    operands: tuple[Tensor, ...],
    after: tuple[Any, ...],
    kwargs: dict[str, Any],
    specs: tuple[OperandSpec, ...] | None = None,
) -> Any:
    """Run a function on rounded operands, and round the gradient that arrives at its result.

    ``specs`` are how the operands are put on their grids.
    """
    if site.settings.grid.block is not None:
        raise ValueError(
            f"{site.name} is computed as a whole, but blocks of the grid {site.recipe.grid!r} run along one summed "
            f"dimension: write it as torch.matmul or F.linear, or keep it in full precision with keep={site.name!r}"
        )
    if specs is None:
        specs = _specs(operands, [_composed_dims(module, x, operands) for x in operands])
    roles = [spec.role or Role.ACTIVATION for spec in specs]
    rounded = []
    for i, (x, spec, name) in enumerate(zip(operands, specs, "abcdefghijklmnopqrstuvwxyz", strict=False)):
        x, done = _operand(module, site, x, spec, name, *operands[:i], *operands[i + 1 :])
        rounded.append(
            x if done.already_rounded else round_operand(site, x, spec.dims, module.training, name, spec.role)
        )
    if not current_observers():
        return round_grad_output(site, func(*before, *rounded, *after, **kwargs))
    with computing(site), _MacCounter() as counter:
        out = func(*before, *rounded, *after, **kwargs)
    product = ComposedProduct(func.__name__.strip("_"), counter.macs)
    reported = report_product(site, product, operands[0], operands[1], out, (roles[0], roles[1]))
    return round_grad_output(site, reported)


def _specs(operands: Iterable[Tensor], dims: Iterable[Dims]) -> tuple[OperandSpec, ...]:
    """Return how operands are put on their grids. A parameter or a view of one is a weight."""
    return tuple(OperandSpec(shared, role=role_of(x)) for x, shared in zip(operands, dims, strict=True))


def _composed_dims(module: OwnProducts, x: Tensor, operands: tuple[Tensor, ...]) -> Dims:
    recipe = module.bitcycle.recipe
    if isinstance(x, nn.Parameter):
        return weight_dims(recipe.weights, x) if x.dim() > 1 else None
    return feature_dims(recipe.attention if min(y.dim() for y in operands) > 2 else recipe.activations, x)


def _operand(
    module: OwnProducts, site: Site, x: Tensor, spec: OperandSpec, name: str, *others: Tensor
) -> tuple[Tensor, OperandSpec]:
    """Return an operand and how it is put on its grid. What a mask has set to 0 stays 0, also if the grid has no 0.

    Without this, a masked product such as ``(q @ k.mT).tril() @ v`` would see what it must not see.
    """
    if site.settings.grid.has_zero or not all(_can_be_masked(x, other) for other in others):
        return x, spec
    if _has_only_zeros_on_grid(x):
        return x, spec
    rounded = round_operand(site, x, spec.dims, module.training, name, spec.role)
    return torch.where(x == 0, x, rounded), spec._replace(already_rounded=True)


def _can_be_masked(x: Tensor, other: Tensor) -> bool:
    """Return whether an operand is a computed weight or one of two activations, and not what a weight multiplies."""
    return not isinstance(x, nn.Parameter) and not isinstance(other, nn.Parameter) and (x.dim() == 2 or other.dim() > 2)


def _has_only_zeros_on_grid(x: Tensor) -> bool:
    """Return whether zeros need no care; False if only a compiled graph or another device could tell."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return x.numel() == 0 or bool(x.all()) or bool(x.min() >= 0)


def compute_attention(
    module: OwnProducts,
    local: str,
    func: Function,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention at the sites ``scores`` and ``context`` of a module."""
    scores_name, context_name = join_names(local, "scores"), join_names(local, "context")
    sites = module.site(scores_name), module.site(context_name)
    if not _dense(query, key, value) or module.is_float(*sites):
        return func(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value))
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
    if is_causal:
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        attn_mask = query.new_zeros(()) if attn_mask is None else attn_mask  # fused kernels take both
        attn_mask = attn_mask.masked_fill(~allowed, -math.inf)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = module.attention_product(scores_name, MatmulProduct(transpose_b=True), query * factor, key)
    scores = scores if attn_mask is None else scores + attn_mask
    weights = torch.ops.aten._safe_softmax(scores, -1)  # 0 in a row that is masked altogether
    return module.attention_product(context_name, MatmulProduct(), F.dropout(weights, dropout_p), value)


_OPERAND_NAMES = (
    *("input", "self", "input1", "mat_a", "a", "x", "mat1", "batch1", "mat"),
    *("other", "tensor2", "mat2", "batch2", "vec", "tensor", "mat_b", "b", "y", "input2", "weight"),
)
"""The names of operands in the functions below. A function has its operands in this order."""


def _in_order(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the operands by position, also those that were passed by name, and the other named arguments."""
    named = tuple(kwargs[name] for name in _OPERAND_NAMES if name in kwargs)
    return (*args, *named), {name: value for name, value in kwargs.items() if name not in _OPERAND_NAMES}


def _dense(*operands: Any) -> bool:
    return all(isinstance(x, Tensor) and x.is_floating_point() and x.layout is torch.strided for x in operands)


def _per_dimension(value: Any, dimensions: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dimensions if len(values) == 1 else values


class _MacCounter(TorchDispatchMode):
    """Adds up the multiply-accumulates of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        rule = RULES.get(func._schema.name.partition("::")[2])
        self.macs += sum(part.macs for part in rule(args, out)) if rule is not None else 0
        return out


def _functions(name: str, compute: Callable[..., Any]) -> dict[Any, tuple[str, Callable[..., Any]]]:
    """Return the entries of a function and of the method of the same name; one of the two may not exist."""
    found = (getattr(owner, name, None) for owner in (torch, torch.Tensor))
    return {function: (name.removesuffix("_"), compute) for function in found if function is not None}


def _sums(name: str, multiply: Callable[..., Any], func: Function) -> dict[Any, tuple[str, Callable[..., Any]]]:
    """Return the entries of functions that add a product to their input, also in place."""
    in_place = _functions(f"{name}_", _plus(multiply, func, in_place=True))
    return {**_functions(name, _plus(multiply, func, in_place=False)), **in_place}


PRODUCTS: dict[Any, tuple[str, Callable[..., Any]]] = {
    F.linear: ("linear", _linear),
    torch.conv1d: ("conv1d", _convolution),
    torch.conv2d: ("conv2d", _convolution),
    torch.conv3d: ("conv3d", _convolution),
    torch.conv_transpose1d: ("conv_transpose1d", _transposed_convolution),
    torch.conv_transpose2d: ("conv_transpose2d", _transposed_convolution),
    torch.conv_transpose3d: ("conv_transpose3d", _transposed_convolution),
    F.scaled_dot_product_attention: ("sdpa", compute_attention),
    **dict.fromkeys(
        (torch.matmul, torch.linalg.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), ("matmul", compute_matmul)
    ),
    torch.Tensor.__rmatmul__: ("matmul", _reflected_matmul),
    **_functions("bmm", compute_matmul),
    **_functions("mm", compute_matmul),
    **_sums("addmm", compute_matmul, torch.mm),
    **_sums("baddbmm", compute_matmul, torch.bmm),
    **_sums("addbmm", _summed_matmul, _sum_of_bmm),
    **_sums("addmv", compute_matmul, torch.mv),
    **_functions("mv", compute_matmul),
    **_functions("dot", compute_matmul),
    **_functions("vdot", compute_matmul),
    **_functions("inner", _operands(0, 1)),
    torch.linalg.vecdot: ("vecdot", _vector_products),
    torch.linalg.multi_dot: ("multi_dot", _chain),
    torch.chain_matmul: ("chain_matmul", _chain),
    torch.einsum: ("einsum", compute_einsum),
    torch.tensordot: ("tensordot", _tensordot),
    F.bilinear: ("bilinear", _operands(0, 2)),
}
"""The torch functions that multiply: the name of their site, and how they compute at it."""

for _function in (getattr(torch, "_grouped_mm", None), getattr(F, "grouped_mm", None)):
    if _function is not None:
        PRODUCTS[_function] = ("grouped_mm", _grouped_matmul)
