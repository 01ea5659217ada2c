"""One record, whichever command and engine made it, and records of earlier versions."""

import json

import pytest

from calibrant.calibrators import Temperature
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.outcome import measure_outcome, record_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train
from calibrant.json_values import json_values

pytest.importorskip("transformers")


def small(corpus, **changes):
    common = {"data": str(corpus), "model": "tiny", "epochs": 2, "batch": 4, "dtype": "float32"}
    return Recipe(**{**common, **changes})


def outcome_of(recipe):
    (outcome,) = filter(None, run_cell([recipe], None, "cpu"))
    return outcome


@pytest.mark.parametrize("calibrator", ["auto", "beta", "temperature"])
def test_train_and_bench_write_the_same_record(corpus, tmp_path, calibrator):
    recipe = small(corpus, calibrator=calibrator, learning_rate=5e-3)
    run = train(recipe, tmp_path / "run", device="cpu", bootstrap=0, say=lambda _: None)
    cell = record_of(outcome_of(recipe), run.circumstances)
    assert json_values(cell.results) == json_values(run.results)  # To the last digit.
    assert set(cell.results) == {"identity", "temperature", calibrator}
    alike = set(run.training) - {"seconds", "raw_text", "notes"}
    assert alike == set(cell.training) - {"seconds", "notes"}
    assert {key: run.training[key] for key in alike} == {key: cell.training[key] for key in alike}
    assert read_record(tmp_path / "run" / "metrics.json").results.keys() == run.results.keys()


def test_the_temperature_is_fitted_once(corpus, monkeypatch):
    outcome, fitted = outcome_of(small(corpus, calibrator="temperature")), []
    fit = Temperature.fit

    def counted(self, predictions):
        fitted.append(len(predictions))
        return fit(self, predictions)

    monkeypatch.setattr(Temperature, "fit", counted)
    found = measure_outcome(outcome, {})
    assert fitted.count(len(outcome.valid)) == 1  # The others are folds of it.
    assert found.fitted["temperature"] is found.chosen


OLD_RUN = """
{"recipe": {"data": "corpus", "model": "tiny", "method": "focal", "method_options": {"gamma": 3},
 "head_width": 128, "head_depth": 1, "head_activation": "relu", "seed": 1, "epochs": 2, "batch": 8,
 "learning_rate": 0.005, "weight_decay": 0.01, "warm_up": 0.0, "dtype": "float32",
 "max_length": 512, "task": "ner", "engine": "lean", "accumulate": 1, "patience": 0, "shift": [],
 "calibrator": "auto"},
 "results": {
  "identity": {"test": {"ece": 0.1}}, "temperature": {"test": {"ece": 0.05}, "temperature": 1.5},
  "spline": {"test": {"ece": 0.02}, "entities": {"ece": 0.03, "reduction": "min"}}},
 "training": {"steps": 10, "epochs": 2, "epoch_taken": 2, "mean_loss": 0.5, "seconds": 1.5,
  "notes": [], "calibrator": "spline"},
 "circumstances": {"calibrant": "0.1.0"}}
"""


def test_a_run_of_an_earlier_version_is_read_as_one_of_this(tmp_path):
    """It had the chosen calibrator under its name."""
    path = tmp_path / "metrics.json"
    path.write_text(OLD_RUN)
    record = read_record(path)
    assert set(record.results) == {"identity", "temperature", "auto"}
    assert record.results["auto"]["test"]["ece"] == 0.02
    with pytest.warns(FutureWarning, match="by_map is now Record.by_calibrator"):
        assert record.by_map() == record.by_calibrator()
    assert set(record.by_calibrator()) == {"identity", "temperature", "spline"}
    assert record.by_calibrator()["spline"] == record.results["auto"]


def test_older_records_without_a_choice_stay_as_they_are(tmp_path):
    """The first ones knew neither the calibrator of a run nor most settings."""
    old = json.loads(OLD_RUN)
    del old["training"]["calibrator"], old["results"]["spline"], old["recipe"]["calibrator"]
    path = tmp_path / "KEY.json"
    path.write_text(json.dumps(old))
    record = read_record(path)
    assert record.results == record.by_calibrator() == old["results"]
    # The chosen calibrator may be one of the recipe's own.
    old["training"]["calibrator"] = "temperature"
    path.write_text(json.dumps(old))
    record = read_record(path)
    assert set(record.results) == {"identity", "temperature", "auto"}
    assert record.by_calibrator()["temperature"]["temperature"] == 1.5
