"""Find the sites of a converted model by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from torch import nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic import Site
from bitcycle.nn.layer import Conversion, conversion_of


def conversions(model: nn.Module) -> Iterator[tuple[str, Conversion]]:
    """The converted modules of a model, by name."""
    for name, module in model.named_modules():
        conversion = conversion_of(module)
        if conversion is not None:
            yield name, conversion


def named_sites(model: nn.Module) -> dict[str, Site]:
    """Every site by its name: that of its module in this model, and its own if the module has several.

    Sites of which one is a copy of another get noise of their own here.
    """
    found = {
        join_names(name, local): site
        for name, conversion in conversions(model)
        for local, site in conversion.sites.items()
    }
    keys: set[int] = set()
    for name, site in found.items():
        if site.key in keys:
            site.rename(name)
        keys.add(site.key)
    return found


def sites(model: nn.Module, where: str | Iterable[str] | None = None) -> dict[str, Site]:
    """The sites whose bits can be set, or those of them whose names match one of the patterns."""
    every = {name: site for name, site in named_sites(model).items() if not site.kept}
    if not every:
        raise ValueError("the model has no quantised layer: convert it first with bc.quantize(model)")
    if where is None:
        return every
    patterns = (where,) if isinstance(where, str) else tuple(where) if isinstance(where, Iterable) else (where,)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"where takes names of sites, with wildcards, not {pattern!r}")
        if not any(matches(name, pattern) for name in every):
            hint = nearest(pattern, every, f"the first is {next(iter(every))!r}")
            raise ValueError(f"no site matches {pattern!r}; {hint}")
    return {name: site for name, site in every.items() if any(matches(name, pattern) for pattern in patterns)}


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a name, or the name of something that contains it."""
    ends = [end for end, character in enumerate(name) if character == "."]
    return any(fnmatch.fnmatchcase(name[:end], pattern) for end in [*ends, len(name)])


def join_names(*parts: str) -> str:
    """Names of modules and sites put together; empty ones vanish."""
    return ".".join(part for part in parts if part)
