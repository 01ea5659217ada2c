"""Corrupted copies of the validation split, from which a run's calibrator learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, load_calibrator
from calibrant.calibrators import ShiftAware
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.entity_signals import entity_claims
from calibrant.comparison.under_shift import with_corruption
from calibrant.experiments.evaluation import evaluate
from calibrant.experiments.outcome import choose_calibrator, copy_names
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.loading import load_run
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.finished_run import read_judges


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = {"copies": ["typos-3", "ocr-3"], "calibrator": "shift-aware"}
    small = {"data": "synthetic", "model": "tiny", "epochs": 1, "dtype": "float32"}
    train(Recipe.from_dict({**small, **settings}), folder, device="cpu", bootstrap=20)
    return folder


def test_a_run_learns_from_copies_and_predicts_with_what_it_learned(run: Path) -> None:
    calibrator = load_calibrator(run / "calibrator.json")
    valid = Predictions.read(next(run.glob("valid.*")))
    assert calibrator.name == "shift-aware"
    assert {"pieces", "sentence.pieces", "distance", "norm"} <= set(calibrator.signals_)
    assert calibrator.fitted_on_["n"] == 3 * len(valid)  # These corruptions drop no word.
    assert load_calibrator(run / "raw_calibrator.json").fitted_on_["n"] > len(valid)
    found = load_run(run, device="cpu").predict("Anna Lind lives in Paris .")
    assert all(0 <= e.confidence <= 1 for e in found[0].entities)


def test_a_run_is_evaluated_with_its_own_map(run: Path) -> None:
    found = evaluate(run, corrupt=["typos-5"], device="cpu")
    assert list(found)[-1] == "shift-aware"
    assert np.isfinite(found["shift-aware"]["shift"]["typos-5"]["ece"])


def test_which_copies_there_are() -> None:
    assert copy_names(Recipe(), 4999) == ()
    assert len(copy_names(Recipe(), 5000)) == 15
    assert copy_names(Recipe(copies=("none",)), 50_000) == ()
    assert copy_names(Recipe(copies=("ocr-2",)), 10) == ("ocr-2",)
    assert copy_names(Recipe(calibrator="temperature"), 50_000) == ()
    assert len(copy_names(Recipe(calibrator="shift-aware"), 10)) == 15
    assert copy_names(Recipe.from_dict({"task": "segmentation"}), 50_000) == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"copies": ["typo-3"]}, "Did you mean 'typos'"),
        ({"copies": ["typos"]}, "Which strength of 'typos'"),
        ({"copies": ["typos-9"]}, "strength of a corruption is 1, 2, 3, 4 or 5"),
        ({"copies": ["auto", "ocr-1"]}, "'auto'"),
        ({"task": "segmentation", "copies": ["jpeg-3"]}, "makes no corrupted copies"),
        ({"copies": ["none"], "calibrator": "shift-aware"}, "learns from corrupted copies"),
    ],
)
def test_bad_names_fail_before_training(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe.from_dict(settings)


def test_a_map_that_needs_no_copies_is_fitted_without() -> None:
    rng = np.random.default_rng(0)
    p = Predictions.from_logits(rng.normal(size=(50, 3)), rng.integers(0, 3, 50))
    found = choose_calibrator("temperature", p, with_corruption(p, "ocr-1"))
    assert found.fitted_on_["n"] == 50


def test_entities_of_a_run_can_read_signals_too(run: Path, tmp_path: Path) -> None:
    predictor = load_run(run, device="cpu")
    valid = Predictions.read(next(run.glob("raw_valid.*")))
    judge = predictor._of_texts
    claims = entity_claims(with_corruption(valid, ""), judge.chosen)
    made = SpanCalibrator(judge.chosen).fit(valid)
    made.calibrator_, made.held_out_ = ShiftAware().fit(claims), claims
    predictor._of_texts = EntityConfidence.fit(judge.calibrator, valid, made)
    text = "Anna Lind lives in Paris ."
    predictor.write_parts(tmp_path)
    again = read_judges(tmp_path, predictor.labels)["raw"]
    assert again.span_calibrator().reads_signals
    assert again.threshold(0.5) == predictor.threshold(0.5)
    found = [e.confidence for p in predictor.predict(text) for e in p.entities]
    predictor._of_texts = again
    assert [e.confidence for p in predictor.predict(text) for e in p.entities] == found
    assert predictor.span_calibrator("min").reads_signals == (judge.chosen == "min")
