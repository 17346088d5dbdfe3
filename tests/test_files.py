"""Files on a disk that fails."""

import pytest
from benchmarks.disk import FaultyDisk, KilledError

from cvflows import files
from cvflows.errors import StoreError


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
