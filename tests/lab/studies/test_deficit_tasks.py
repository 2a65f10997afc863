"""Deficit experiments on every task: from the plan to the report, with real trainings of a few steps."""

import pytest

from bitcycle.lab.data.digit_scenes import digit_scenes
from bitcycle.lab.runs.result import Diagnostic
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.reporting import report
from bitcycle.lab.studies.store import Store
from bitcycle.lab.tasks import TASKS, detection
from tests.support.studies import InThisProcess

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_deficits_of_every_task(name, tmp_path, monkeypatch):
    few = digit_scenes(64, 16, 16)  # mAP takes a while
    monkeypatch.setattr(detection, "digit_scenes", lambda **size: few)
    values = {"task": name, "steps": 4, "lengths": [0, 0.5], "window": 0.5, "starts": [0.5], "seeds": 1}
    plan = plan_of({"deficit": [values]}, "probe")
    with Store(tmp_path / "s.sqlite") as store:
        run_study(plan, store, InThisProcess())
        assert not store.failures()
        reported = report(store, "probe", tmp_path / "report")
        records = store.records()
    assert {record.run.learning_rate for record in records} == {"", "hold@0..2", "restart@2", "hold@2..4", "restart@4"}
    assert all(Diagnostic.GRADIENT_OVER_NOISE in point for record in records for point in record.curve)
    (found,) = reported.deficits
    arms = ("held", "restarted", "longer")
    assert {(point.place, point.arm) for point in found.lengths} == {(0, "longer"), *((2, arm) for arm in arms)}
    assert {(point.place, point.arm) for point in found.positions} == {(2, arm) for arm in arms}
    assert all(len(point.qualities) == 1 for point in (*found.lengths, *found.positions))
    assert "an initial deficit of 0.5 normal runs" in (tmp_path / "report" / "report.html").read_text()
