"""The families of quantised layers. Importing a family registers it."""

from __future__ import annotations

import importlib
import sys

from bitcycle.nn import attention, convolution, embedding, functional_ops, linear, recurrent, transformer  # noqa: F401

OPTIONAL = {"torch_geometric": "bitcycle.nn.graph", "transformers.pytorch_utils": "bitcycle.nn.hugging_face"}
"""Modules of optional libraries that define layers, and the family that registers them."""


def load_families() -> None:
    """Register the layers of optional libraries that are imported. Others cannot have layers in a model."""
    for library, family in OPTIONAL.items():
        if library in sys.modules:
            importlib.import_module(family)
