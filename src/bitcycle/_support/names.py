"""Hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMES = 12
"""The most names that a hint lists."""

_SHORTEST_PART = 3  # a shorter text is contained in too many names to mean one of them


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for a name that is not known.

    A known name is near if at most a third of its letters have to change, where swapping two neighbours is one change,
    or if it contains the given name. Case, and quotes around the name, are ignored.

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
    distances: dict[str, int] = {}
    for candidate in names:
        most = max(len(given), len(candidate)) // 3
        if abs(len(given) - len(candidate)) <= most:  # else the distance is larger, and a long name takes long
            distance = edit_distance(given, candidate.lower())
            if distance <= most:
                distances[candidate] = distance
    if distances:
        return f"did you mean {min(distances, key=distances.__getitem__)!r}?"
    containing = [candidate for candidate in names if len(given) >= _SHORTEST_PART and given in candidate.lower()]
    if containing:
        return f"did you mean {min(containing, key=len)!r}?"
    return otherwise or _listed(names)


def edit_distance(a: str, b: str) -> int:
    """Return the number of edits that turn one text into another.

    An edit inserts, deletes or replaces a letter, or swaps two neighbours (Damerau and Levenshtein's distance, in the
    restricted form in which no letter is edited twice).

    Args:
        a: One text.
        b: The other text.

    Returns:
        The smallest number of edits.

    Example:
        >>> edit_distance("rht", "rth"), edit_distance("rht", "rtv"), edit_distance("imge", "image")
        (1, 2, 1)
    """
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        row = [i + 1]
        for j, other in enumerate(b):
            edits = min(last[j + 1] + 1, row[j] + 1, last[j] + (letter != other))
            if i and j and letter == b[j - 1] and other == a[i - 1]:
                edits = min(edits, before_last[j - 1] + 1)
            row.append(edits)
        before_last, last = last, row
    return last[-1]


def _listed(names: list[str]) -> str:
    if not names:
        return "no names are known"
    rest = len(names) - MOST_NAMES
    return f"known names: {', '.join(names[:MOST_NAMES])}" + (f" and {rest} more" if rest > 0 else "")
