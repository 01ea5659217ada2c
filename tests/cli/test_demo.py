"""``calibrant demo``: it trains once, reports, and replaces nothing unless requested."""

import json
import re
import shutil
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.cli import main
from calibrant.cli.demo import demo_recipes
from calibrant.errors import CalibrantError
from calibrant.experiments import run as run_module
from calibrant.experiments.grid import run_grid
from calibrant.experiments.record import recorded
from calibrant.experiments.run_folder import RunFolder

BASELINE, FOCAL, NOISE = (recipe.key for recipe in demo_recipes(1, quick=True))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished quick demo, and nothing changes it."""
    out = tmp_path_factory.mktemp("demo") / "out"
    assert main(["demo", "--quick", "--jobs", "2", "-o", str(out)]) == 0
    return out


@pytest.fixture
def out(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "out")


def test_it_leaves_a_report_and_runs(finished):
    written = {path.name for path in finished.iterdir()}
    assert written == {
        "report.html", "report.md", "study.json", "tables", "figures", "runs", "texts.txt",
    }  # fmt: skip
    assert recorded(finished / "runs") == {BASELINE, FOCAL, NOISE}
    report = (finished / "report.html").read_text()
    assert "Eight ways to train a small tagger" in report
    titles = [re.sub("<[^>]*>", "", t) for t in re.findall(r"<h3[^>]*>(.*?)</h3>", report)]
    for title in ("Results on synthetic", "Difference from cross_entropy on synthetic"):
        assert title in titles
    assert any(title.startswith("Other data") for title in titles)
    assert (finished / "figures" / "synthetic-trade-off.png").exists()


def test_a_second_call_trains_nothing_and_prints_the_same(out, capsys):
    times = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    assert main(["demo", "--quick", "--overwrite", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == times
    assert "3 of 3 were finished before." in printed
    assert "One seed says nothing about differences" in printed
    record = json.loads((out / "runs" / FOCAL / "metrics.json").read_text())
    test, scaled = (record["results"][map_]["test"] for map_ in ("identity", "temperature"))
    row = next(line for line in printed.splitlines() if line.startswith("focal (gamma 3)"))
    assert row.split()[-5:] == [
        f"{test['entity_f1']:.3f}",
        f"{test['ece']:.4f}",
        f"{test['apcr']:.1f}",
        f"{scaled['ece']:.4f}",
        f"{scaled['apcr']:.1f}",
    ]
    for command in ("compare", "fit", "apply", "train", "predict"):
        assert f"\n  calibrant {command} " in printed
    audit = next(line.split()[1:] for line in printed.splitlines() if "--calibrator" in line)
    assert main([*audit, "--bootstrap", "0"]) == 0
    assert "After temperature:" in capsys.readouterr().out


def test_an_existing_report_is_not_replaced_unless_asked(out, capsys):
    (out / "report.html").write_text("mine")
    assert main(["demo", "--quick", "-o", str(out)]) == 2
    assert "report.html exists" in capsys.readouterr().err
    assert (out / "report.html").read_text() == "mine"


def test_an_unfinished_run_is_resumed_and_alone_is_the_same_as_side_by_side(out):
    run = RunFolder(out / "runs" / FOCAL)
    before = Predictions.read(run.predictions("ood"))
    run.metrics.unlink()
    recipes = demo_recipes(1, quick=True)
    (again,) = run_grid(recipes, out / "runs", keep=True, jobs=2, device="cpu", bootstrap=0)
    assert again == run.metrics
    assert run.finished
    after = Predictions.read(run.predictions("ood"))
    np.testing.assert_array_equal(after.scores, before.scores)


def test_bad_options_and_paths_give_one_line(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    cases = {
        ("--seeds", "0"): "--seeds is at least 1, got 0",
        ("--jobs", "0"): "--jobs is at least 1, got 0",
        ("-o", str(file)): f"{file}: the folder cannot be made (File exists).",
        ("-o", str(file / "out")): "the folder cannot be made (Not a directory).",
    }
    for options, message in cases.items():
        assert main(["demo", "--quick", *options]) == 2
        printed = capsys.readouterr().err
        assert message in printed
        assert printed.count("\n") == 1


def test_a_killed_process_is_one_line(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *args, **options): ...
        def __enter__(self):
            return self

        def __exit__(self, *args): ...
        def submit(self, *args):
            raise BrokenProcessPool("killed")

    monkeypatch.setattr(run_module, "child_pool", Broken)
    with pytest.raises(CalibrantError, match="--jobs 1 needs the least"):
        list(run_grid(demo_recipes(1, quick=True), tmp_path, keep=True, jobs=2, device="cpu"))


def test_the_packaged_recipes():
    recipes = demo_recipes()
    assert len({recipe.key for recipe in recipes}) == 24
    assert [recipe.seed for recipe in recipes] == sorted([0, 1, 2] * 8)
    assert len({recipe.method for recipe in recipes[:8]}) == 8
    assert len(demo_recipes(seeds=12)) == 96
