"""The choice of the calibrator that learns from corrupted copies."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.comparison import select_calibrator
from calibrant.comparison.under_shift import copies_of, with_corruption


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
