"""bitcycle: schedules for numerical precision during training.

Example::

    import bitcycle as bc

    model = bc.quantize(model)
    precision = bc.PrecisionScheduler(model, "RTH:3-8", total_steps=len(loader) * epochs, backward_bits=8)
    for batch in loader:
        ...
        optimizer.step()
        precision.step()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitcycle.schedules import schedule

if TYPE_CHECKING:
    from bitcycle._cost import Meter, cost
    from bitcycle._export import check_onnx, check_weights, export, export_onnx, export_torchao
    from bitcycle._range_test import range_test
    from bitcycle._study.from_python import study
    from bitcycle.advice import advise
    from bitcycle.arithmetic.recipe import Recipe
    from bitcycle.conversion.convert import quantize, restore, set_bits
    from bitcycle.conversion.model_summary import summary
    from bitcycle.conversion.sequence_models import check_causality
    from bitcycle.decay import decay_begins
    from bitcycle.nn.products import Attention, Einsum, Matmul
    from bitcycle.scheduler import PrecisionScheduler

__all__ = [
    "Attention",
    "Einsum",
    "Matmul",
    "Meter",
    "PrecisionScheduler",
    "Recipe",
    "advise",
    "check_causality",
    "check_onnx",
    "check_weights",
    "cost",
    "decay_begins",
    "export",
    "export_onnx",
    "export_torchao",
    "quantize",
    "range_test",
    "restore",
    "schedule",
    "set_bits",
    "study",
    "summary",
]

__version__ = "0.2.0"

# What needs torch is imported on first use, so that schedules and the command line's help work without loading it.
_MODULES = {
    "Attention": "nn.products",
    "Einsum": "nn.products",
    "Matmul": "nn.products",
    "Meter": "_cost",
    "PrecisionScheduler": "scheduler",
    "decay_begins": "decay",
    "Recipe": "arithmetic.recipe",
    "advise": "advice",
    "check_causality": "conversion.sequence_models",
    "check_onnx": "_export",
    "check_weights": "_export",
    "cost": "_cost",
    "export": "_export",
    "export_onnx": "_export",
    "export_torchao": "_export",
    "quantize": "conversion.convert",
    "range_test": "_range_test",
    "restore": "conversion.convert",
    "set_bits": "conversion.convert",
    "study": "_study.from_python",
    "summary": "conversion.model_summary",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"bitcycle.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bitcycle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
