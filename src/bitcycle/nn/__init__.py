"""Quantised layers, and the API for registering your own layers.

A quantised layer is a mixin that :func:`bitcycle.quantize` inserts before the class of a float layer. It says how the
layer computes its products with a few bits. Registering it makes the layer known to ``quantize``, ``summary`` and
``cost``:

>>> import torch
>>> import bitcycle as bc
>>> from bitcycle.nn import LinearProduct, OperandSpec, QuantizedLayer, feature_dims, register, weight_dims
>>>
>>> class ScaledLinear(torch.nn.Module):
...     def __init__(self, in_features, out_features, scale):
...         super().__init__()
...         self.weight = torch.nn.Parameter(torch.randn(out_features, in_features))
...         self.scale = scale
...
...     def forward(self, x):
...         return self.scale * (x @ self.weight.t())
>>>
>>> @register(ScaledLinear)
... class QuantizedScaledLinear(QuantizedLayer):
...     def quantized_forward(self, x):
...         recipe = self.bitcycle.recipe
...         product = self.multiply(
...             "",  # the site: the layer itself
...             LinearProduct(),
...             x,
...             self.weight,
...             a_spec=OperandSpec(feature_dims(recipe.activations, x)),
...             b_spec=OperandSpec(weight_dims(recipe.weights, self.weight)),
...         )
...         return self.scale * product
>>>
>>> model = bc.quantize(torch.nn.Sequential(ScaledLinear(8, 4, scale=2.0)))
>>> bc.set_bits(model, forward=4, backward=8)
>>> model
Sequential(
  (0): QuantizedScaledLinear(bits=4/8)
)
>>> model(torch.randn(3, 8)).sum().backward()
>>> bc.cost(model, torch.zeros(3, 8)).macs
96

- A layer with several products overrides ``site_names`` and passes one of these names to each ``multiply``.
- The products are :class:`LinearProduct`, :class:`ConvolutionProduct` and :class:`MatmulProduct`. Your own
  product is a class with the members of :class:`Product`.
- A computation that is not a product of two operands rounds its operands with :func:`round_operand`, runs inside
  :func:`computing`, calls :func:`report_product` to be counted, and returns ``round_grad_output(site, out)``.
- :func:`register_where` registers a mixin for every class that satisfies a condition.
"""

from bitcycle.arithmetic import (
    ConvolutionProduct,
    Counted,
    LinearProduct,
    MatmulProduct,
    OperandSpec,
    Product,
    Role,
    Site,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.nn import families as _families  # noqa: F401 - registers the built-in layers
from bitcycle.nn.layer import QuantizedLayer, feature_dims, weight_dims
from bitcycle.nn.registry import register, register_where

__all__ = [
    "ConvolutionProduct",
    "Counted",
    "LinearProduct",
    "MatmulProduct",
    "OperandSpec",
    "Product",
    "QuantizedLayer",
    "Role",
    "Site",
    "computing",
    "feature_dims",
    "register",
    "register_where",
    "report_product",
    "round_grad_output",
    "round_operand",
    "weight_dims",
]
