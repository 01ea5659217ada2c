"""The confidence of a whole entity: learned on validation, not computed from its words."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.calibrators import Beta, Temperature, TopLabelIsotonic, Vector
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.entity_signals import entity_claims
from calibrant.comparison.span_calibrator import entity_words, new_entity_words
from calibrant.errors import InputError, NotFittedError
from calibrant.metrics import ece, entity_ece
from calibrant.metrics.confidences import bin_confidences

LABELS = ["O", "B-X", "I-X"]
REDUCE = {"product": np.prod, "min": np.min, "mean": np.mean}


def sentences(random, n, chance):
    """One entity of one to four words a sentence, right as a whole with probability chance(c)."""
    scores, labels, sentence = [], [], []
    for number in range(n):
        words = random.uniform(0.4, 1, random.integers(1, 5))
        right = random.random() < chance(words)
        for place, confidence in enumerate(words):
            rest, tag = (1 - confidence) / 2, 1 if place == 0 else 2
            scores.append([confidence if k == tag else rest for k in range(3)])
            labels.append(tag if right else 0)
            sentence.append(number)
    return Predictions.from_probabilities(
        scores, labels, label_names=LABELS, groups={"sentence": sentence}
    )


def plain(predictions, reduction):
    """One (confidence, right?, sentence) per sentence of :func:`sentences`, by hand."""
    top, number = np.asarray(predictions.scores).max(axis=1), predictions.groups["sentence"]
    for one in np.unique(number):
        rows = number == one
        yield REDUCE[reduction](top[rows]), bool((predictions.labels[rows] > 0).all()), one


def beta_of(confidence, right):
    smooth = Beta(smooth_targets=True)
    return smooth.fit(Predictions.from_probabilities(confidence, np.asarray(right, int)))


@pytest.mark.parametrize("reduction", REDUCE)
def test_it_is_a_beta_map_of_the_reduced_confidences(reduction):
    random = np.random.default_rng(0)
    valid, test = (sentences(random, 200, np.mean) for _ in range(2))
    confidence, right, _ = zip(*plain(valid, reduction), strict=True)
    fitted = beta_of(confidence, right)
    new, truth, _ = zip(*plain(test, reduction), strict=True)
    expected = fitted.transform(Predictions.from_probabilities(new, np.zeros(len(new), int)))
    made = SpanCalibrator(reduction).fit(valid).transform(test)
    np.testing.assert_allclose(made.confidence, expected.scores[:, 1], rtol=1e-9)
    np.testing.assert_array_equal(made.correct, truth)


def test_words_that_a_map_tags_anew_are_those_of_maps_that_have_not_seen_them():
    valid, test = (sentences(np.random.default_rng(seed), 60, np.mean) for seed in (1, 2))
    for kept in (Temperature(), TopLabelIsotonic()):
        fitted = kept.fit(valid)
        assert new_entity_words(fitted, valid) is valid
        assert entity_words(fitted, test) is test
    folds = make_folds(valid, 5, seed=0).fold
    for changed in (Vector(), TopLabelIsotonic(keep_prediction=False)):
        fitted, made = copy.deepcopy(changed).fit(valid), np.empty(valid.scores.shape)
        for k in range(5):
            other = copy.deepcopy(changed).fit(valid[folds != k])
            made[folds == k] = other.transform(valid[folds == k]).scores
        found = new_entity_words(fitted, valid)
        np.testing.assert_array_equal(found.scores, made)
        np.testing.assert_array_equal(found.labels, valid.labels)
        np.testing.assert_array_equal(found.groups["sentence"], valid.groups["sentence"])
        np.testing.assert_array_equal(
            entity_words(fitted, test).scores, fitted.transform(test).scores
        )


def test_one_sentence_that_a_map_tags_anew_is_mapped_as_it_is():
    one = sentences(np.random.default_rng(1), 1, np.mean)
    fitted = Vector().fit(one)
    np.testing.assert_array_equal(
        new_entity_words(fitted, one).scores, fitted.transform(one).scores
    )


@pytest.mark.parametrize(
    ("truth", "chosen"), [(np.mean, "mean"), (np.min, "min"), (np.prod, "product")]
)
def test_validation_chooses_what_entities_follow(truth, chosen):
    valid = sentences(np.random.default_rng(2), 3000, truth)
    assert SpanCalibrator().fit(valid).reduction_ == chosen


def test_entities_become_honest_where_a_map_of_words_does_not_make_them():
    random = np.random.default_rng(3)
    valid, test = (sentences(random, 2000, np.mean) for _ in range(2))
    words = TopLabelIsotonic().fit(valid).transform(test)
    assert entity_ece(words) > 0.15
    assert ece(bin_confidences(SpanCalibrator().fit(valid).transform(test))) < 0.04


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(REDUCE)))
def test_the_order_of_entities_is_kept(seed, reduction):
    valid = sentences(np.random.default_rng(seed), 30, np.mean)
    values = np.linspace(0, 1, 50)
    mapped = SpanCalibrator(reduction).fit(valid).apply(values)
    assert ((mapped >= 0) & (mapped <= 1)).all()
    assert (np.diff(mapped) >= -1e-12).all()


def test_with_nothing_to_learn_from_it_is_the_product():
    one = Predictions.from_probabilities(
        [[0.1, 0.9, 0.0], [0.2, 0.0, 0.8]], [1, 2], label_names=LABELS, groups={"sentence": [0, 0]}
    )
    none = Predictions.from_probabilities([[0.9, 0.1, 0.0]] * 3, [0, 0, 1], label_names=LABELS)
    for valid in (one, none):
        fitted = SpanCalibrator().fit(valid)
        assert fitted.transform(one).confidence == pytest.approx([0.72])
        assert len(fitted.transform(none)) == 0


def test_two_sentences_whose_hashes_meet_count_as_one():
    """Cross-validation deals hashes of sentences to its folds: it would find one alone."""
    scores, groups = [[0.1, 0.9, 0.0], [0.3, 0.7, 0.0]], {"sentence": [20, 23]}
    valid = Predictions.from_probabilities(scores, [1, 0], label_names=LABELS, groups=groups)
    assert SpanCalibrator().fit(valid).transform(valid).confidence == pytest.approx([0.9, 0.7])


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_all_right_or_all_wrong_is_finite(right):
    valid = sentences(np.random.default_rng(4), 50, lambda _: right)
    mapped = SpanCalibrator().fit(valid).transform(valid).confidence
    assert np.isfinite(mapped).all()
    assert abs(mapped - right).max() < 0.1
    assert abs(mapped.mean() - right) >= 0.999 / 52  # Fifty in a row are no certainty.


def test_few_wrong_entities_do_not_make_the_others_certain():
    """Two of eighty are wrong, and the lowest: a calibrator of the raw labels says 0.9999."""
    confidence = np.r_[0.35, 0.36, np.linspace(0.5, 0.52, 78)]
    scores = np.stack([(1 - confidence) / 2, confidence, (1 - confidence) / 2], axis=1)
    labels = np.r_[0, 0, np.ones(78, int)]
    p = Predictions.from_probabilities(
        scores, labels, label_names=LABELS, groups={"sentence": np.arange(80)}
    )
    found = SpanCalibrator().fit(p).transform(p).confidence
    assert found.max() < 0.995


def test_confidences_of_exactly_0_and_1_stay_finite():
    scores = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]] * 20
    labels = [1, 0, 1, 0] * 20
    p = Predictions.from_probabilities(scores, labels, label_names=LABELS)
    assert np.isfinite(SpanCalibrator().fit(p).apply(np.array([0.0, 0.5, 1.0]))).all()


def test_wrong_use_is_an_error():
    with pytest.raises(InputError, match="reduction"):
        SpanCalibrator("sum")
    with pytest.raises(NotFittedError, match="fit"):
        SpanCalibrator().apply(np.array([0.5]))
    with pytest.raises(InputError, match="one number per entity"):
        SpanCalibrator().fit(sentences(np.random.default_rng(0), 9, np.mean)).apply(np.array(0.5))
    with pytest.raises(InputError, match="takes confidences in"):
        SpanCalibrator().fit(sentences(np.random.default_rng(0), 9, np.mean)).apply(np.array([2.0]))
    with pytest.raises(NotFittedError, match="fit"):
        SpanCalibrator().transform(sentences(np.random.default_rng(0), 9, np.mean))
    with pytest.raises(InputError):  # Classes that are no tags.
        SpanCalibrator().fit(Predictions.from_probabilities([[0.9, 0.1]], [0]))


def damaged_words(n, damage, seed, corruption=None):
    """Entities of one or two words; the pieces of a word say how often it is wrong, no score."""
    random = np.random.default_rng(seed)
    length = random.integers(1, 3, n)
    sentence, first = np.repeat(np.arange(n), length), np.cumsum(length) - length
    opens = np.isin(np.arange(length.sum()), first)
    pieces = 1 + random.poisson(0.2 + damage, len(sentence))
    worst = np.maximum.reduceat(pieces, first)
    right = np.repeat(random.random(n) > np.minimum(0.12 * worst, 0.9), length)
    tag = np.where(opens, 1, 2)
    logits = 3 * np.eye(3)[tag] + 0.5 * random.normal(size=(len(tag), 3))
    groups = {"sentence": sentence}
    if corruption is not None:
        groups["corruption"] = np.full(len(tag), corruption)
    labels, signals = np.where(right, tag, 0), {"pieces": pieces}
    return Predictions.from_logits(
        logits, labels, label_names=LABELS, groups=groups, signals=signals
    )


@pytest.fixture(scope="module")
def with_copies():
    copies = [
        damaged_words(700, strength, number, f"{kind}-{strength}")
        for number, (kind, strength) in enumerate((k, s) for k in ("ocr", "typos") for s in (1, 4))
    ]
    return SpanCalibrator("mean").fit(damaged_words(700, 0, 9), Predictions.concatenate(copies))


def test_copies_teach_the_confidence_of_entities(with_copies):
    plain_map = SpanCalibrator("mean").fit(damaged_words(700, 0, 9))
    test, clean = damaged_words(2000, 3, 10), damaged_words(2000, 0, 11)
    assert with_copies.reads_signals
    assert "on unseen damage" in with_copies.reason_
    before, after = (ece(bin_confidences(m.transform(test))) for m in (plain_map, with_copies))
    assert after < before / 3
    assert ece(bin_confidences(with_copies.transform(clean))) < 0.05


def test_held_out_entities_stand_in_the_order_of_validation(with_copies):
    valid = damaged_words(700, 0, 9)
    held_out, whole = with_copies.held_out_, with_copies.transform(valid)
    assert held_out.groups["sentence"].tolist() == list(range(700))
    assert held_out.correct.tolist() == whole.correct.tolist()
    assert 0.001 < np.abs(held_out.confidence - whole.confidence).max() < 0.3


def test_a_map_of_signals_survives_its_file_and_refuses_bare_confidences(with_copies):
    again = SpanCalibrator.from_dict(with_copies.to_dict(), "a file")
    test = damaged_words(50, 2, 12)
    assert again.transform(test).confidence.tolist() == (
        with_copies.transform(test).confidence.tolist()
    )
    with pytest.raises(InputError, match="reads signals of entities"):
        again.apply(np.array([0.5]))
    unsigned = Predictions.from_logits(
        test.scores, test.labels, label_names=LABELS, groups=test.groups
    )
    with pytest.raises(InputError, match="the signal 'pieces', which is missing"):
        again.transform(unsigned)


def test_signals_of_entities_against_plain_loops():
    words = damaged_words(40, 1, 3)
    claims = entity_claims(words, "min")
    p, pieces = words.probabilities(), words.signals["pieces"]
    for i in range(40):
        rows = np.flatnonzero(words.groups["sentence"] == i)
        ordered = np.sort(words.scores[rows], axis=1)
        margins = ordered[:, -1] - ordered[:, -2]
        assert claims.confidence[i] == pytest.approx(p[rows].max(axis=1).min())
        assert claims.signals["pieces"][i] == pytest.approx(pieces[rows].mean())
        assert claims.signals["sentence_pieces"][i] == pytest.approx(pieces[rows].mean())
        assert claims.signals["margin"][i] == pytest.approx(margins.mean())
        assert claims.signals["least_margin"][i] == pytest.approx(margins.min())
        assert claims.signals["words"][i] == len(rows)


def test_copies_without_entities_teach_nothing():
    valid, blank = damaged_words(60, 0, 1), damaged_words(60, 0, 2, "ocr-1")
    outside = blank.with_scores(np.tile([9.0, 0, 0], (len(blank), 1)), "logits")
    fitted = SpanCalibrator().fit(valid, outside)
    assert not fitted.reads_signals
    assert "one kind alone" in fitted.reason_
