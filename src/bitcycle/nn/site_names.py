"""Names of sites, and the patterns that match them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from bitcycle.arithmetic.skip import Skip, SkipKind


def join_names(module: str, site: str) -> str:
    """Return the name of a site: that of its module, a dot, and the local name of the site.

    A site that a module's own ``forward`` computes has a local name that starts with a colon.

    >>> join_names("block", "scores"), join_names("block", ""), join_names("block", ":matmul")
    ('block.scores', 'block', 'block:matmul')
    """
    return module + site if site.startswith(":") else ".".join(part for part in (module, site) if part)


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a name, or the name of something that contains it."""
    ends = [end for end, character in enumerate(name) if character in ".:"]
    return any(fnmatch.fnmatchcase(name[:end], pattern) for end in [*ends, len(name)])


def skip_site(name: str, keep: Iterable[object]) -> Skip | None:
    """Return why a single site stays in full precision, if a rule names it."""
    rule = next((rule for rule in keep if isinstance(rule, str) and matches(name, rule)), None)
    return None if rule is None else Skip(SkipKind.KEPT_BY_RULE, (rule,))
