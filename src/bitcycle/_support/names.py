"""Hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from bitcycle._support.text import short_repr

MAX_NAMES = 12
"""The most names that a hint lists."""

_SHORTEST_PART = 3  # a shorter text is contained in too many names to mean one of them


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for a name that is not known.

    A known name is near if :func:`difflib.get_close_matches` finds it, or if it contains the given name. Among near
    names, one with the same letters in another order comes first. Case, and quotes around the name, are ignored.

    Args:
        name: The name that was given.
        known: The names that would be right.
        otherwise: The hint if no known name is near; by default the list of known names, at most a dozen.

    Returns:
        ``did you mean 'x'?`` if a known name is near, else ``otherwise``.

    Example:
        >>> nearest("RHT", ["RTV", "RTH"]), nearest("resnet-20", ["cifar-resnet-20"])
        ("did you mean 'RTH'?", "did you mean 'cifar-resnet-20'?")
        >>> nearest("abacus", ["t4", "a100"])
        'known names: t4, a100'
    """
    names = [str(candidate) for candidate in known]  # members of a StrEnum have another repr
    given = name.strip("'\"").lower()
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(given, by_lower, n=5)
    near.sort(key=lambda lower: sorted(lower) != sorted(given))
    if not near and len(given) >= _SHORTEST_PART:
        near = sorted((lower for lower in by_lower if given in lower), key=len)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    rest = len(names) - MAX_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    listed = f"known names: {', '.join(names[:MAX_NAMES])}{more}" if names else "no names are known"
    return otherwise or listed


def validate_name(name: object, known: Iterable[str], what: str) -> str:
    """Return a name if it is known, or raise a ValueError that says what it was meant to name.

    >>> validate_name("t4", ["t4", "a100"], "device")
    't4'
    """
    names = [str(candidate) for candidate in known]
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"unknown {what} {short_repr(name)}; {nearest(str(name), names)}")
    return name
