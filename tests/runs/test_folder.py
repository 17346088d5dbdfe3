"""Run folders: damage is named and left alone, nothing outside of them is touched."""

import shutil

import pytest

from cvflows.errors import StoreError
from cvflows.files import read_record, write_record
from cvflows.runs.identity import FORMAT
from cvflows.runs.session import begin, resume
from small import config_of

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def two_checkpoints(ball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    trainer = begin(ball, config_of(ball, method="DDPG"), folder)
    trainer.run(until=700)
    trainer.close()
    return folder


def one_byte(text):
    return text[:60] + ("x" if text[60] != "x" else "y") + text[61:]


@pytest.mark.parametrize(
    ("names", "spoil", "message"),
    [
        (["config.json"], lambda text: text.replace('"seed": 0', '"seed": 1'), "its checksum differs"),
        (["config.json"], lambda text: text[:40], "is not JSON, is it truncated"),
        (["config.json"], lambda text: text.replace("cvflows run", "other"), "was not written by cvflows"),
        (["config.json"], lambda text: text.replace('"version": 3', '"version": 4'), "update cvflows"),
        (["config.json"], lambda text: text.replace('"version": 3', '"version": 1'), "version 1, .*make it again"),
        (["config.json"], lambda text: text.replace("\n", " \n", 1), "its checksum differs"),
        (["config.json"], lambda text: "[" * 100_000, "is not JSON"),
        (["constraint.json"], one_byte, "checksum|is not JSON|was not written"),
        (["checkpoint.json", "previous.json"], lambda text: text[:40], "no checkpoint that can be used: .*is not JSON"),
        (["metrics.csv"], lambda text: text.replace("1", "2", 1), "no checkpoint.*metrics.csv was changed"),
        (["metrics.csv"], lambda text: text[:90], r"no checkpoint.*metrics.csv has \d+ of \d+ bytes"),
    ],
)
def test_damaged_folders_are_named_and_left_alone(two_checkpoints, tmp_path, names, spoil, message):
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    for name in names:
        (folder / name).write_text(spoil((folder / name).read_text()))
    before = {path.name: path.read_bytes() for path in folder.glob("*.*")}
    for look_only in (True, False):
        with pytest.raises(StoreError, match=message):
            resume(folder, look_only=look_only)
    assert {path.name: path.read_bytes() for path in folder.glob("*.*")} == before
    with pytest.raises(StoreError, match="is this a run folder"):
        resume(tmp_path / "nowhere")


def test_a_name_that_leads_out_of_the_folder_is_refused(two_checkpoints, tmp_path):
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    record = read_record(folder / "checkpoint.json", FORMAT)
    (tmp_path / "outside").write_bytes((folder / record["state"]["file"]).read_bytes())
    record["state"]["file"] = "../outside"
    for name in ("checkpoint.json", "previous.json"):
        write_record(folder / name, FORMAT, {**record, "file": name})
    with pytest.raises(StoreError, match=r"'\.\./outside' is not a plain file name"):
        resume(folder)


def test_a_linked_table_is_not_followed(two_checkpoints, tmp_path):
    folder, outside = shutil.copytree(two_checkpoints, tmp_path / "run"), tmp_path / "precious"
    (folder / "metrics.csv").rename(outside)
    (folder / "metrics.csv").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(StoreError, match="a symbolic link is not followed"):
        resume(folder)
    for name in ("checkpoint.json", "previous.json"):
        (folder / name).unlink()
    trainer = resume(folder)  # from the start: the link goes, what it led to stays
    trainer.run(until=200)
    trainer.close()
    assert outside.read_bytes() == before
    assert not (folder / "metrics.csv").is_symlink()
