"""Clusters of Ray on this machine, a raylet for each machine that they stand for."""

import contextlib
import os
from pathlib import Path

OWN = {"num_cpus": 1, "object_store_memory": 80 << 20}
_SETTINGS = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # as the executor has it, before Ray is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}


def insist(start):
    """Start something of Ray, three times: it gives one of its processes 15 s, whatever else the machine does."""
    for again in (True, True, False):
        try:
            return start()
        except Exception as error:
            if not again or "timed out during startup" not in str(error):
                raise
    raise AssertionError


@contextlib.contextmanager
def two_machines(*folders):
    """One of two machines with a processor each, whose workers find modules in these folders."""
    before = dict(os.environ)
    source = Path(__file__).parents[2] / "src"
    os.environ.update(_SETTINGS, PYTHONPATH=os.pathsep.join(map(str, [source, *folders])))
    from ray.cluster_utils import Cluster

    head = {**OWN, "include_dashboard": False}
    started = insist(lambda: Cluster(initialize_head=True, head_node_args=head))
    try:
        insist(lambda: started.add_node(**OWN))
        yield started
    finally:
        started.shutdown()
        os.environ.clear()
        os.environ.update(before)
