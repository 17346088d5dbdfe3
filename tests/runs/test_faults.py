"""Runs whose disk fails: at every single change of it, by a kill, an error or a power cut, nothing is lost."""

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from benchmarks.damage import damage
from benchmarks.disk import FAULTS, Camera, FaultyDisk
from benchmarks.faults import killed_at, kills, unbroken
from benchmarks.fuzz import fuzz
from benchmarks.tiny import contents, finish, quick


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What a run ends as, and how often it changes the disk; clocks stand still, so that folders can be compared."""
    with quick(), patch("cvflows.runs.train.time", SimpleNamespace(perf_counter=lambda: 0.0, process_time=lambda: 0.0)):
        yield unbroken(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def camera(whole, tmp_path_factory):
    """The disk of a run that nothing happened to, with pictures of what any kill or power cut would have left."""
    folder = tmp_path_factory.mktemp("pictured") / "run"
    with Camera(folder).installed() as disk:
        finish(folder)
    return disk


def broken(folder, at, fault):
    """A run that failed at one change of the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    assert killed_at(folder, at, fault, seed=at)
    return folder


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}


def some_changes(fault, changes):
    return range(FAULTS.index(fault), changes, changes // 3)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_ends_the_same_whatever_fails(whole, tmp_path, fault):
    result, changes = whole
    for at in some_changes(fault, changes):
        finish(broken(tmp_path / "run", at, fault))
        assert contents(tmp_path / "run") == result, at


ENDINGS = {}
"""What became of folders by their files: equal ones, which many faults leave, are resumed once."""


def ending(files, folder):
    """What the run ends as that resumes with these files."""
    key = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    if key not in ENDINGS:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        finish(folder)
        ENDINGS[key] = contents(folder)
    return ENDINGS[key]


@pytest.mark.thorough
@pytest.mark.xdist_group("pictures")
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "full"])
def test_a_run_ends_the_same_at_every_change_of_the_disk(whole, camera, tmp_path, fault):
    result, changes = whole
    pictures = camera.pictures[fault]
    assert len(pictures) == changes
    for at in some_changes(fault, changes):  # the camera does not lie
        assert files_in(broken(tmp_path / "run", at, fault)) == pictures[at]
    assert [at for at, files in enumerate(pictures) if ending(files, tmp_path / "run") != result] == []


@pytest.mark.thorough
def test_a_run_ends_the_same_wherever_the_disk_is_full(whole, tmp_path):
    result, changes = whole
    left = (files_in(broken(tmp_path / "broken", at, "full")) for at in range(changes))
    assert [at for at, files in enumerate(left) if ending(files, tmp_path / "run") != result] == []


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


@pytest.mark.thorough
def test_killed_and_damaged_runs_and_hostile_calls():
    """A few of each; the benchmarks do them by the thousand."""
    assert kills(6, seed=1) == {"tried": 6, "identical": 6}
    found = damage(60, seed=1)
    assert found["silently_wrong"] == found["tracebacks"] == []
    assert found["refused"] + found["harmless"] == 60
    assert found["refused"] > 15
    assert fuzz(80, seed=1)["tracebacks"] == []
    assert Path.cwd().exists()
