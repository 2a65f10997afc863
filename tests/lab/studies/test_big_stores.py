"""What a question costs in a large store: counted, not timed."""

import json

import pytest

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies import estimate as estimating
from bitcycle.lab.studies import plan as planning
from bitcycle.lab.studies import store as storing
from bitcycle.lab.studies.exports import export
from bitcycle.lab.studies.plan import MAX_SEEDS, Plan, StudyPart
from bitcycle.lab.studies.store import Store
from tests.support.command import bitcycle

RUNS = [RunConfig("image", "static:8", 4, seed) for seed in range(700)]  # more than one question asks for


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "s.sqlite"
    with Store(path) as store:
        for run in RUNS[:-1]:
            store.write(RunResult(run, "accuracy", True, run.seed / 1000, 0.5, 4, 1, 1.0, curve=[{"loss": 0.5}]))
        store.fail(RUNS[-1], "Traceback")
    return path


@pytest.fixture
def read(monkeypatch):
    """The names of the rows that were read."""
    names = []
    plain = storing.outcome_of
    monkeypatch.setattr(storing, "outcome_of", lambda row, *rest: names.append(row[0]) or plain(row, *rest))
    return names


def test_one_result_is_one_row(path, read):
    with Store(path) as store:
        assert [each.run for each in store.records([RUNS[3]])] == [RUNS[3]]
    assert read == [RUNS[3].name]


def test_results_are_read_one_after_the_other(path, read):
    with Store(path) as store:
        for runs in (None, RUNS):
            read.clear()
            first = next(store.outcomes(runs))
            assert read == [first.run.name]


def test_all_ways_to_read_agree(path):
    with Store(path) as store:
        assert [each.run for each in store.records()] == RUNS[:-1]
        assert store.records(RUNS) == store.records()
        assert [each.run for each in store.records(RUNS[::-7])] == [run for run in RUNS[::-7] if run is not RUNS[-1]]
        assert [each.run for each in store.failures(RUNS[::-7])] == [RUNS[-1]]
        assert [each.run for each in store.failures()] == [RUNS[-1]]
        assert [each.curve for each in store.records(RUNS[:3], with_curves=False)] == [[]] * 3
        assert len(store.done()) == len(store.done(run.name for run in RUNS)) == 699


def test_json_is_written_while_it_is_read(tmp_path, path):
    sizes = []

    def watched(records):
        for record in records:
            sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
            yield record

    with Store(path) as store:
        assert export(watched(store.records()), tmp_path / "x.json") == 699
    assert sizes[-1] > sizes[0]
    assert len(json.loads((tmp_path / "x.json").read_text())) == 699


def part(seeds):
    return StudyPart("image", ("ten",), bits=((3, 8),), cycles=(8,), seeds=seeds, steps=40)


def test_a_plan_parses_a_schedule_once_for_all_seeds(monkeypatch):
    parsed = []
    for name in ("complete", "check_widths"):
        plain = getattr(planning, name)
        monkeypatch.setattr(planning, name, lambda *words, plain=plain: parsed.append(words) or plain(*words))
    plan = Plan("x", (part(tuple(range(500))),))
    plan.check()
    assert len(plan.runs()) == 5000
    assert len(parsed) <= 30


def test_an_estimate_counts_a_setting_once_for_all_seeds(monkeypatch):
    counted = []

    class Counting:
        def training(self, spec, steps, backward_bits, **moves):
            counted.append(spec)
            return 1

    monkeypatch.setattr(estimating, "_measure", lambda run: estimating._Measured(Counting(), 1.0, 1.0, 1))
    assert len(estimating.estimate(part(tuple(range(50))).runs())) == 500
    assert len(counted) == 10


def test_too_many_seeds_are_refused_before_anything_is_made():
    with pytest.raises(ValueError, match="up to 100,000 seeds, got 1,000,000,000"):
        Plan("x", (part(range(10**9)),)).check()
    told = bitcycle("study", "image", "--seeds", str(10**9))
    assert told.returncode == 2
    assert str(MAX_SEEDS) in told.stderr
    assert len(told.stderr.splitlines()) == 1
