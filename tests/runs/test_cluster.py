"""Machines that vanish from a Ray cluster: their runs end on another, as if nothing had happened."""

import os
import threading
import time

import pytest

from cvflows.runs.folder import RunFolder
from cvflows.runs.grid import Grid
from cvflows.runs.launch import Local, Ray
from cvflows.runs.suite import Suite
from small import tables

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
SMALL = {"hidden": (16, 16), "batch": 32, "learning_starts": 100}
GRID = Grid(("R+L2",), ("SAC", "DPre+"), steps=4000, checkpoint_every=200, final_episodes=2, set=SMALL)


@pytest.fixture
def cluster(monkeypatch):
    pytest.importorskip("ray", reason="pip install 'cvflows[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield started
    ray.shutdown()
    started.shutdown()


def test_runs_of_a_lost_node_end_on_the_other(cluster, tmp_path):
    import ray

    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    suite, figures = Suite([GRID], tmp_path / "ray"), {}
    ray.init(address=cluster.address, log_to_driver=False)
    thread = threading.Thread(target=lambda: figures.update(suite.run(Ray(retries=3))))
    thread.start()
    folders = [job.folder for job in suite.jobs]
    while not all(RunFolder(folder).has_checkpoint() for folder in folders):
        assert thread.is_alive()
        time.sleep(0.05)
    assert all(RunFolder(folder).is_locked() for folder in folders)
    cluster.remove_node(nodes[0], allow_graceful=False)
    while all(RunFolder(folder).is_locked() for folder in folders):
        time.sleep(0.05)
    lost = [RunFolder(folder) for folder in folders if not RunFolder(folder).is_locked()]
    assert [run.final() for run in lost] == [None]
    thread.join()
    assert figures["states"] == {"complete": 2}, figures
    assert not figures["failures"]
    for folder in folders:  # what the lost node did since its checkpoint was cut off, and is counted once
        rows = RunFolder(folder).table("timing.csv")
        assert [row["from"] for row in rows] == ["0", *(row["step"] for row in rows[:-1])]

    alone = Suite([GRID], tmp_path / "local")
    alone.run(Local(os.cpu_count()))
    for one, other in zip(folders, [job.folder for job in alone.jobs], strict=True):
        assert tables(one) == tables(other)
