from types import SimpleNamespace

import pytest

from bitcycle.lab.advice import advise


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"goal": "costs"}, "unknown goal 'costs'; did you mean 'cost'?"),
        ({"domain": "graphs"}, "unknown domain 'graphs'; did you mean 'graph'?"),
        ({"steps": 0}, "the number of steps must be 1 or more"),
        ({"q_max": 8.5}, "q_max must be an integer"),
        ({"q_min": 0}, "q_min must be 1 or more"),
        ({"q_min": 8}, "q_min 8 leaves nothing to schedule below q_max 8: train at static:8"),
        ({"domain": "language", "q_max": 5}, "give q_min, or the result of a range test"),
        ({"save": 40}, "such as 0.4 for 40 %"),
        ({"save": 0}, "above 0 and below 1"),
        ({"save": "40 %"}, "above 0 and below 1"),
        ({"save": 0.9}, "no schedule from 2 to 8 bits saves 90 % of static 8 bits: the most is 81 %, by RTH:2-8"),
        ({"save": 0.75, "q_min": 3}, "the most is 70.1 %, by RTH:3-8:cycles=8:constant=0.999"),
        ({"q_min": 3, "range_test": SimpleNamespace(q_min=3, reason="")}, "q_min is given twice"),
        ({"range_test": SimpleNamespace(q_min=None, reason="Nothing learns.")}, "found no q_min.*Nothing learns"),
    ],
)
def test_one_clear_line(question, told):
    with pytest.raises(ValueError, match=told) as caught:
        advise(**question)
    assert "\n" not in str(caught.value)
