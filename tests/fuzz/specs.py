"""Random specs of bits, of strength, and of controls at equal cost: most follow the grammar, the others are damaged.

And the laws that hold for all of them.
"""

from collections import Counter

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle._cost import Cost, Row
from bitcycle.lab.studies.controls import with_solved_controls
from bitcycle.schedules.base import MAX_BITS, Quantity
from tests.schedules.strategies import random_spec

COST = Cost((Row("fc", "Linear", "Linear", 10, 0, 10, quantized=True),))
STEPS = 200

_NUMBERS = (
    "0 1 2 16 17 -1 +3 007 1_0 ٣ \N{BENGALI DIGIT FOUR} ² Ⅷ 1e1 0x8 8.0 .5 5. 1e-400 1e999 -0.0 nan inf -inf NaN "
    "infinity 1e 1e+ --1 true 999999 1000000 1000001 9223372036854775807 9223372036854775808 5e-324 "
    "0.9999999999999999 0.30000000000000004 1.7976931348623157e308"
)
NUMBERS = (*_NUMBERS.split(), "", " ", "1 0", "1" * 41, "9" * 5000, "0." + "3" * 300)
_PIECES = (
    "( ) , : = @ .. . - + e cycles= name= cls= self= z= rate= constant= bits= full static: call: CR %s "
    "deficit( delay( join( eval( () ,, :: == @@ ... é ' \" \\ {} __class__"
)
PIECES = (*_PIECES.split(), " ", "\t", "\n", "\r", "\0", "\u2028", "\xa0", "\ud800")


def draw_spec(random):
    """Return a spec, valid or not, and the arguments ``bits`` and ``cycles``."""
    complete = random.random() < 0.8
    drawn = random_spec(random, depth=random.choice((0, 0, 1, 1, 2, 3))) if complete else open_spec(random)
    text = respelled(random, drawn)
    if random.random() < 0.4:
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            text = damaged(random, text)
    bits, cycles = (None, None) if complete else ((3, 8), 4)
    if random.random() < 0.05:
        bits = random.choice(((8, 3), (0, 8), (3, 17), (3, 10**30), (1.5, 2), (True, 8), "38", 8, (), (1, 2, 3)))
        cycles = random.choice((0, -1, 10**6, 10**6 + 1, 10**30, 2.5, True, "4"))
    return text, bits, cycles


def check_spec(s):
    """Check the laws for one schedule."""

    def check(found, total):
        low, high = (32 if each is None else each for each in s.limits(total))
        for each in found:
            assert each is None or (type(each) is int and 1 <= each <= MAX_BITS)
            assert low <= (32 if each is None else each) <= high
        assert s.histogram(total) == Counter(found)

    _check(s, bc.schedule, check)


def draw_strength(random):
    """Return a spec of strength, valid or not."""
    text = random_spec(random, Quantity.STRENGTH, depth=random.choice((0, 0, 1, 2)))
    return damaged(random, text) if random.random() < 0.4 else text


def check_strength(s):
    """Check the laws for one strength."""

    def check(found, total):
        assert all(0 <= each <= 1 for each in found)
        assert [s(step, total) for step in (0, total - 1, total + 5)] == [found[0], found[-1], found[-1]]

    _check(s, sc.strength, check)


def _check(s, read, check):
    """Check that a schedule has a spec, and check its values in short runs."""
    again = read(str(s))
    assert again == s
    assert hash(again) == hash(s)
    assert str(again) == str(s)
    for total in (1, 7, 40):
        try:
            found = s.over(total).tolist()
        except ValueError as error:  # a window or a boundary in steps may lie outside of a short run
            check_message(error)
            continue
        assert len(found) == total
        check(found, total)


def draw_control(random):
    """Return a control of a plan, valid or not."""
    reference = random.choice((*sc.TEN, "linear-rise", draw_spec(random)[0]))
    control = random.choice(
        ("", *(", mixed", " , mixed ", ", low-high", ",high-low", ", dip") * 2, ", wave", ",", ", 3")
    )
    text = f"match({reference}{control})"
    if random.random() < 0.2:
        text = "match(" + damaged(random, text.removeprefix("match("))
    return text


def solved(text):
    """Return the specs that a control is solved to."""
    return with_solved_controls([text], (3, 8), 4, STEPS, "max", lambda s, backward: COST.training(s, STEPS, backward))


def check_control(specs):
    """Check that a control gives specs."""
    assert specs
    assert [str(sc.schedule(spec)) for spec in specs] == list(specs)


def check_message(error):
    """A message is one readable line."""
    message = str(error)
    assert message.strip()
    assert len(message.splitlines()) == 1
    assert len(message) <= 600


def respelled(random, text):
    """Return a spec in another spelling: blanks around its marks, short names of shapes, numbers of another form."""
    for mark in ",:(":
        if random.random() < 0.1:
            text = text.replace(mark, random.choice((" ", "\t", "\n")) + mark + " ")
    for canonical, other in (("triangular-h", "triangular"), ("fall-h", "fall"), ("0.0", "-0.0"), ("0.25", "0.250")):
        if random.random() < 0.1:
            text = text.replace(canonical, other)
    return text


def open_spec(random):
    """Return a spec that leaves bits and cycles open."""
    name = random.choice((*sc.TEN, "cosine-triangular", "rex-repeated:constant=-3", "exponential-repeated:rate=1e300"))
    return random.choice((name, f"delay(0.25, {name})", f"join({name}, 0.5, static:4)", f"deficit(3@0..5, {name})"))


def damaged(random, text):
    place = random.randint(0, len(text))
    match random.randrange(9):
        case 0:
            return text[:place] + text[place + random.randint(1, 5) :]
        case 1:
            return text[:place] + random.choice(PIECES) + text[place:]
        case 2:
            return text[:place] + random.choice(PIECES) * random.choice((2, 50, 51, 500, 5000, 20_000)) + text[place:]
        case 3:
            return text[:place]
        case 4:
            numbers = [index for index, letter in enumerate(text) if letter.isdigit()]
            if numbers:
                place = random.choice(numbers)
            return text[:place] + random.choice(NUMBERS) + text[place + 1 :]
        case 5:
            opened = "delay(0.1, " if random.random() < 0.5 else "deficit(1@0..1, "
            depth = random.choice((10, 45, 49, 50, 51, 900))
            return opened * depth + text + ")" * depth
        case 6:
            start = random.randint(0, len(text))
            return text[:place] + text[start : start + random.randint(1, 40)] + text[place:]
        case 7:
            return text + ":" + random.choice(("name", "cls", "self", "cycles", "rate", "constant", "")) + "=1"
        case _:
            return text[:place] + chr(random.choice((random.randrange(128), random.randrange(0x110000)))) + text[place:]
