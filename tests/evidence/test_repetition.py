"""A random part of the runs is trained again and compared digit by digit."""

import math
from dataclasses import replace

import pytest

from bitcycle._evidence.figures import StudyFigures, figure_of
from bitcycle._evidence.repetition import Repetition, known_runs, repeat, sample
from bitcycle._evidence.studies import PlannedRun, PlannedStudy
from bitcycle._study.plan import Plan
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.training import train
from tests.evidence.made_up import design


@pytest.fixture(scope="module", params=["simulated", "integer"])
def known(request):
    runs = [RunConfig("graph", "static:4", 2, seed, "max") for seed in (100, 101)]
    study = PlannedStudy(design().domains[0], "schedules", tuple(PlannedRun("static", r) for r in runs), Plan("p", ()))
    record, _ = train(runs[0], execute=request.param)
    figure = figure_of("static", record)
    made = StudyFigures("accuracy", True, (figure, replace(figure, run="a run of an earlier design")))
    return known_runs(study, made)


def test_a_repetition_is_equal_digit_by_digit(known):
    assert len(known) == 1
    [repetition] = repeat(list(known.values()), workers=1)
    assert repetition.is_equal
    assert repetition.again.execution == repetition.known.execution
    assert not Repetition(
        replace(repetition.known, loss=repetition.known.loss * (1 + 2**-50)), repetition.again
    ).is_equal


def test_a_run_that_diverged_again_is_equal(known):
    [[_, figure]] = known.values()
    diverged = replace(figure, loss=math.nan)
    assert Repetition(diverged, replace(diverged)).is_equal
    assert not Repetition(diverged, figure).is_equal


def test_the_same_seed_chooses_the_same_runs():
    many = {str(i): i for i in range(100)}
    assert sample(many, 0.1, 0) == sample(many, 0.1, 0) != sample(many, 0.1, 1)
    assert len(sample(many, 0.1, 0)) == 10
    assert len(sample(many, 0.001, 0)) == 1
    assert len(sample(many, 0.0, 0)) == 1
