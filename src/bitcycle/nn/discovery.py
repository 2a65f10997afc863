"""Sites that are created when their products are first computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from bitcycle._support.compiling import constant_while_tracing
from bitcycle.arithmetic import Site
from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.site_names import join_names, skip_site


@dataclass
class Discovery:
    """What conversion stores on a module whose functional calls become sites when they run."""

    template: Site
    """The bits that a new site starts with."""
    keep: tuple[str, ...] = ()
    """Rules that name sites to keep in full precision."""
    float_calls: dict[SkipKind, set[str]] = field(default_factory=dict)
    """The functions that were called, wholly or in part, in full precision, by the reason."""
    multiplies_weights: bool = False
    """Whether an operand of a discovered site is a parameter or a view of one."""
    attributes: SimpleNamespace = field(default_factory=SimpleNamespace)
    """The discovered sites as attributes: a compiler that is tracing sees a new attribute, but no new key of a dict."""

    def create_site(self, local: str) -> Site:
        """Create the site of a product that is computed for the first time, with the bits of the template."""
        template = self.template
        name = join_names(template.name, local)
        site = Site(name, template.recipe, skip_site(name, self.keep))
        site.execution = template.execution
        if site.skip is None:
            key = site.key
            site.control.copy_(template.control)
            site.control[KEY] = key
            site.baseline = template.baseline
            site.join(template.group)
            template.followers.append(site)
        setattr(self.attributes, local.replace(".", " "), site)  # a compiler allows no dot in an attribute
        return site

    def site(self, local: str) -> Site:
        """Return a discovered site by its local name."""
        site: Site = getattr(self.attributes, local.replace(".", " "))
        return site

    def skips(self) -> tuple[Skip, ...]:
        """Return which calls were left in full precision, and why."""
        return tuple(Skip(kind, tuple(sorted(names))) for kind, names in self.float_calls.items())


@constant_while_tracing
def note_float_call(discovery: Discovery, kind: SkipKind, function: str) -> bool:
    """Store that a function was called in full precision. A compiler runs this once, while it traces."""
    discovery.float_calls.setdefault(kind, set()).add(function)
    return True
