"""Questions that cannot be answered, with records or without."""

from types import SimpleNamespace

import pytest

from bitcycle.lab.advice import RunRecord, TrainingSettings, advise
from tests.lab.advice.made_up_runs import AS_GOOD, BASE, runs

MIXED = [RunRecord(run.schedule, run.seed, run.quality, run.cost, TrainingSettings(4 + run.seed)) for run in AS_GOOD]


@pytest.mark.parametrize(
    ("question", "message"),
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
        ({"save": 0.9}, "no schedule from 2 to 8 bits saves 90.0 % of static 8 bits: the most is 81.2 %, by static:2"),
        ({"q_min": 3, "range_test": SimpleNamespace(q_min=3, reason="")}, "q_min is given twice"),
        ({"range_test": SimpleNamespace(q_min=None, reason="Nothing learns.")}, "found no q_min.*Nothing learns"),
        ({"model": "a model"}, "both model and inputs"),
        ({"margin": 0.1}, "margin applies to records"),
        ({"goal": "cost", "records": []}, "the goal 'cost' is for advice without records"),
        ({"records": []}, "no run of the baseline static:8 to compare with; they contain none at all"),
        ({"records": AS_GOOD}, "no run of the baseline static:8 to compare with; they contain CT:3-8:cycles=8"),
        ({"records": [*BASE[:2], *AS_GOOD]}, "the baseline static:8 needs at least 3 seeds for a comparison, got 2"),
        ({"records": [*BASE, *BASE[:1]]}, "two records of static:8 with seed 0"),
        ({"records": [*BASE, *MIXED]}, "the records of CT:3-8 differ in more than the seed"),
        ({"records": [*BASE, *AS_GOOD], "q_min": 9}, "stays at 9 bits or above"),
        ({"records": [*BASE, *AS_GOOD], "save": 0.5}, "saves 50.0 %: the most is 37.0 %, by CT:3-8:cycles=8"),
        ({"records": runs("static:8", [0.9, float("inf"), 0.9], 1.0)}, "some runs of the baseline static:8 diverged"),
        ({"records": runs("static:8", [0.9, 0.9, 0.9], 0.0)}, "the cost of the baseline static:8 must be above 0"),
        *(
            ({"records": [*BASE, *AS_GOOD], "margin": margin}, "margin must be a finite number from 0 up")
            for margin in (-0.1, float("nan"), float("inf"), "1 %", True)
        ),
    ],
)
def test_one_clear_line(question, message):
    with pytest.raises(ValueError, match=message) as caught:
        advise(**question)
    assert "\n" not in str(caught.value)
