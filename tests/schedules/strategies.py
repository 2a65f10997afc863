"""Random schedules of every kind that is registered: a new kind of schedule needs one entry here."""

from random import Random

from hypothesis import strategies as st

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.cyclic import SHAPES
from bitcycle.schedules.profiles import Profile

WIDTHS = st.integers(1, 16)
SPANS = st.tuples(WIDTHS, WIDTHS).map(lambda pair: (min(pair), max(pair)))
RANDOMS = st.randoms(use_true_random=False)


def called(step, total):
    """A function of bits and of strength."""
    return int(2 * step < total) or 1


bc.schedule(called)


def parameters(rng, profile):
    """Return a parameter of a profile, or none."""
    known = {"exponential": {"rate": rng.uniform(3.5, 50)}, "rex": {"constant": rng.uniform(0, 0.99)}}
    return known.get(profile, {}) if rng.random() < 0.5 else {}


def random_spec(rng, quantity=Quantity.BITS, depth=2):
    """Return the spec of a random schedule, with combinators that are nested at most ``depth`` deep."""
    of_bits = quantity is Quantity.BITS

    def value():
        return rng.randint(1, 16) if of_bits else rng.choice((0.0, 1.0, rng.random()))

    def moments(number):
        fractions = {0.0, 5e-324, 0.1, 0.25, 1 / 3, 0.5, 0.75, *(rng.random() for _ in range(number))}
        return sorted(rng.sample(sorted(fractions), number))

    def part():
        return random_spec(rng, quantity, depth - 1)

    def cyclic():
        profile, shape = rng.choice(list(sc.PROFILES)), rng.choice(list(SHAPES))
        low, high = sorted((value(), value()))
        cycles = "" if shape.startswith("fall") else f":cycles={2 * rng.choice((1, 2, 4, 10, rng.randint(1, 1000)))}"
        settings = "".join(f":{key}={number!r}" for key, number in parameters(rng, profile).items())
        return f"{profile}-{shape}:{low}-{high}{cycles}{settings}"

    def join():
        return f"join({part()}{''.join(f', {at!r}, {part()}' for at in moments(rng.choice((1, 2, 4))))})"

    def deficit():
        ends = moments(rng.choice((2, 4, 6)))
        windows = zip(ends[::2], ends[1::2], strict=True)
        return (
            "deficit(" + "".join(f"{rng.choice((value(), 'full'))}@{a!r}..{b!r}, " for a, b in windows) + f"{part()})"
        )

    kinds = [cyclic, lambda: "call:called", lambda: f"static:{value()}" if of_bits else repr(value())]
    kinds += [join] if depth else []
    if of_bits:
        kinds += [lambda: "full", lambda: f"static:{rng.randint(1, 15)}.{rng.randint(1, 999_999):06}"]
        kinds += (
            [deficit, lambda: f"delay({rng.choice((0.0, 0.25, rng.uniform(0, 0.99)))!r}, {part()})"] if depth else []
        )
    return rng.choice(kinds)()


@st.composite
def cyclics(draw, shapes=tuple(SHAPES)):
    shape = draw(st.sampled_from(shapes))
    cycles = 1 if shape.startswith("fall") else draw(st.integers(1, 20)) * (2 if shape.startswith("tri") else 1)
    return sc.Cyclic(draw(PROFILES), shape, *draw(SPANS), cycles=cycles)


def random_profile(rng):
    name = rng.choice(list(sc.PROFILES))
    return Profile.of(name, **parameters(rng, name))


PROFILES = RANDOMS.map(random_profile)
schedules = RANDOMS.map(lambda rng: bc.schedule(random_spec(rng)))
strengths = RANDOMS.map(lambda rng: sc.strength(random_spec(rng, Quantity.STRENGTH)))


def drawn_kinds(quantity):
    """Return the kinds of schedules that are drawn."""
    read = bc.schedule if quantity is Quantity.BITS else sc.strength
    return {type(read(random_spec(Random(seed), quantity, depth=1))) for seed in range(300)}
