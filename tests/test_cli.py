"""The command line: quick to start, clear when wrong, at home anywhere."""

import os
import subprocess
import sys

import pytest

import cvflows
from cvflows.cli import main

LIGHT = """
import sys
from cvflows.cli import main
for words in ("--version", "--help", "tasks", "tasks --json", "train --help", "export --help", "check --help"):
    try:
        main(words.split())
    except SystemExit:
        pass
    heavy = {"jax", "equinox", "matplotlib", "mujoco"} & set(sys.modules)
    assert not heavy, f"{words} loads {heavy}"
"""


def test_starts_without_jax():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unknown_task_is_one_line(capsys):
    assert main(["draw", "W+OS"]) == 2
    assert "did you mean 'W+O+S'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "Ball1D", "--steps", "0"], "`steps`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--steps", "1" * 30], "`steps`: expected a whole number ≤"),
        (["train", "Ball1D", "--set", "learning_rate=nan"], "`learning_rate`: expected a number in (0, 1], got nan"),
        (["train", "Ball1D", "--set", "batch=0"], "`batch`: expected a whole number in [1, 1e+06], got 0"),
        (["train", "Ball1D", "--set", "discount=5"], "`discount`: expected a number in [0, 1], got 5.0"),
        (["train", "Ball1D", "--set", "tau=-1"], "`tau`: expected a number in (0, 1], got -1"),
        (
            ["train", "Ball1D", "--set", "hidden=8,0"],
            "`hidden`: expected whole numbers as in 64,64 in [1, 65536], got 0",
        ),
        (["train", "Ball1D", "--set", "=1"], "unknown setting ''"),
        (["train", "Ball1D", "--seed", "-1"], "`seed`: expected a whole number ≥ 0, got -1"),
        (["train", "Ball1D", "--threads", "0"], "`threads`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--final-episodes", "-1"], "`final_episodes`: expected"),
        (["train", "Ball1D", "--out", ""], "`out`: expected a value, got nothing"),
        (["train", "Ball1D", "--out", "a\0b"], "`out`: expected text without NUL"),
        (["fit", "R+L2", "--steps", "0"], "`steps`: expected"),
        (["draw", "R+L2", "--seed", "-1"], "`seed`: expected"),
        (["evaluate", ".", "--episodes", "0"], "`episodes`: expected a whole number ≥ 1, got 0"),
        (["evaluate", ".", "--video", "film.mp4"], "`video`: expected a file name ending in .gif"),
        (["evaluate", ".", "--picture", "power.svg"], "`picture`: expected a file name ending in .png"),
        (["suite", "--tasks", "R+D", "--methods", "SAC", "--workers", "0"], "`workers`: expected"),
        (["suite", "binary"], "binary is not TOML"),
        (["suite", "."], "cannot be read (not a plain file)"),
        (["watch", ".", "--every", "0"], "`every`: expected a number in (0, 86400], got 0"),
        (["report", ".", "--out", "."], "`out`: expected the name of a file"),
        (["resume", "binary"], "cannot be read (Not a directory)"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_no_option_can_be_is_refused_in_one_line(arguments, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("cvflows: ")
    assert named in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("4 TB"), 70, "out of memory (MemoryError: 4 TB)"),
        (RecursionError("deep"), 70, "unexpected RecursionError: deep (CVFLOWS_DEBUG=1 shows where)"),
        (ZeroDivisionError("two\nlines"), 70, "unexpected ZeroDivisionError: two lines (CVFLOWS_DEBUG=1 shows where)"),
        (PermissionError(13, "Permission denied", "x"), 74, "PermissionError: [Errno 13] Permission denied: 'x'"),
    ],
)
def test_no_traceback_reaches_the_terminal(error, code, words, monkeypatch, capsys):
    def fail(**_):
        raise error

    monkeypatch.setattr("cvflows.tasks.registration.gymnasium_id", lambda _: fail())
    assert main(["tasks"]) == code
    assert capsys.readouterr().err == f"cvflows: {words}\n"
    monkeypatch.setenv("CVFLOWS_DEBUG", "1")
    with pytest.raises(type(error)):
        main(["tasks"])


def test_works_without_a_home(tmp_path):
    code = "import sys; from cvflows.cli import main; sys.exit(main(['tasks']))"
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    for home in ({}, {"HOME": "/proc/nowhere"}, {"HOME": str(tmp_path / "file")}):
        (tmp_path / "file").write_text("")
        done = subprocess.run([sys.executable, "-c", code], env=env | home, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_compiled_code_is_kept_in_a_private_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "cvflows").mkdir(mode=0o777)
    assert main(["tasks", "--json"]) == 0
    assert (tmp_path / "cvflows").stat().st_mode & 0o777 == 0o700
    assert os.environ.pop("JAX_COMPILATION_CACHE_DIR") == str(tmp_path / "cvflows")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert main(["tasks", "--json"]) == 0
    assert "is not a folder of yours: compiled code is not kept" in capsys.readouterr().err
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_kept_code_is_used_without_a_word(tmp_path):
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JAX_COMPILATION_CACHE_DIR", "TF_CPP_MIN_LOG_LEVEL")
    }
    command = [sys.executable, "-m", "cvflows", "-q", "fit", "R+L2", "--kind", "orb", "--json", "--out"]
    for name in ("first", "again"):
        settings = env | {"XDG_CACHE_HOME": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        done = subprocess.run([*command, str(tmp_path / name)], env=settings, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_help_names_what_is_asked_for(capsys):
    for command, named in (
        ("train", "TASK"),
        ("fit", "TASK"),
        ("resume", "RUN"),
        ("export", "RUN"),
        ("check", "ARTEFACT"),
        ("watch", "RUN"),
        ("settings", "METHOD"),
    ):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        usage = capsys.readouterr().out.partition("\n\n")[0]
        assert named in usage
        assert not {"STR", "PATH"} & set(usage.split())


def test_version_by_every_door(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cvflows {cvflows.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "cvflows", "--version"], capture_output=True, text=True)
    assert done.stdout == f"cvflows {cvflows.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell, capsys):
    with pytest.raises(SystemExit):
        main(["--tyro-print-completion", shell])
    script = capsys.readouterr().out
    for word in ("doctor", "evaluate", "--final-episodes"):
        assert word in script, word
