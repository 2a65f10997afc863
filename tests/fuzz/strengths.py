"""Random specs of strength and of controls at equal cost: most follow the grammar, the others are damaged ones."""

import numpy as np

from bitcycle import schedules as sc
from bitcycle._cost import Cost, Row
from bitcycle.lab.studies.controls import with_solved_controls
from bitcycle.schedules.base import Quantity
from tests.fuzz.specs import check_message, damaged, draw_spec
from tests.schedules.strategies import random_spec

COST = Cost((Row("fc", "Linear", "Linear", 10, 0, 10, quantized=True),))
STEPS = 200


def draw_strength(random):
    """Return a spec of strength, valid or not."""
    text = random_spec(random, Quantity.STRENGTH, depth=random.choice((0, 0, 1, 2)))
    return damaged(random, text) if random.random() < 0.4 else text


def check_strength(text):
    """Check the laws for one spec of strength. Return whether it is valid."""
    try:
        s = sc.strength(text)
    except ValueError as error:
        check_message(error)
        return False
    again = sc.strength(str(s))
    assert again == s
    assert str(again) == str(s)
    for total in (1, 7, 40):
        try:
            found = s.values(np.arange(total), total)
        except ValueError as error:  # a moment in steps may lie outside of a short run
            check_message(error)
            continue
        assert found.shape == (total,)
        assert ((found >= 0) & (found <= 1)).all()
        assert [s(step, total) for step in (0, total - 1, total + 5)] == [found[0], found[-1], found[-1]]
    return True


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


def check_control(text):
    """Check that a control is refused with one line, or gives specs. Return whether it is valid."""
    try:
        solved = with_solved_controls(
            [text], (3, 8), 4, STEPS, "max", lambda s, backward: COST.training(s, STEPS, backward)
        )
    except ValueError as error:
        check_message(error)
        return False
    assert solved
    for spec in solved:
        assert str(sc.schedule(spec)) == spec
    return True
