"""A study on a Ray cluster of two local nodes, one of which is killed: ``python -m tests.chaos.cluster STORE STEP``."""

import sys

from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.cluster import RayEngine
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store
from tests.chaos.episodes import PLAN


def main(path: str, step: int) -> None:
    """Run the study and kill a node once both nodes have a run that has reached a step."""
    import ray  # an extra, and slow to load

    cluster, other = _two_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    killed = []

    def watch(now):
        if not killed and now.running and max(now.running.values()) >= step:
            killed.append(True)
            cluster.remove_node(other, allow_graceful=False)

    with Store(path) as store:
        run_study(plan_of(PLAN, "tiny"), store, RayEngine(), watch=watch)
    ray.shutdown()
    cluster.shutdown()


def _two_nodes(attempts: int = 5):
    """Return a cluster and its second node. A busy machine may need longer than the 30 s that Ray allows itself."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=1, include_dashboard=False)
        other = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes(timeout=120)
        return cluster, other
    except Exception:  # Ray has no class for it
        cluster.shutdown()
        if attempts == 1:
            raise
    return _two_nodes(attempts - 1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
