"""Runs in an object store: they go on from it, whole at any moment."""

import shutil
from pathlib import Path

import pytest
from benchmarks.synthetic import write_run

from cvflows.errors import ArgumentError, StoreError
from cvflows.runs.folder import RunFolder
from cvflows.runs.grid import Grid, jobs_of
from cvflows.runs.mirror import Mirror
from cvflows.runs.suite import Suite
from cvflows.runs.worker import work
from small import tables

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]


def test_runs_go_on_from_an_object_store(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="pip install 'cvflows[ray]'")
    store = (tmp_path / "store").as_uri()
    settings = {"hidden": (16, 16), "batch": 32, "learning_starts": 100}
    grid = Grid(("R+L2",), ("DPre+",), steps=800, checkpoint_every=200, final_episodes=2, set=settings)

    def job(out, mirror=store):
        return jobs_of([grid], tmp_path / out, mirror)[-1]

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
    assert Suite([grid], tmp_path / "second", store).summary()["states"] == {"complete": 1}
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
    monkeypatch.setattr(mirror.store, "find", lambda start: [f"{start}/{name}"])
    monkeypatch.setattr(mirror.store, "get_file", lambda *_: pytest.fail("it was fetched"))
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
        put, left = mirror.store.put_file, iter(range(count))

        def half(source, target, **_):
            if next(left, None) is None:
                content = Path(source).read_bytes()
                Path(target).write_bytes(content[: len(content) // 2])
                raise KeyboardInterrupt
            put(source, target)

        monkeypatch.setattr(mirror.store, "put_file", half)
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
