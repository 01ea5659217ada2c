"""``calibrant demo``: it trains once, tells what it found, and writes over nothing unasked."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import calibrant.demo.runs as demo_runs
from calibrant import Predictions
from calibrant.cli import main
from calibrant.demo.report import FILES
from calibrant.demo.runs import demo_recipes, run_path, train_runs
from calibrant.demo.spread import Spread, spread
from calibrant.demo.telling import best, domain_table, findings, method_table
from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record
from calibrant.experiments.run_folder import RunFolder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished quick demo, and nothing changes it."""
    out = tmp_path_factory.mktemp("demo") / "out"
    assert main(["demo", "--quick", "--jobs", "2", "-o", str(out)]) == 0
    return out


@pytest.fixture
def out(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "out")


@pytest.fixture
def no_training(monkeypatch):
    def train(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(demo_runs, "train", train)


def test_it_leaves_report_pictures_and_runs(finished):
    assert {path.name for path in finished.iterdir()} == {*FILES, "runs"}
    assert sorted(path.name for path in (finished / "runs").iterdir()) == [
        "cross_entropy-s0-quick",
        "focal-s0-quick",
        "head_noise-s0-quick",
    ]
    report = (finished / "report.html").read_text()
    assert re.findall(r"<h2>(.*?)</h2>", report)[:2] == ["All methods", "Verdict"]
    assert report.count('<img src="data:image/png;base64,') == 2
    assert "One seed says nothing about differences" in report


def test_a_second_call_trains_nothing_and_says_the_same(out, no_training, capsys):
    assert main(["demo", "--quick", "--overwrite", "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert "3 of 3 were finished before." in told
    record = json.loads((out / "runs" / "focal-s0-quick" / "metrics.json").read_text())
    test, scaled = (record["results"][map_]["test"] for map_ in ("identity", "temperature"))
    row = next(line.split() for line in told.splitlines() if line.startswith("focal"))
    expected = [
        f"{100 * test['entity_f1']:.1f}",
        f"{100 * test['ece']:.2f}",
        f"{test['apcr']:.0f}",
        f"{100 * scaled['ece']:.2f}",
        f"{scaled['apcr']:.0f}",
    ]
    assert row[1:] == expected
    for command in ("compare", "fit", "apply", "train", "predict"):
        assert f"\n  calibrant {command} " in told
    audit = next(line.split()[1:] for line in told.splitlines() if "--with" in line)
    assert main([*audit, "--bootstrap", "0"]) == 0
    assert "After temperature:" in capsys.readouterr().out


def test_what_is_there_is_not_replaced_unasked(out, no_training, capsys):
    (out / "report.html").write_text("mine")
    assert main(["demo", "--quick", "-o", str(out)]) == 2
    assert "report.html exists" in capsys.readouterr().err
    assert (out / "report.html").read_text() == "mine"


def test_a_run_of_another_recipe_is_replaced_only_when_told(out, monkeypatch):
    path = out / "runs" / "focal-s0-quick" / "recipe.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"batch": 16}))
    recipes = demo_recipes(1, quick=True)
    with pytest.raises(InputError, match="batch 16"):
        list(train_runs(recipes, out / "runs", jobs=1))
    monkeypatch.setattr(demo_runs, "train", lambda *args, **options: None)
    (again,) = train_runs(recipes, out / "runs", jobs=1, overwrite=True)
    assert again.method == "focal"
    assert not path.exists()


def test_an_unfinished_run_is_taken_up_and_alone_is_the_same_as_side_by_side(out):
    run = out / "runs" / "focal-s0-quick"
    before = Predictions.read(RunFolder(run).predictions("ood"))
    (run / "metrics.json").unlink()
    recipes = demo_recipes(1, quick=True)
    (again,) = train_runs(recipes, out / "runs", jobs=2)
    assert again.method == "focal"
    assert RunFolder(run).finished
    after = Predictions.read(RunFolder(run).predictions("ood"))
    np.testing.assert_array_equal(after.scores, before.scores)


def test_bad_options_and_paths_give_one_line(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    cases = {
        ("--seeds", "0"): "--seeds is from 1 to 10, got 0",
        ("--seeds", "11"): "--seeds is from 1 to 10, got 11",
        ("--jobs", "0"): "--jobs is at least 1, got 0",
        ("-o", str(file)): f"{file}: the folder cannot be made (File exists).",
        ("-o", str(file / "out")): "the folder cannot be made (Not a directory).",
    }
    for options, message in cases.items():
        assert main(["demo", "--quick", *options]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1


def record_of(seed, **values):
    numbers = {
        "entity_f1": 0.8,
        "ece": 0.02,
        "apcr": 32.0,
        "accuracy": 0.9,
        "mean_confidence": 0.95,
    }
    part = numbers | values
    results = {
        map_: dict.fromkeys(("valid", "test", "ood"), part) for map_ in ("identity", "temperature")
    }
    return Record(Recipe(seed=seed), results, {}, {})


def test_only_what_exceeds_the_spread_stands_out():
    records = {
        "cross-entropy": [record_of(s, ece=e) for s, e in enumerate((0.020, 0.022, 0.021))],
        "better": [record_of(s, ece=e, apcr=64.0) for s, e in enumerate((0.010, 0.012, 0.0110))],
        "noisy": [record_of(s, ece=e) for s, e in enumerate((0.002, 0.032, 0.011))],
    }
    said = findings(records)
    assert said[0].startswith("Temperature scaling takes the ECE of the baseline from 2.10 to 2.10")
    assert "within the spread" in said[0]
    assert (
        "ECE as trained: off the baseline by more than the spread over seeds: better "
        "(−1.00 points); within it: noisy." in said
    )
    assert "F1: every difference to the baseline is within the spread over seeds." in said
    assert "says 95.0 % and is right 90.0 % of the time" in said[1]
    assert said[-1].startswith("These are 10 comparisons")
    assert best(records) == "better"
    assert method_table(records)[1][0][2] == "2.10 ± 0.25"
    assert domain_table(records)[1][0][3:5] == ["90.0 %", "95.0 %"]


def test_spread_by_hand_and_at_the_edges():
    # s = 1, t(0.975; 2) = 4.303: 4.303 / sqrt(3) = 2.484.
    assert spread([1, 2, 3]) == (2.0, pytest.approx(2.484, abs=1e-3))
    assert not spread([5.0]).stands_out
    assert not Spread(0.0, 0.0).stands_out
    assert Spread(0.1, 0.0).stands_out
    for number in (0, 11):
        with pytest.raises(InputError, match=f"got {number}"):
            spread([0.0] * number)


def test_spread_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = [0.3, 0.1, 0.4, 0.15, 0.9, 0.26, 0.5, 0.35, 0.8, 0.97]
    for n in range(2, 11):
        low, high = stats.ttest_1samp(values[:n], 0).confidence_interval(0.95)
        got = spread(values[:n])
        assert got.mean - got.half == pytest.approx(low, abs=1e-4)
        assert got.mean + got.half == pytest.approx(high, abs=1e-4)


def test_a_killed_worker_is_said_plainly(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *args, **options): ...
        def __enter__(self):
            return self

        def __exit__(self, *args): ...
        def submit(self, *args):
            raise demo_runs.BrokenProcessPool("killed")

    monkeypatch.setattr(demo_runs, "child_pool", Broken)
    with pytest.raises(CalibrantError, match="'--jobs 1' needs the least"):
        list(train_runs(demo_recipes(1, quick=True), tmp_path, jobs=2))


def test_names_of_runs():
    recipes = demo_recipes()
    assert [len(each) for each in recipes.values()] == [3] * 8
    names = {run_path(Path(), r).name for each in recipes.values() for r in each}
    assert len(names) == 24
    assert not any(name.endswith("quick") for name in names)
