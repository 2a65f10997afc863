"""The engine for clusters, on a real Ray cluster of two local nodes, one of which is killed in the middle."""

import re
import signal

import pytest

from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store
from tests.lab.studies.own_task_files import edit, write
from tests.support.studies import results

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray")
from bitcycle.lab.studies.engines.cluster import RayEngine

PLAN = {"task": "image", "steps": 40, "batch_size": 16}


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_node_dies_and_the_results_are_those_of_one_machine(cluster, tmp_path):
    [other] = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    task, killed = write(tmp_path / "files"), tmp_path / "killed"
    wait = f"    while self.now > 20 and not os.path.exists({str(killed)!r}):\n            time.sleep(0.01)\n"
    edit(tmp_path / "files" / "points_task.py", "    time.sleep(0.01)\n", f"    self.now += 1\n    {wait}")
    edit(tmp_path / "files" / "points_task.py", "learning = 0.05", "learning, now = 0.05, 0")
    edit(tmp_path / "files" / "points_task.py", "import time", "import os\nimport time")
    plan = plan_of({"task": task, "schedules": ["CR", "static q_max"], "seeds": 2}, "points")

    def watch(now):
        if not killed.exists() and sum(step > 0 for step in now.running.values()) == 2:  # one on each node
            cluster.remove_node(other, allow_graceful=False)
            killed.touch()

    with Store(tmp_path / "cluster.sqlite") as store:
        run_study(plan, store, RayEngine(), watch=watch)
    assert killed.exists()
    with Store(tmp_path / "local.sqlite") as store:
        run_study(plan, store, LocalEngine(workers=2, threads=1))
    assert results(tmp_path / "cluster.sqlite") == results(tmp_path / "local.sqlite")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("", "Ray did not start on this machine: The current node timed out. The machine may be busy: run the same"),
        ("here:1", "cannot reach a Ray cluster at 'here:1': The current node timed out."),
    ],
)
def test_a_cluster_that_does_not_start_is_told_in_one_line(tmp_path, monkeypatch, address, told):
    def init(**_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Ray replaces the handler
        raise Exception("The current node timed out.\nSee the logs of the raylet.")  # as Ray does, without a class

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ray, "init", init)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(OSError, match="^" + re.escape(told)) as caught:
            run_study(plan_of(PLAN, "image"), store, RayEngine(address=address))
        assert store.failures() == []
    assert len(str(caught.value).splitlines()) == 1
    assert signal.getsignal(signal.SIGTERM) is before
