"""The choice of the calibrator that learns from corrupted copies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, Temperature, ece, load_calibrator
from calibrant.calibrators import ShiftAware
from calibrant.cli import main
from calibrant.comparison import select_calibrator, under_shift
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.recommendation import Interval
from calibrant.comparison.under_shift import _origins, _Trial, copies_of, with_corruption
from calibrant.files import reading, unlabelled
from calibrant.tasks import evidence


def words(n: int, damage: float, seed: int) -> Predictions:
    """Sentences of ten words; the pieces of a word say how often it is wrong."""
    rng = np.random.default_rng(seed)
    pieces = 1 + rng.poisson(0.2 + damage, n)
    labels = rng.integers(0, 3, n)
    shown = np.where(rng.random(n) < 0.12 * pieces, rng.integers(0, 3, n), labels)
    logits = 3 * np.eye(3)[shown] + rng.normal(size=(n, 3))
    groups = {"sentence": np.arange(n) // 10}
    return Predictions.from_logits(logits, labels, groups=groups, signals={"pieces": pieces})


def with_copies(kinds: tuple[str, ...], n: int = 1500, helpful: bool = True) -> Predictions:
    parts = [with_corruption(words(n, 0, 0), "")]
    for place, kind in enumerate(kinds, start=1):
        parts.append(with_corruption(words(n, 3 if helpful else 0, place), f"{kind}-3"))
    return Predictions.concatenate(parts)


NAMES = ("temperature", "isotonic-top-label", "shift-aware")


def test_it_is_chosen_where_unseen_damage_shows_its_worth() -> None:
    found = select_calibrator(with_copies(("typos", "ocr", "casing")), NAMES)
    assert found.calibrator.name == "shift-aware"
    assert "on unseen damage" in found.reason
    assert found.calibrator.fitted_on_["n"] == 6000


def test_it_is_not_chosen_where_copies_are_like_the_rest() -> None:
    found = select_calibrator(with_copies(("typos", "ocr"), helpful=False), NAMES)
    assert found.calibrator.name in NAMES
    if found.calibrator.name != "shift-aware":
        assert "it is not chosen" in found.reason


def test_one_kind_alone_is_no_evidence() -> None:
    found = select_calibrator(with_copies(("typos",)), NAMES)
    assert found.calibrator.name != "shift-aware"
    assert "Copies of one kind alone" in found.reason


def test_other_maps_never_see_the_copies() -> None:
    mixed, clean = with_copies(("typos", "ocr")), words(1500, 0, 0)
    with_, without = (select_calibrator(p, ["temperature"]) for p in (mixed, clean))
    assert with_.calibrator.fitted_on_["n"] == 1500
    assert with_.reason == without.reason
    assert repr(with_.calibrator) == repr(without.calibrator)


def test_copies_without_their_originals_are_refused() -> None:
    with pytest.raises(InputError, match="Every row of VALID has a corruption"):
        copies_of(with_corruption(words(20, 0, 0), "ocr-1"))


def test_without_copies_the_reason_is_given() -> None:
    found = select_calibrator(words(200, 0, 0))
    assert "VALID has none" in found.skipped["shift-aware"]


def test_rows_without_sentences_have_copies_too() -> None:
    flat = with_copies(("typos", "ocr", "casing"))
    groups = {"corruption": flat.groups["corruption"]}
    p = Predictions.from_logits(flat.scores, flat.labels, groups=groups, signals=flat.signals)
    assert select_calibrator(p, NAMES).calibrator.name == "shift-aware"


def images(n: int, strengths: tuple[int, ...]) -> tuple[Predictions, Predictions]:
    """Rows without sentences, and copies of two kinds that are the same at every strength."""
    clean, parts = words(n, 0, 0), []
    for place, kind in enumerate(("blur", "jpeg"), start=1):
        damaged = words(n, 3, place)
        parts += [with_corruption(damaged, f"{kind}-{strength}") for strength in strengths]
    copies = Predictions.concatenate(parts)
    alone = {"corruption": copies.groups["corruption"]}
    return with_corruption(replace(clean, groups={}), ""), replace(copies, groups=alone)


def gain_under_damage(strengths: tuple[int, ...]) -> Interval:
    clean, copies = images(600, strengths)
    folds = make_folds(clean, 5, seed=0)
    kinds = np.array([name.rpartition("-")[0] for name in copies.groups["corruption"]])
    origin, found = _origins(clean, copies), np.unique(kinds)
    made = _Trial(Temperature(), clean, copies, folds, origin, kinds, found, 0.7)
    return made.gain("damaged", 500, seed=0)


def test_copies_of_one_row_are_no_more_evidence_than_one() -> None:
    once, thrice = gain_under_damage((3,)), gain_under_damage((1, 3, 5))
    assert thrice.high - thrice.low > 0.9 * (once.high - once.low)


@pytest.mark.parametrize("grouped", [False, True])
def test_of_many_copies_each_stays_with_the_row_that_it_is_of(
    grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rows would be held out whose other copies were seen in the fit."""
    clean, copies = images(100, (1, 3))
    number = np.tile(np.arange(100), 4)
    groups = {"sentence": number // 4} if grouped else {}
    clean = replace(clean, groups={name: column[:100] for name, column in groups.items()})
    copies = replace(copies, groups={**copies.groups, **groups}, signals={"row": number})
    monkeypatch.setattr(under_shift, "_COPIES", 100)
    few = under_shift._fewer(copies)
    origin, row = _origins(clean, copies)[few], copies.signals["row"][few]
    assert 50 <= len(row) <= 120
    assert (origin == (row // 4 * 4 if grouped else row)).all()


def test_a_sample_of_the_evidence_keeps_the_context_of_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Signals are means over groups; of a sample alone they would be other means."""
    valid = words(3000, 0.5, 0)
    fitted = ShiftAware().fit(valid)
    monkeypatch.setattr(evidence, "_MOST", 500)
    found, whole = evidence.row_evidence(fitted, valid), fitted.transform(valid).probabilities()
    assert len(found) == 500
    assert np.isin(found.confidence, np.asarray(whole).max(axis=1)).all()


def test_commands_do_not_cut_sentences_whose_means_a_calibrator_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chunks of ten rows of sentences of ten words, one off, cut every sentence."""
    monkeypatch.chdir(tmp_path)
    valid, test = words(1500, 0.5, 0), words(305, 0.5, 1)[5:]
    ShiftAware().fit(valid).save("calibrator.json")
    test.write("test.npz")
    expected = ece(load_calibrator("calibrator.json").transform(test))
    monkeypatch.setattr(reading, "_CHUNK", 10 * reading._COLUMNS)
    monkeypatch.setattr(unlabelled, "_CHUNK", 30)
    args = ["audit", "test.npz", "--calibrator", "calibrator.json", "--bootstrap", "0"]
    assert main([*args, "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["after"]
    assert after["measures"]["ece"]["value"] == pytest.approx(expected, abs=1e-9)
    calibrator = ["--calibrator", "calibrator.json"]
    assert main(["guarantee", "test.npz", *calibrator, "--target-risk", "0.4", "-o", "p.json"]) == 0
    assert (
        main(["apply", "calibrator.json", "test.npz", "--policy", "p.json", "-o", "d.jsonl"]) == 0
    )
    lines = Path("d.jsonl").read_text("utf-8").splitlines()
    shown = [json.loads(line)["confidence"] for line in lines]
    whole = load_calibrator("calibrator.json").transform(test)
    assert shown == pytest.approx(np.asarray(whole.probabilities()).max(axis=1).tolist(), abs=1e-9)
