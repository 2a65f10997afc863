"""Layers whose sites are created when their products are first computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from bitcycle.arithmetic import Site
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.layer import Conversion


class DiscoveredSites(AttentionLayer):
    """What computes products at sites that are known only once they are called."""

    def site(self, local: str) -> Site:
        """Return the site of a product, created at its first call."""
        _ensure_site(self.bitcycle, local)
        return self.bitcycle.site(local)

    def run_with_output_options(
        self, local: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function unchanged that was called with ``out`` or ``out_dtype``, and note that it is no site."""
        _note_output_options(self.bitcycle, local)
        return func(*args, **kwargs)

    def is_float(self, *sites: Site) -> bool:
        """Return whether the sites compute in full precision, so that the float function can run unchanged."""
        return all(site.skip is not None or site.in_full_precision(self.training) for site in sites)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _ensure_site(conversion: Conversion, local: str) -> bool:
    """Create a site if there is none of this name. A compiler runs this once, while it traces."""
    if local not in conversion.sites:
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # an export must not trace what creates it
            conversion.discover(local)
    return True


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _note_output_options(conversion: Conversion, local: str) -> bool:
    """Store the function that would have had a site of this name. A compiler runs this once, while it traces."""
    conversion.products_with_output_options.add(local.partition("#")[0].removeprefix(":"))
    return True
