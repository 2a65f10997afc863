"""The catalogue: official data sets, where they are, under which terms, and which checksums are stated for them.

A checksum is here only if the publisher or a library of data sets states it; none is computed by us. Where nobody
states one, the sum of the first download is recorded on the user's machine instead.
"""

from __future__ import annotations

from bitcycle._support.names import nearest
from bitcycle.experiments.data.official import graph_sets, image_sets, text_sets
from bitcycle.experiments.data.official.entry import Official

OFFICIAL: dict[str, Official] = {
    entry.name: entry for sets in (image_sets, graph_sets, text_sets) for entry in sets.ENTRIES
}


def official_named(name: str) -> Official:
    """The data set of that name.

    >>> official_named("snli").task
    'entailment'
    >>> official_named("cifar-10")
    Traceback (most recent call last):
    ...
    ValueError: unknown data set 'cifar-10'; did you mean 'cifar10'?
    """
    if name not in OFFICIAL:
        raise ValueError(f"unknown data set {name!r}; {nearest(name, OFFICIAL)}")
    return OFFICIAL[name]
