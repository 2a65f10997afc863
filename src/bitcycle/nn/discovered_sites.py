"""Layers whose sites are created when their products are first computed."""

from __future__ import annotations

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
