"""Machines that vanish: their runs end on another, as if nothing had happened."""

import os
import shutil
import threading
import time
from dataclasses import replace

import pytest

from cvflows.errors import ArgumentError
from cvflows.runs.grid import Grid, jobs_of
from cvflows.runs.launch import Local, Ray
from cvflows.runs.mirror import Mirror
from cvflows.runs.store import RunFolder
from cvflows.runs.suite import Suite
from cvflows.runs.worker import work

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
SMALL = {"hidden": (16, 16), "batch": 32, "learning_starts": 100}
GRID = Grid(("R+L2",), ("SAC", "DPre+"), steps=4000, checkpoint_every=200, final_episodes=2, set=SMALL)


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv") if path.name != "timing.csv"}


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
    suite, figures = Suite(GRID, tmp_path / "ray"), {}
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
    thread.join(300)
    assert not thread.is_alive()
    assert figures["states"] == {"complete": 2}, figures
    assert not figures["failures"]
    parts = [len(RunFolder(folder).table("timing.csv")) for folder in folders]
    assert sorted(parts) == [1, 1]  # what the lost node did since its checkpoint was cut off, and is counted once

    alone = Suite(GRID, tmp_path / "local")
    alone.run(Local(os.cpu_count()))
    for one, other in zip(folders, [job.folder for job in alone.jobs], strict=True):
        assert tables(one) == tables(other)


def test_runs_go_on_from_an_object_store(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="pip install 'cvflows[ray]'")
    store = (tmp_path / "store").as_uri()
    grid = replace(GRID, methods=("DPre+",), steps=800)

    def job(out, mirror=store):
        return jobs_of(grid, tmp_path / out, mirror)[-1]

    def stop(self, folder, place):
        push(self, folder, place)
        if RunFolder(folder).has_checkpoint():
            raise KeyboardInterrupt

    push = Mirror.push
    with monkeypatch.context() as patched:
        patched.setattr(Mirror, "push", stop)
        with pytest.raises(KeyboardInterrupt):
            work("run", job("first").data)
    shutil.rmtree(tmp_path / "first")  # the machine is gone
    work("run", job("second").data, tmp_path / "scratch")
    assert not (tmp_path / "second").exists()
    assert Suite(grid, tmp_path / "second", store).summary()["states"] == {"complete": 1}
    work("run", job("alone", None).data)
    assert tables(job("second").folder) == tables(job("alone").folder)
    with pytest.raises(ArgumentError, match="`mirror`: expected the address of an object store"):
        Mirror("nowhere://bucket")
