"""Hypothesis strategies over every kind of schedule that is registered."""

from hypothesis import strategies as st

from bitcycle import schedules as sc
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.cyclic import SHAPES
from bitcycle.schedules.profiles import Profile
from bitcycle.schedules.registry import random_schedule
from bitcycle.schedules.strengths import StrengthSchedule

WIDTHS = st.integers(1, 16)
SPANS = st.tuples(WIDTHS, WIDTHS).map(lambda pair: (min(pair), max(pair)))
RANDOMS = st.randoms(use_true_random=False)
PROFILES = RANDOMS.map(Profile.random)


@st.composite
def cyclics(draw, shapes=tuple(SHAPES), profiles=PROFILES):
    shape = draw(st.sampled_from(shapes))
    cycles = 1 if shape.startswith("fall") else draw(st.integers(1, 20)) * (2 if shape.startswith("tri") else 1)
    return sc.Cyclic(draw(profiles), shape, *draw(SPANS), cycles=cycles)


schedules = RANDOMS.map(random_schedule)
strengths = RANDOMS.map(lambda rng: StrengthSchedule(random_schedule(rng, Quantity.STRENGTH)))
