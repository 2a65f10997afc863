"""Quantised layers, one file per family. Importing a family registers it."""

from __future__ import annotations

import importlib
import sys

from bitcycle.nn import attention, convolution, embedding, linear, recurrent, transformer  # noqa: F401
from bitcycle.nn.layer import QuantizedLayer
from bitcycle.nn.registry import LAYERS, register, register_where

__all__ = ["LAYERS", "QuantizedLayer", "register", "register_where"]

OPTIONAL = {
    "torch_geometric": "bitcycle.nn.graph",
    "transformers.modeling_utils": "bitcycle.nn.hugging_face",
    "transformers.pytorch_utils": "bitcycle.nn.hugging_face",
}
"""Modules of optional libraries that bring layers, and the family that registers those."""


def load_families() -> None:
    """Register the layers of optional libraries that are in use; one that nobody imported has no layers to convert."""
    for library, family in OPTIONAL.items():
        if library in sys.modules:
            importlib.import_module(family)
