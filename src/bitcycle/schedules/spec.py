"""Specs: schedules written as text. This table is the reference for the grammar.

| spec                                       | schedule                                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| ``full``                                   | full precision throughout                                              |
| ``static:8``                               | eight bits throughout                                                  |
| ``static:5.62``                            | five and six bits in turn, 5.62 bits on average                        |
| ``CR:3-8:cycles=8``                        | one of the ten by name, q_min-q_max, cycles (default 8)                |
| ``RR:3-8:cycles=8:constant=0.5``           | parameters of the profile: ``rate`` for E, ``constant`` for R          |
| ``cosine-repeated:3-8:cycles=8``           | any registered profile with a shape: ``repeated``, ``triangular-h``,   |
|                                            | ``triangular-v`` (``triangular`` is ``-h``)                            |
| ``linear-rise:3-8``                        | a single rise over the whole run: one cycle of ``repeated``            |
| ``linear-fall:3-8``                        | a single fall; ``fall-h`` mirrors a rise in time, ``fall-v`` in height |
| ``deficit(3@0.0..0.25, static:8)``         | windows held at given bits (or ``full``), a schedule elsewhere         |
| ``deficit(3@0..1000, 4@2000..3000, full)`` | windows in steps: integers are steps, fractions have a decimal point   |
| ``delay(0.25, CR:3-8:cycles=8)``           | q_max for a quarter of training, then a schedule over the rest         |
| ``join(static:8, 0.5, LR:3-6:cycles=4)``   | schedules one after the other, with the moments between them           |
| ``call:warm``                              | the user's function ``warm(step, total)``, after ``bc.schedule(warm)`` |
|                                            | or ``bc.schedule(f, name="warm")`` has registered it; a spec never     |
|                                            | imports anything                                                       |

A spec may omit bits and cycles; the arguments ``bits`` and ``cycles`` then apply to every part that does.
``str(schedule)`` writes the canonical spec, and parsing it gives an equal schedule.

A strength, from 0 (full precision) to 1 (on the grid), is written in the same way, with other numbers:

| spec of a strength                         | strength                                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| ``0.5``                                    | the same throughout                                                    |
| ``linear-rise``                            | a rise from 0 to 1 over the whole run, along any registered profile    |
| ``cosine-fall:0.2-1.0``                    | a fall from 1 to 0.2; the shapes are those of bits                     |
| ``linear-repeated:0.0-1.0:cycles=4``       | four rises                                                             |
| ``join(0, 0.25, linear-rise, 0.75, 1)``    | one after the other, with the moments between them                     |
| ``call:warming``                           | a function, after ``bc.schedules.strength(warming)`` has registered it |

Numbers are written in the digits 0 to 9. Bits are from 1 to 16, cycles from 1 to a million, steps up to 10^8. A spec
has at most 10,000 characters, and its combinators are nested at most 50 deep. Reading it takes time linear in its
length.
"""

from __future__ import annotations

from bitcycle._support.text import short_repr
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Custom, Function, StrengthFunction
from bitcycle.schedules.grammar import Reader
from bitcycle.schedules.interface import Schedule

FULL_STRENGTH = Constant(1.0, Quantity.STRENGTH)


def schedule(
    spec: str | Schedule | Function,
    bits: tuple[int, int] | None = None,
    cycles: int | None = None,
    name: str | None = None,
) -> Schedule:
    """Make a schedule.

    Args:
        spec: A spec such as ``"CR:3-8"`` (the grammar is in :mod:`bitcycle.schedules.spec`), or a function
            ``(step, total) -> bits``. A schedule is returned unchanged.
        bits: ``(q_min, q_max)`` for the parts of the spec that name no bits.
        cycles: Number of cycles for the parts of the spec that name none; 8 by default.
        name: The name of a function in specs, ``call:name``; by default its own name. A lambda has none.

    Returns:
        The schedule: a function ``(step, total) -> bits``.

    Raises:
        ValueError: If the spec is not valid or incomplete, if it needs no bits or cycles but they are given, or if a
            function has no name or that of another function.

    Example:
        >>> schedule("RTH", bits=(3, 8), cycles=8) == schedule("RTH:3-8:cycles=8")
        True
        >>> schedule("delay(0.1, CR)", bits=(4, 8))(0, 100)
        8
        >>> s = schedule(lambda step, total: 4 if step < 10 else 8, name="four_then_eight")
        >>> s(0, 100), str(s)
        (4, 'call:four_then_eight')
    """
    reader = Reader(Quantity.BITS, bits, cycles)
    made = _schedule_of(spec, reader, name)
    for what, given in (("bits", bits), ("cycles", cycles)):
        if given is not None and what not in reader.used:
            raise ValueError(f"{short_repr(spec)} needs no {what}: drop the argument {what}")
    return made


def strength(spec: str | float | StrengthFunction | Schedule | None, name: str | None = None) -> Schedule:
    """Make a schedule of strength.

    Args:
        spec: A spec such as ``"join(linear-rise, 0.5, 1)"`` (the grammar is in :mod:`bitcycle.schedules.spec`), a
            number, or a function ``(step, total) -> strength``. ``None`` is full strength throughout.
        name: The name of a function in specs; by default its own name.

    Returns:
        The schedule: a function ``(step, total) -> strength``.

    Raises:
        ValueError: The spec is not valid, a number is not from 0 to 1, or a function has no name.

    Example:
        >>> s = strength("join(linear-rise, 0.5, 1)")
        >>> [s(step, 8) for step in range(6)], str(s)
        ([0.0, 0.25, 0.5, 0.75, 1.0, 1.0], 'join(linear-rise, 0.5, 1)')
    """
    if spec is None:
        return FULL_STRENGTH
    if isinstance(spec, str) or callable(spec):
        return _schedule_of(spec, Reader(Quantity.STRENGTH), name)
    return Constant(spec, Quantity.STRENGTH)


def _schedule_of(spec: object, reader: Reader, name: str | None) -> Schedule:
    if callable(spec) and not isinstance(spec, Schedule):
        return Custom.of(spec, name, reader.quantity)
    if name is not None:
        raise ValueError("name is for functions: a spec or a schedule has its own")
    if isinstance(spec, str):
        return reader.read(spec)
    if isinstance(spec, Schedule) and spec.quantity is reader.quantity:
        return spec
    what = short_repr(str(spec)) if isinstance(spec, Schedule) else short_repr(spec)
    form = "such as 'CR:3-8'" if reader.quantity is Quantity.BITS else "such as 'linear-rise'"
    raise ValueError(
        f"a schedule must be a spec {form} or a function (step, total) -> {reader.quantity.value}, got {what}"
    )
