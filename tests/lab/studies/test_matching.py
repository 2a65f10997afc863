"""Controls at equal cost: what they cost, and where they spend their bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.lab.studies.matching import TOLERANCE, Control, match


def cost(bits, backward):
    """The cost of a training, step by step."""
    return sum(q * q + 2 * q * backward for q in bits)


@st.composite
def references(draw):
    low = draw(st.integers(1, 14))
    high = draw(st.integers(low + 1, 16))
    name, cycles = draw(st.sampled_from(sorted(sc.TEN))), 2 * draw(st.integers(1, 8))
    return bc.schedule(name, bits=(low, high), cycles=cycles)


@given(references(), st.sampled_from(list(Control)), st.integers(1500, 5000), st.sampled_from([4, 8, 16]))
def test_a_control_costs_as_much_as_its_reference(reference, control, total, backward):
    found = match(reference, control, total, backward)
    expected = cost(reference.over(total).tolist(), backward)
    assert cost(found.over(total).tolist(), backward) == pytest.approx(expected, rel=TOLERANCE)
    assert bc.schedule(str(found)) == found


@given(references(), st.integers(1500, 3000))
def test_where_controls_spend_their_bits(reference, total):
    low, high = reference.limits(total)
    bits = {control: match(reference, control, total).over(total) for control in Control}
    assert np.ptp(bits[Control.MIXED]) <= 1
    assert (np.diff(bits[Control.LOW_HIGH]) >= 0).all()
    assert (np.diff(bits[Control.HIGH_LOW]) <= 0).all()
    dip = np.flatnonzero(bits[Control.DIP] < high)
    assert (np.diff(dip) == 1).all()  # one stretch
    assert abs(dip[0] - (total - 1 - dip[-1])) <= 1  # in the middle
    for control in (Control.LOW_HIGH, Control.HIGH_LOW, Control.DIP):
        assert ((bits[control] > low) & (bits[control] < high)).sum() <= 3


@pytest.mark.parametrize("control", list(Control))
def test_the_cost_of_a_model_is_matched(control):
    """A first layer without a gradient of its input, as in a graph network, has one gradient product instead of two."""
    reference, total = bc.schedule("RTH:2-8"), 200

    def of_model(s):
        return sum(10 * (q * q + 8 * q) + q * q + 16 * q for q in s.over(total).tolist())

    found = match(reference, control, total, cost=of_model)
    assert of_model(found) == pytest.approx(of_model(reference), rel=TOLERANCE)


@pytest.mark.parametrize("control", list(Control))
def test_a_long_training_is_matched_closely(control):
    reference, total = bc.schedule("CR:3-8"), 10**5
    found = match(reference, control, total)
    assert found.saving(total, 8, against=8) == pytest.approx(reference.saving(total, 8), abs=1e-6)


def test_the_mixture_of_the_paper():
    """Between 3 and 8 bits the medium group costs as much as 5.62 bits."""
    found = match(bc.schedule("CR:3-8"), "mixed", 64_000)
    assert found.bits == pytest.approx(5.62, abs=0.005)
    assert found.saving(64_000, 8) != pytest.approx(0.367)  # against its own q_max of 6 bits


@given(st.floats(1.001, 15.999).filter(lambda bits: round(bits, 6) % 1), st.integers(1, 2000))
def test_a_mixture_is_even(bits, total):
    """Every beginning of training has as many steps at the higher width as its share, to half a step."""
    mixed = sc.Mixed(bits)
    high = np.cumsum(mixed.over(total) > int(mixed.bits))
    expected = np.arange(1, total + 1) * (mixed.bits - int(mixed.bits))
    assert (np.abs(high - expected) <= 0.5 + 1e-6).all()


@pytest.mark.parametrize(
    ("reference", "control", "total", "message"),
    [
        ("static:8", "mixed", 100, "'static:8' does not move between two widths"),
        ("join(full, 0.5, static:4)", "mixed", 100, "does not move between two widths"),
        ("CR:3-8", "dip", 16, "no control of the kind dip costs as much as 'CR:3-8:cycles=8' in 16 steps, to 0.1 %"),
        ("CR:3-8", "cycle", 100, "unknown control 'cycle'; known names: mixed, low-high, high-low, dip"),
        ("CR:3-8", "mixed", 0, "total must be 1 or more"),
    ],
)
def test_misuse(reference, control, total, message):
    with pytest.raises(ValueError, match=message):
        match(bc.schedule(reference), control, total)
