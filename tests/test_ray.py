"""Machines that vanish: their runs end on another, as if nothing had happened."""

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.synthetic import write_run

from cvflows.errors import ArgumentError, StoreError
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
    for folder in folders:  # what the lost node did since its checkpoint was cut off, and is counted once
        rows = RunFolder(folder).table("timing.csv")
        assert [row["from"] for row in rows] == ["0", *(row["step"] for row in rows[:-1])]

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


@pytest.fixture
def store(tmp_path):
    pytest.importorskip("fsspec", reason="pip install 'cvflows[ray]'")
    return tmp_path / "store"


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "a\\b"])
def test_names_that_lead_out_of_a_folder_are_refused(store, tmp_path, monkeypatch, name):
    (store / "run").mkdir(parents=True)
    (store / "run" / "config.json").write_text("{}")
    mirror = Mirror(store.as_uri())
    monkeypatch.setattr(mirror._store, "find", lambda start: [f"{start}/{name}"])
    monkeypatch.setattr(mirror._store, "get_file", lambda *_: pytest.fail("it was fetched"))
    with pytest.raises(StoreError, match="is not a name of a file below"):
        mirror.pull(tmp_path / "here" / "run", "run")


def test_an_interrupted_copy_leaves_the_old_checkpoint_whole(store, tmp_path, monkeypatch):
    first = write_run(tmp_path / "first", "R+D", "SAC", 0, steps=20_000, episodes=60, complete=False)
    Mirror(store.as_uri()).push(first, "run")
    second = write_run(tmp_path / "second", "R+D", "SAC", 0, steps=20_000, episodes=60)
    (tmp_path / "precious").write_text("not to be copied")
    (second / "link.csv").symlink_to(tmp_path / "precious")

    def break_at(count):
        mirror = Mirror(store.as_uri())
        put, left = mirror._store.put_file, iter(range(count))

        def half(source, target, **_):
            if next(left, None) is None:
                content = Path(source).read_bytes()
                Path(target).write_bytes(content[: len(content) // 2])
                raise KeyboardInterrupt
            put(source, target)

        monkeypatch.setattr(mirror._store, "put_file", half)
        try:
            mirror.push(second, "run")
        except KeyboardInterrupt:
            return False
        finally:
            monkeypatch.undo()
        return True

    steps, count = [], 0
    while True:
        done = break_at(count)
        here = tmp_path / f"pulled{count}"
        Mirror(store.as_uri()).pull(here, "run")
        assert not list(here.rglob("*.partial"))
        newest = RunFolder(here).newest()
        steps.append(newest.counts.step)
        assert newest.tables["metrics.csv"].read(here)
        assert (here / newest.state.file).exists()
        if done:
            break
        count += 1
    assert steps == sorted(steps)
    assert set(steps) == {10_000, 20_000}
    assert not (store / "run" / "link.csv").exists()
