"""Where runs stand, read while others write."""

import json

from benchmarks.synthetic import write_run

from cvflows.cli import main
from cvflows.runs.lock import FolderLock
from cvflows.runs.progress import read_status


def test_half_written_folders_are_read(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text("")
    assert read_status(folder).state == "unreadable"
    assert "is it truncated" in read_status(folder).problem


def test_one_bad_run_does_not_end_a_view_of_many(tmp_path, capsys):
    for seed in range(4):
        write_run(tmp_path / str(seed), "R+D", "SAC", seed, steps=20_000, episodes=60)
    (tmp_path / "0" / "final.json").write_text('{"final": 3}')
    (tmp_path / "1" / "checkpoint.json").unlink()
    (tmp_path / "2" / "config.json").unlink()
    (tmp_path / "2" / "config.json").mkdir()
    assert main(["watch", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["states"] == {"unreadable": 3, "complete": 1}
    assert main(["watch", str(tmp_path), "--once"]) == 0


def test_speed_and_memory_are_told(tmp_path):
    write_run(tmp_path, "R+D", "SAC", 0, steps=20_000, episodes=60)
    assert read_status(tmp_path).speed > 0
    lock = FolderLock(tmp_path)
    assert lock.memory() == 0
    lock.acquire()
    assert FolderLock(tmp_path).memory() > 10**6  # of this process
    lock.release()
