"""Modules whose sites are created when their products are first computed."""

from __future__ import annotations

from typing import Any

import torch

from bitcycle.arithmetic import Site
from bitcycle.arithmetic.control import KEY
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.layer import TEMPLATE
from bitcycle.nn.site_names import join_names, skip_site


class DiscoveredSites(AttentionLayer):
    """Base of modules whose products are known only once they are called."""

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


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _ensure_site(module: DiscoveredSites, local: str) -> bool:
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
