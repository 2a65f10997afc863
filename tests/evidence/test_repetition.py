"""A random part of the runs is trained again and compared digit by digit."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import bitcycle
import evidence.figures
from bitcycle.lab.locks import try_lock
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.store import Store
from evidence.design import Design, Role
from evidence.figures import Figure, StudyFigures, all_figures, figure_of
from evidence.repetition import REPEATED, Repetition, keep, known_runs, repeat, repetitions, sample
from evidence.studies import PlannedRun, PlannedStudy
from tests.evidence import made_up


@pytest.fixture(scope="module", params=["simulated", "integer"])
def known(request):
    runs = [RunConfig("graph", "static:4", 2, seed, "max") for seed in (100, 101)]
    study = PlannedStudy(tuple(PlannedRun("static", run) for run in runs), Plan("p", ()))
    record, _ = train(runs[0], execute=request.param)
    figure = figure_of("static", record)
    made = StudyFigures("accuracy", True, (figure, replace(figure, run="a run of an earlier design")))
    return known_runs(study, made)


@pytest.mark.slow
def test_a_repetition_is_equal_digit_by_digit(known):
    assert len(known) == 1
    [repetition] = repeat(list(known.values()), workers=1)
    assert repetition.is_equal
    assert repetition.again.execution == repetition.known.execution
    assert (repetition.again.bitcycle, bool(repetition.again.cpu)) == (bitcycle.__version__, True)
    assert not Repetition(
        replace(repetition.known, loss=repetition.known.loss * (1 + 2**-50)), repetition.again
    ).is_equal


def test_a_run_that_diverged_again_is_equal(known):
    [[_, figure]] = known.values()
    diverged = replace(figure, loss=math.nan)
    assert Repetition(diverged, replace(diverged)).is_equal
    assert not Repetition(diverged, figure).is_equal


def figure(run, setting="CR", loss=0.5, **values):
    return Figure(setting, "CR:3-8", 100, 0.9, loss, 10, 1.0, run, "integer", **values)


TWO = Design((), (made_up.domain(studies=("schedules", "cycles")),), {}, {Role.JUDGING: 100}, 0)
SHARED = {
    ("d", "schedules"): StudyFigures("accuracy", True, (figure("shared"), figure("other"))),
    ("d", "cycles"): StudyFigures("accuracy", True, (figure("shared", "CR 8 cycles"),)),
}


def test_a_run_of_two_studies_is_kept_in_both_and_counted_once(tmp_path):
    keep(tmp_path, TWO, SHARED, figure("shared", bitcycle="0.2", cpu="A"))
    repeated = all_figures(tmp_path / REPEATED, TWO, Role.JUDGING)
    assert {part: [each.setting for each in study.figures] for part, study in repeated.items()} == {
        ("d", "schedules"): ["CR"],
        ("d", "cycles"): ["CR 8 cycles"],
    }
    [pair] = repetitions(SHARED, repeated).values()
    assert pair.is_equal
    assert (pair.again.bitcycle, pair.again.cpu) == ("0.2", "A")


def test_a_repetition_that_differed_stays(tmp_path):
    for loss, is_equal in ((0.5, True), (0.25, False), (0.5, False), (0.5, False)):
        keep(tmp_path, TWO, SHARED, figure("shared", loss=loss))
        repeated = all_figures(tmp_path / REPEATED, TWO, Role.JUDGING)
        [pair] = repetitions(SHARED, repeated).values()
        assert pair.is_equal == is_equal
    assert sorted(each.loss for each in repeated["d", "cycles"].figures) == [0.25, 0.5]


def test_processes_that_repeat_at_once_lose_nothing(tmp_path):
    many = [figure(f"run {i}") for i in range(40)]
    made = {("d", "schedules"): StudyFigures("accuracy", True, tuple(many))}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: keep(tmp_path, TWO, made, each), many))
    repeated = all_figures(tmp_path / REPEATED, TWO, Role.JUDGING)
    assert {each.run for each in repeated["d", "schedules"].figures} == {each.run for each in many}
    assert [path.suffix for path in (tmp_path / REPEATED).glob("*/*")] == [".csv"]


def test_an_update_of_figures_keeps_others_out(tmp_path, monkeypatch):
    path, taken = tmp_path / "figures" / "d-schedules.csv", []
    monkeypatch.setattr(evidence.figures, "read", lambda path: taken.append(try_lock(path.with_suffix(".lock"))))
    with Store(tmp_path / "s.sqlite") as store:
        evidence.figures.update(path, PlannedStudy((), Plan("p", ())), store)
    assert taken == [None]


def test_the_same_seed_chooses_the_same_runs():
    many = {str(i): i for i in range(100)}
    assert sample(many, 0.1, 0) == sample(many, 0.1, 0) != sample(many, 0.1, 1)
    assert [len(sample(many, share, 0)) for share in (0.1, 0.001)] == [10, 1]
    assert sample({}, 0.1, 0) == {}
