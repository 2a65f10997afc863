"""Colours for lengths and positions: a scale from short to long that colour-blind people can follow.

It is matplotlib's ``plasma`` as far as it stands out from the page; ``style.css`` has the one for a dark page.
"""

from __future__ import annotations

SHADES = ("#e56a5d", "#d5536f", "#c33d80", "#ad2793", "#9410a2", "#7701a8", "#5801a4", "#370499", "#0d0887")
CONTROL, LONG_CONTROL = "no-deficit", "no-deficit long"
GREY = "#5b6066"


def shades(count: int) -> list[str]:
    """The classes of so many colours, as far apart as the scale allows.

    >>> shades(3), shades(1)
    (['shade-0', 'shade-4', 'shade-8'], ['shade-8'])
    """
    last = len(SHADES) - 1
    return [f"shade-{round(i * last / (count - 1)) if count > 1 else last}" for i in range(count)]


def colour(shade: str) -> str:
    """The colour of a class, on a light page.

    >>> colour("shade-0"), colour("no-deficit")
    ('#e56a5d', '#5b6066')
    """
    return SHADES[int(shade.removeprefix("shade-"))] if shade.startswith("shade-") else GREY
