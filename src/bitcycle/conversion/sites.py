"""The sites of a converted model by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic import Site
from bitcycle.nn.layer import Conversion, conversion_of
from bitcycle.nn.site_names import join_names, matches


def conversions(model: nn.Module) -> Iterator[tuple[str, Conversion]]:
    """Iterate over the names and conversions of the converted modules of a model."""
    for name, module in model.named_modules():
        conversion = conversion_of(module)
        if conversion is not None:
            yield name, conversion


def named_sites(model: nn.Module) -> dict[str, Site]:
    """Return every site by name: the name of its module in this model, plus the local name of the site.

    A site that is a copy of another (and so has the same noise) is renamed here, which gives it noise of its own.
    """
    by_name = {
        join_names(name, local): site
        for name, conversion in conversions(model)
        for local, site in conversion.sites.items()
    }
    keys: set[int] = set()
    for name, site in by_name.items():
        if site.key in keys:
            site.rename(name)
        keys.add(site.key)
    return by_name


def sites(model: nn.Module, where: str | Iterable[str] | None = None) -> dict[str, Site]:
    """Return the sites whose bits can be set, or those of them whose names match one of the patterns."""
    settable = {name: site for name, site in named_sites(model).items() if site.skip is None}
    for name, conversion in conversions(model):  # bits of sites that are yet to be discovered
        if conversion.template is not None:
            settable[join_names(name, ":")] = conversion.template
    if not settable:
        raise ValueError("the model has no quantised layer: convert it first with bc.quantize(model)")
    if where is None:
        return settable
    patterns = (where,) if isinstance(where, str) else tuple(where) if isinstance(where, Iterable) else (where,)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"where must be names of sites, with wildcards, got {pattern!r}")
        if not any(matches(name, pattern) for name in settable):
            raise ValueError(f"no site matches {pattern!r}; {_hint(model, pattern, settable)}")
    return {name: site for name, site in settable.items() if any(matches(name, pattern) for pattern in patterns)}


def _hint(model: nn.Module, pattern: str, names: Iterable[str]) -> str:
    """Return what to do about a pattern that matches no name."""
    undiscovered = any(c.template is not None and not c.has_run for _, c in conversions(model))
    if ":" in pattern and undiscovered:
        return (
            "products in the code of a module become sites when the model first runs: run it once, or call "
            "bc.quantize(model, example_inputs=x)"
        )
    names = [name for name in names if not name.endswith(":")] or list(names)  # without those of later discoveries
    return nearest(pattern, names, f"the first site is {names[0]!r}")
