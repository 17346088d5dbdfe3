"""The page of a report: written from anywhere, with maps, and it needs nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.synthetic import write_run

import cvflows as cv
from cvflows.cli import main


def test_one_run_is_reported_from_wherever_one_stands(tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "run", "R+D", "SAC+CVFlow", 0, steps=20_000, episodes=60)
    for place, name in ((tmp_path, "run"), (tmp_path / "run", "."), (tmp_path / "run", "../run")):
        monkeypatch.chdir(place)
        assert main(["report", name, "--json", "--out", "page.html"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["runs"][0]["complete"] == 1
        assert not any("cannot be shown" in note for note in figures["notes"])


def test_maps_are_shown_with_their_figures(tmp_path, capsys):
    """A run's own map is measured and drawn; one that cannot be read is a note, and the page is written."""
    for task in ("R+L2", "R+D"):
        write_run(tmp_path / task, task, "SAC+CVFlow", 0, steps=20_000, episodes=60)
        found = cv.task(task)
        cv.save_map(cv.make_map("orb", found.constraint, found.contexts), tmp_path / task / "map")
    (tmp_path / "R+D" / "map" / "map.json").write_text("{}")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "-o", str(page), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [shown["task"] for shown in figures["maps"]] == ["R+L2"]
    assert figures["maps"][0]["accuracy"] == 1
    assert figures["maps"][0]["kl"] == pytest.approx(0, abs=0.01)
    assert Path(figures["maps"][0]["picture"]).stat().st_size > 5000
    assert any("the map of R+D cannot be shown" in note for note in figures["notes"])
    assert "data:image/png" in page.read_text()


WITHOUT_PLOTLY = "import sys; sys.modules['plotly'] = None; from cvflows.cli import main; sys.exit(main(sys.argv[1:]))"


def test_pictures_need_no_extra(runs, tmp_path):
    """Without plotly there is no page: PNG and PDF are written all the same, and a line says what to install."""
    words = ["report", str(runs), "-o", str(tmp_path / "page.html"), "--no-maps", "-q"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_PLOTLY, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("cvflows: the page needs plotly: pip install 'cvflows[report]' (its figures are in")
    assert (tmp_path / "page_figures" / "learning.png").stat().st_size > 5000
    assert not (tmp_path / "page.html").exists()


def test_the_page_stands_alone(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(runs), "-o", str(page), "--no-maps", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    text = page.read_text()
    assert len(text) < 5e6
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert "98.150" in text
    assert {path.rsplit(".", 1)[1] for path in figures["figures"]} == {"png", "pdf"}
    for name in ("learning", "violations", "aggregate"):
        assert (tmp_path / "page_figures" / f"{name}.pdf").stat().st_size > 5000
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "`runs`: expected folders with runs in them" in capsys.readouterr().err
