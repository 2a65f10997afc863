"""What to say about a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``did you mean 'x'?`` if some known name is near; else what is given, or the list of known names."""
    names = list(known)
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    return otherwise or f"known are {', '.join(names)}"
