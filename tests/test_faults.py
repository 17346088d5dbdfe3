"""Runs whose disk fails: at every single change of it, by a kill, an error or a power cut, nothing is lost."""

import shutil
from pathlib import Path

import pytest
from benchmarks.damage import damage
from benchmarks.disk import FAULTS, FaultyDisk, KilledError
from benchmarks.faults import killed_at, kills, unbroken
from benchmarks.fuzz import fuzz
from benchmarks.tiny import contents, finish, quick

from cvflows import files
from cvflows.errors import StoreError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with quick():
        yield unbroken(tmp_path_factory.mktemp("whole") / "run")


def ends_the_same(folder, at, fault, whole):
    shutil.rmtree(folder, ignore_errors=True)
    assert killed_at(folder, at, fault, seed=at)
    finish(folder)
    return contents(folder) == whole


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_ends_the_same_whatever_fails(whole, tmp_path, fault):
    result, changes = whole
    for at in range(FAULTS.index(fault), changes, changes // 3):
        assert ends_the_same(tmp_path / "run", at, fault, result), at


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_ends_the_same_at_every_change_of_the_disk(whole, tmp_path, fault):
    result, changes = whole
    assert [at for at in range(changes) if not ends_the_same(tmp_path / "run", at, fault, result)] == []


def test_every_kind_of_change_is_among_them(tmp_path):
    """So that a fault can be put at each; and what is changed is on the disk before a checkpoint counts it."""
    with quick(), FaultyDisk().installed() as disk:
        finish(tmp_path / "run")
    kinds = {"make", "open", "write", "truncate", "sync", "replace", "remove"}
    assert {operation for operation, _ in disk.calls} == kinds
    names = [(operation, path.name.split("-")[0].split(".")[0]) for operation, path in disk.calls]
    first = names.index(("replace", "checkpoint"))
    for table in ("metrics", "evaluations", "losses", "timing", "replay"):
        written = [at for at, name in enumerate(names[:first]) if name == ("write", table)]
        assert not written or ("sync", table) in names[written[-1] : first], table
    assert ("sync", "run") in names[first:]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    files.write_atomically(path, b"old")
    with FaultyDisk().installed() as disk:
        files.write_atomically(path, b"old")
    for at in range(len(disk.calls)):
        with FaultyDisk(at, "full").installed(), pytest.raises(StoreError, match=r"file cannot be .*No space left"):
            files.write_atomically(path, b"new")
        assert path.read_bytes() in (b"old", b"new") if at == len(disk.calls) - 1 else path.read_bytes() == b"old"
        assert not list(tmp_path.glob("*.partial"))
        files.write_atomically(path, b"old")


def test_a_power_cut_loses_what_was_not_synced(tmp_path):
    """The disk that tests use is as forgetful as a real one."""
    lost = set()
    for seed in range(8):
        path = tmp_path / f"file{seed}"
        path.write_bytes(b"safe")
        with FaultyDisk(1, "power", seed).installed(), files.writable(path) as descriptor, pytest.raises(KilledError):
            files.perform("write", path, files.write_all, descriptor, b"gone")
        lost.add(path.read_bytes())
    assert lost == {b"safe", b"gone"}


def test_killed_and_damaged_runs_and_hostile_calls():
    """A few of each; the benchmarks do them by the thousand."""
    assert kills(6, seed=1) == {"tried": 6, "identical": 6}
    found = damage(60, seed=1)
    assert found["silently_wrong"] == found["tracebacks"] == []
    assert found["refused"] + found["harmless"] == 60
    assert found["refused"] > 15
    assert fuzz(80, seed=1)["tracebacks"] == []
    assert Path.cwd().exists()
