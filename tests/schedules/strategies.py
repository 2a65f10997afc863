"""Hypothesis strategies over every kind of schedule there is."""

from hypothesis import strategies as st

from bitcycle import schedules as sc

WIDTHS = st.integers(1, 16)
SPANS = st.tuples(WIDTHS, WIDTHS).map(lambda pair: (min(pair), max(pair)))
PROFILES = st.one_of(
    st.sampled_from([sc.Profile.of(name) for name in ("cosine", "linear", "exponential", "rex")]),
    st.floats(3.5, 50).map(lambda rate: sc.Profile.of("exponential", rate=rate)),
    st.floats(0, 0.99).map(lambda constant: sc.Profile.of("rex", constant=constant)),
)


@st.composite
def cyclics(draw, shapes=tuple(sc.SHAPES), profiles=PROFILES):
    shape = draw(st.sampled_from(shapes))
    cycles = 1 if shape.startswith("fall") else draw(st.integers(1, 20)) * (2 if shape.startswith("tri") else 1)
    return sc.Cyclic(draw(profiles), shape, *draw(SPANS), cycles=cycles)


mixtures = st.floats(1, 16).filter(lambda bits: round(bits, 6) % 1).map(sc.Mixed)
constants = st.one_of(st.none(), WIDTHS).map(sc.Constant)


def _combined(children):
    fractions = st.floats(0, 1, allow_subnormal=False)
    cuts = st.lists(fractions, min_size=2, max_size=4, unique=True).map(sorted)
    bits = st.one_of(st.none(), WIDTHS)
    deficits = st.builds(
        lambda cut, bits, rest: sc.Deficit((sc.Window(cut[0], cut[1], bits),), rest), cuts, bits, children
    )
    delays = st.builds(sc.Delay, st.floats(0, 0.99), children)
    joins = cuts.flatmap(
        lambda at: st.lists(children, min_size=len(at) + 1, max_size=len(at) + 1).map(
            lambda parts: sc.Join(tuple(parts), tuple(at))
        )
    )
    return st.one_of(deficits, delays, joins)


schedules = st.recursive(st.one_of(constants, mixtures, cyclics()), _combined, max_leaves=4)
