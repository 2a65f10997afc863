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
    from bitcycle._cost import Cost, Meter, cost
    from bitcycle._export import Agreement, check_onnx, check_weights, export, export_onnx
    from bitcycle._range_test import RangeTestResult, range_test
    from bitcycle.arithmetic.recipe import Recipe
    from bitcycle.conversion.causality import check_causality
    from bitcycle.conversion.convert import quantize, restore, set_bits
    from bitcycle.conversion.model_summary import Summary, summary
    from bitcycle.decay import decay_begins
    from bitcycle.lab.advice import Advice, advise
    from bitcycle.lab.studies.from_python import study
    from bitcycle.lab.studies.study_result import StudyResult, StudyRow
    from bitcycle.scheduler import PrecisionScheduler

__all__ = [
    "Advice",
    "Agreement",
    "Cost",
    "Meter",
    "PrecisionScheduler",
    "RangeTestResult",
    "Recipe",
    "StudyResult",
    "StudyRow",
    "Summary",
    "advise",
    "check_causality",
    "check_onnx",
    "check_weights",
    "cost",
    "decay_begins",
    "export",
    "export_onnx",
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
_NAMES = {
    "_cost": ("Cost", "Meter", "cost"),
    "_export": ("Agreement", "check_onnx", "check_weights", "export", "export_onnx"),
    "_range_test": ("RangeTestResult", "range_test"),
    "arithmetic.recipe": ("Recipe",),
    "conversion.convert": ("quantize", "restore", "set_bits"),
    "conversion.model_summary": ("Summary", "summary"),
    "conversion.causality": ("check_causality",),
    "decay": ("decay_begins",),
    "lab.advice": ("Advice", "advise"),
    "lab.studies.from_python": ("study",),
    "lab.studies.study_result": ("StudyResult", "StudyRow"),
    "scheduler": ("PrecisionScheduler",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"bitcycle.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bitcycle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
