"""bitcycle: numerical precision as a training schedule.

import bitcycle as bc

model = bc.quantize(model)
precision = bc.PrecisionScheduler(model, bc.schedule("RTH", bits=(3, 8)), total_steps=T, backward_bits=8)
...                        # after each optimizer.step():
precision.step()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitcycle.schedules import schedule

if TYPE_CHECKING:
    from bitcycle.advising import advise
    from bitcycle.conversion import quantize, restore, set_bits
    from bitcycle.costs import cost
    from bitcycle.inspection import summary
    from bitcycle.precision import PrecisionScheduler
    from bitcycle.range_testing import range_test
    from bitcycle.recipe import Recipe

__all__ = [
    "PrecisionScheduler",
    "Recipe",
    "advise",
    "cost",
    "quantize",
    "range_test",
    "restore",
    "schedule",
    "set_bits",
    "summary",
]

__version__ = "0.1.0"

# Everything that needs torch is imported when it is first asked for: schedules and the command line answer without it.
_HOME = {
    "PrecisionScheduler": "precision",
    "Recipe": "recipe",
    "advise": "advising",
    "cost": "costs",
    "quantize": "conversion",
    "range_test": "range_testing",
    "restore": "conversion",
    "set_bits": "conversion",
    "summary": "inspection",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"bitcycle.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bitcycle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
