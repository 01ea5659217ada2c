"""Adapting: frequencies against plain loops and simulation, the line of sets, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import InputError, Predictions, Temperature, accuracy, adapt, nll
from calibrant.adapting.label_shift import bbse, em, most_likely
from calibrant.adapting.set_level import SetPoint, fit_line
from calibrant.calibrators import CALIBRATORS, Identity
from calibrant.calibrators.correction import BIAS, SHIFT, corrected
from calibrant.distributions import student_quantile
from calibrant.metrics import ece
from calibrant.metrics.confidences import top_label
from calibrant.watching import unlabelled


def sample(n, shares=None, signal=2.0, classes=4, seed=0, groups=None):
    """Labels with these shares, and honest logits of equal shares."""
    random = np.random.default_rng(seed)
    labels = random.choice(classes, n, p=shares)
    z = random.normal(size=(n, classes)) + signal * np.eye(classes)[labels]
    return Predictions.from_logits(2 * z, labels, groups=groups)


NEW = [0.55, 0.25, 0.15, 0.05]


@pytest.fixture(scope="module")
def valid():
    return sample(4000)


@pytest.fixture(scope="module")
def fitted(valid):
    return Temperature().fit(valid)


def test_em_equals_plain_loops():
    random = np.random.default_rng(0)
    old, new = random.dirichlet([0.5] * 3, 200), random.dirichlet([0.5, 1, 2], 100)
    prior = old.mean(axis=0)
    q = prior.copy()
    for _ in range(1500):  # Saerens et al., equations 2.2 and 2.3.
        total = np.zeros(3)
        for row in new:
            posterior = q / prior * row
            total += posterior / posterior.sum()
        q = total / len(new)
    np.testing.assert_allclose(most_likely(new, prior) * prior, q, atol=1e-6)


def test_em_replicates_are_what_em_finds_in_replicates():
    """One step of Newton spreads as whole fits to bootstrap samples do."""
    p, v = sample(1500, NEW, seed=1), sample(1500, seed=2)
    new, old = (np.asarray(q.probabilities()) for q in (p, v))
    units, random = np.arange(1500), np.random.default_rng(0)
    found = em(new, units, old, v.labels, units, 400, random)
    fits = []
    for _ in range(60):
        a, b = random.integers(0, 1500, (2, 1500))
        fits.append(em(new[a], units, old[b], v.labels[b], units, 1, random).weights)
    np.testing.assert_allclose(found.changes.std(axis=0), np.std(fits, axis=0), rtol=0.4)


def test_bbse_by_hand():
    """Confusion shares [[.4, .1], [.1, .4]] and predicted [.7, .3]: w = [5/3, 1/3]."""
    predicted = np.array([0] * 5 + [1] * 5)
    labels = np.array([0] * 4 + [1] + [0] + [1] * 4)
    new = np.array([0] * 7 + [1] * 3)
    units = np.arange(10)
    found = bbse(new, units, predicted, labels, units, 2, 5, np.random.default_rng(0))
    np.testing.assert_allclose(found.weights, [5 / 3, 1 / 3])


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_other_frequencies_are_found_and_corrected(valid, fitted, method):
    new = sample(6000, NEW, seed=3)
    found = adapt(fitted, valid, unlabelled(new), method=method)
    assert found.changed
    for share, true in zip(found.classes, NEW, strict=True):
        assert share.low <= true <= share.high
        assert share.high - share.low < 0.12
    before, after = fitted.transform(new), found.calibrator.transform(new)
    assert accuracy(after) > accuracy(before) + 0.02
    assert ece(after) < 0.02
    assert found.expected_accuracy.low < accuracy(after) < found.expected_accuracy.high
    shares = np.array([share.after for share in found.classes])
    assert shares.sum() == pytest.approx(1, abs=0.02)
    assert found.calibrator.fitted_on_["adapted"]["method"] == method


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_without_a_change_the_map_stays(valid, fitted, method):
    found = adapt(fitted, valid, unlabelled(sample(3000, seed=5)), method=method)
    assert not found.changed
    assert BIAS not in found.calibrator.learned()
    assert "stays" in found.verdict[0]
    same = adapt(fitted, valid, valid, method="em")
    assert [s.after for s in same.classes] == pytest.approx([s.before for s in same.classes])


def test_intervals_hold_for_all_classes_at_once():
    """At 90 %, at least 80 % of 50 simulated data sets have every class inside."""
    inside = 0
    for seed in range(50):
        v, new = sample(1000, seed=2 * seed), sample(1000, NEW, seed=2 * seed + 1)
        map_ = Identity().fit(v)
        found = adapt(map_, v, new, method="em", bootstrap=100, level=0.9)
        inside += all(s.low <= t <= s.high for s, t in zip(found.classes, NEW, strict=True))
    assert inside >= 40


def naive_bayes(n, shares, random):
    """Log-odds of twelve features that share noise, but are taken as independent."""
    means = 0.8 * np.random.default_rng(5).normal(size=(3, 12))
    labels = random.choice(3, n, p=shares)
    noise = np.sqrt(0.6) * random.normal(size=(n, 1)) + np.sqrt(0.4) * random.normal(size=(n, 12))
    features = means[labels] + np.array([0.7, 1.0, 1.3])[labels, None] * noise
    away = ((features[:, None] - means) ** 2).sum(axis=2)
    return Predictions.from_logits(-away / 2, labels)


def test_em_holds_with_a_calibrator_that_does_not_fit():
    """No temperature makes naive Bayes honest: none of 30 joint intervals of EM held.

    benchmarks/class_shares.py has more cases.
    """
    new, held = np.array([1, 2, 3]) / 6, 0
    for seed in range(100, 130):
        random = np.random.default_rng(seed)
        valid, data = naive_bayes(1000, None, random), naive_bayes(5000, new, random)
        found = adapt(Temperature().fit(valid), valid, data, method="em", bootstrap=100)
        held += all(c.low <= s <= c.high for c, s in zip(found.classes, new, strict=True))
    assert held >= 26


def test_expected_accuracy_knows_that_a_calibrator_does_not_fit():
    """Weighted as the new data, validation rows show how far off it is: 0 of 20 held.

    The spread of the classes differs: a temperature is too sure of the one that becomes frequent.
    """
    random, held = np.random.default_rng(0), 0

    def draw(share):
        labels = random.random(2000) < share
        logits = np.where(labels, random.normal(1, 2, 2000), random.normal(-3, 0.5, 2000))
        return Predictions.from_logits(logits, labels)

    for _ in range(20):
        valid, data = draw(0.5), draw(0.1)
        found = adapt(Temperature().fit(valid), valid, data, method="em", bootstrap=100)
        right, expected = accuracy(found.calibrator.transform(data)), found.expected_accuracy
        held += expected.low <= right <= expected.high
    assert held >= 17


def test_em_takes_a_class_without_labels_from_its_probabilities():
    """A class that is too rare for 1,000 rows is believed from the model, and may be frequent."""
    old, new = np.array([0.4, 0.3, 0.2999, 0.0001]), [0.3, 0.2, 0.3, 0.2]

    def knowing_the_old_shares(p):
        return Predictions.from_logits(p.scores + np.log(4 * old), p.labels)

    valid = knowing_the_old_shares(sample(1000, old))
    assert (valid.labels != 3).all()
    data = knowing_the_old_shares(sample(3000, new, seed=1))
    found = adapt(Identity().fit(valid), valid, data, method="em")
    assert found.classes[3].before < 0.001
    assert found.classes[3].low <= 0.2 <= found.classes[3].high


def test_labels_of_the_new_data_are_not_looked_at(valid, fitted):
    new = sample(2000, NEW, seed=3)
    other = Predictions.from_logits(new.scores, 0 * new.labels)
    assert adapt(fitted, valid, new).to_dict() == adapt(fitted, valid, other).to_dict()


def test_a_correction_is_replaced_not_added(valid, fitted):
    new = sample(3000, NEW, seed=3)
    once = adapt(fitted, valid, new)
    twice = adapt(once.calibrator, valid, new)
    np.testing.assert_array_equal(once.calibrator.learned()[BIAS], twice.calibrator.learned()[BIAS])


def test_rows_of_a_sentence_do_not_count_as_independent():
    def repeated(p, times=8):
        rows = np.repeat(np.arange(len(p)), times)
        return Predictions.from_logits(p.scores[rows], p.labels[rows], groups={"sentence": rows})

    v, new = sample(500), sample(500, NEW, seed=1)
    map_ = Identity().fit(v)
    alone = adapt(map_, v, new).classes[0]
    grouped = adapt(map_, repeated(v), repeated(new)).classes[0]
    assert grouped.after == pytest.approx(alone.after)
    assert grouped.high - grouped.low == pytest.approx(alone.high - alone.low, rel=0.2)


def copies(signals=(1.8, 1.5, 1.2, 0.9, 0.6), seed=10):
    return [sample(2000, signal=s, seed=seed + i) for i, s in enumerate(signals)]


@pytest.mark.parametrize("name", ["temperature", "isotonic-top-label", "vector", "identity"])
def test_set_level_estimates_harder_data(valid, name):
    map_ = CALIBRATORS[name].calibrator().fit(valid)
    new = sample(3000, signal=1.35, seed=4)
    found = adapt(map_, valid, unlabelled(new), copies=copies())
    true = accuracy(map_.transform(new))
    assert abs(found.expected_accuracy.value - true) < 0.04
    assert found.expected_accuracy.low < true < found.expected_accuracy.high
    after = found.calibrator.transform(new)
    mean = top_label(after)[0].mean()
    assert mean == pytest.approx(found.expected_accuracy.value, abs=1e-3)
    assert accuracy(after) == true
    assert ece(after) < ece(map_.transform(new)) / 2
    assert found.method == "set-level"
    assert [point.name for point in found.sets][:2] == ["validation", "copy 1"]
    assert SHIFT in found.calibrator.learned()


def test_line_by_hand():
    """Points on logit a = 2 logit c − 1 give that line, without a spread."""
    confidences = (0.6, 0.7, 0.8, 0.9)
    odds = [np.log(c / (1 - c)) for c in confidences]
    sets = [
        SetPoint(str(c), 10**6, c, 1 / (1 + np.exp(1 - 2 * x)))
        for c, x in zip(confidences, odds, strict=True)
    ]
    line = fit_line(sets)
    assert line.slope == pytest.approx(2)
    assert line.intercept == pytest.approx(-1)
    value, low, high = line.accuracy(0.75, 0.95, rows=10**12)
    assert low == pytest.approx(value, abs=1e-4)
    assert high == pytest.approx(value, abs=1e-4)
    assert value == pytest.approx(1 / (1 + np.exp(1 - 2 * np.log(3))))


def test_the_interval_knows_how_few_rows_the_new_data_have():
    """Without a spread of the copies, what is left is chance: 1 / (n a (1 − a)) in log-odds."""
    places = [np.log(c / (1 - c)) for c in (0.6, 0.7, 0.8, 0.9)]
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    sets = [SetPoint(str(x), 10**6, sigmoid(x), sigmoid(2 * x - 1)) for x in places]
    value, low, high = fit_line(sets).accuracy(0.75, 0.95, rows=100)
    half = student_quantile(2, 0.95) / np.sqrt(100 * value * (1 - value))
    odds = [np.log(share / (1 - share)) for share in (low, value, high)]
    assert odds[1] - odds[0] == pytest.approx(half, rel=0.01)
    assert odds[2] - odds[1] == pytest.approx(half, rel=0.01)


def test_intervals_of_small_new_sets_cover(fitted, valid):
    """A hundred new rows: 28 of 40 were covered, as only the copies' spread was counted."""
    hit, made = 0, copies((1.9, 1.7, 1.5, 1.3, 1.1))
    for seed in range(40):
        new = sample(100, signal=1.6, seed=100 + seed)
        found = adapt(fitted, valid, new, copies=made).expected_accuracy
        hit += found.low <= accuracy(new) <= found.high
    assert hit >= 35


@pytest.mark.parametrize(
    ("method", "new", "classes"),
    [("em", [0.55, 0.25, 0.2, 0.0], 4), ("em", [1.0, 0.0], 2), ("bbse", np.arange(10) / 45, 10)],
)
def test_intervals_hold_where_classes_are_absent(method, new, classes):
    """The standard error at a small estimate is too small: 73 % of 95 % held with four classes."""
    hold = 0
    for seed in range(25):
        valid = sample(1000, classes=classes, seed=2 * seed)
        data = sample(800, new, classes=classes, seed=2 * seed + 1)
        found = adapt(Temperature().fit(valid), valid, data, method=method, bootstrap=100)
        hold += all(c.low <= s <= c.high for c, s in zip(found.classes, new, strict=True))
    assert hold >= 21


def test_classes_that_are_hard_to_tell_apart_have_not_changed():
    """By chance some of them end at 0, which was taken as certain: 9 of 20 had "changed"."""
    shares = [0.02, 0.06, 0.15, 0.35, 0.42]
    hold = changed = 0
    for seed in range(20):
        valid = sample(1500, shares, 0.25, 5, seed=2 * seed)
        data = sample(600, shares, 0.25, 5, seed=2 * seed + 1)
        calibrator = CALIBRATORS["structured-matrix"].calibrator().fit(valid)
        found = adapt(calibrator, valid, data, bootstrap=100)
        changed += found.changed
        hold += all(c.low <= s <= c.high for c, s in zip(found.classes, shares, strict=True))
    assert changed <= 3
    assert hold >= 18


def test_expected_accuracy_allows_for_shares_that_cannot_be_found():
    """Where the confusion matrix says little, the frequencies may be any: 10 of 20 held."""
    hold = 0
    for seed in range(20):
        valid = sample(1000, [0.92, 0.08], 1.0, 2, seed=2 * seed)
        data = sample(300, [0.7, 0.3], 1.0, 2, seed=2 * seed + 1)
        calibrator = CALIBRATORS["platt"].calibrator().fit(valid)
        found = adapt(calibrator, valid, data, method="bbse", bootstrap=100)
        expected, right = found.expected_accuracy, accuracy(found.calibrator.transform(data))
        hold += expected.low <= right <= expected.high
        widest = max(share.high - share.low for share in found.classes)
        assert ("say little about class" in found.verdict[0]) == (widest > 0.25 > found.changed)
    assert hold >= 17


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_a_class_that_was_not_found_is_not_ruled_out(method):
    """One row of it cost up to 20 nats: bbse with ten classes was worse than no correction."""
    shares = np.arange(1, 11) / 55
    before, after = [], []
    for seed in range(8):
        valid = sample(1500, classes=10, signal=1.5, seed=2 * seed)
        data = sample(1000, shares, classes=10, signal=1.5, seed=2 * seed + 1)
        test = sample(3000, shares, classes=10, signal=1.5, seed=1000 + seed)
        calibrator = Temperature().fit(valid)
        found = adapt(calibrator, valid, data, method=method, bootstrap=50)
        before.append(nll(calibrator.transform(test)))
        after.append(nll(found.calibrator.transform(test)))
    assert np.mean(after) < np.mean(before) - 0.02


def test_perfect_and_hopeless_sets_are_finite():
    sets = [SetPoint(str(i), 100, c, a) for i, (c, a) in enumerate(
        [(1.0, 1.0), (0.95, 0.9), (0.9, 0.75), (0.8, 0.5), (0.6, 0.0)]
    )]  # fmt: skip
    assert 0 <= fit_line(sets).accuracy(0.8, 0.95, rows=100)[0] <= 1


def test_refusals(valid, fitted):
    new = sample(2000, signal=1.0, seed=4)
    with pytest.raises(InputError, match="do not explain the confidences"):
        adapt(fitted, valid, new, method="em")
    with pytest.raises(InputError, match="do not explain the confidences"):
        adapt(fitted, valid, new, method="bbse")
    with pytest.raises(InputError, match="outside the range of the copies"):
        adapt(fitted, valid, sample(2000, signal=0.1), copies=copies((1.9, 1.8, 1.7)))
    with pytest.raises(InputError, match="at least 4 labelled sets"):
        adapt(fitted, valid, new, copies=copies((1.5,)))
    with pytest.raises(InputError, match="at least 4 labelled sets"):
        adapt(fitted, valid, new, method="set-level")
    with pytest.raises(InputError, match="nearly the same mean confidence"):
        adapt(fitted, valid, new, copies=[valid] * 4)
    with pytest.raises(InputError, match="copy 2' has no labelled rows"):
        adapt(fitted, valid, new, copies=[valid, unlabelled(valid), valid])
    with pytest.raises(InputError, match="validation rows represent the new"):
        adapt(fitted, valid[:60], sample(2000, [0.97, 0.01, 0.01, 0.01]), method="bbse")


def test_copies_that_say_nothing_are_refused(valid, fitted):
    """Surer and worse: a line that falls."""
    worse = [
        Predictions.from_logits(c.scores * s, c.labels)
        for c, s in zip(copies((1.5, 1.0, 0.5)), (2.0, 4.0, 9.0), strict=True)
    ]
    with pytest.raises(InputError, match="does not rise"):
        adapt(fitted, valid, sample(1000), copies=worse)


def test_kinds_that_disagree_are_refused():
    """Fading leaves the accuracy, noise takes it: the one says nothing about the other."""
    sets = [SetPoint("validation", 1000, 0.95, 0.95)]
    sets += [SetPoint(f"faded-{i}", 1000, 0.95 - 0.1 * i, 0.95) for i in (1, 2, 3)]
    sets += [SetPoint(f"noise-{i}", 1000, 0.95 - 0.02 * i, 0.95 - 0.12 * i) for i in (1, 2, 3)]
    with pytest.raises(InputError, match="do not agree"):
        fit_line(sets)
    assert fit_line(sets[:1] + sets[4:]).slope > 2


def test_sample_weights_of_copies_are_refused(fitted, valid):
    weighted = [replace(c, weights=np.ones(len(c))) for c in copies((1.5, 1.0, 0.5))]
    with pytest.raises(InputError, match=r"copies.* takes no sample weights"):
        adapt(fitted, valid, sample(1000), copies=weighted)


def test_errors_near_zero_are_written_as_numbers():
    sets = [SetPoint("validation", 10**6, 0.95, 0.95)]
    sets += [SetPoint(f"a-{i}", 10**6, 0.95 - 0.1 * i, 0.9501 - 0.1 * i) for i in (1, 2)]
    sets += [SetPoint(f"b-{i}", 10**6, 0.95 - 0.1 * i, 0.9499 - 0.1 * i) for i in (1, 2)]
    with pytest.raises(InputError, match=r"off by 0\.0 points on average, .* itself by 0\.0"):
        fit_line(sets)


def test_classes_that_cannot_be_distinguished():
    p = Predictions.from_probabilities([[0.5, 0.3, 0.2]] * 200, [0, 1] * 100)
    for method, words in (("em", "cannot be distinguished"), ("bbse", "no example of class '2'")):
        with pytest.raises(InputError, match=words):
            adapt(Identity().fit(p), p, p, method=method)
    q = Predictions.from_probabilities([[0.5, 0.5], [0.6, 0.4]] * 100, [0, 1] * 100)
    with pytest.raises(InputError, match="cannot be distinguished"):
        adapt(Identity().fit(q), q, q, method="bbse")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "emm"}, "Did you mean 'em'"),
        ({"level": 0}, "level"),
        ({"bootstrap": 3}, "bootstrap"),
        ({"keep_together": "day"}, "no column 'day'"),
        ({"copies": ["a.npz"]}, "Predictions"),
    ],
)
def test_bad_options(valid, fitted, options, words):
    with pytest.raises(InputError, match=words):
        adapt(fitted, valid, valid, **options)


def test_bad_data(valid, fitted):
    with pytest.raises(InputError, match="labelled row of validation"):
        adapt(fitted, unlabelled(valid), valid)
    with pytest.raises(InputError, match="row of new"):
        adapt(fitted, valid, valid[:0])
    with pytest.raises(InputError, match="Calibrator"):
        adapt("map.json", valid, valid)
    with pytest.raises(InputError, match="Predictions"):
        adapt(fitted, valid, valid.scores)
    with pytest.raises(InputError, match="classes"):
        adapt(fitted, valid, sample(10, classes=3))
    with pytest.raises(InputError, match="depend on each other"):
        adapt(fitted, sample(100, groups={"sentence": np.arange(100)}), valid)


def test_corrected_maps_are_watched(valid, fitted):
    from calibrant import watch

    new = sample(3000, NEW, seed=3)
    found = adapt(fitted, valid, new)
    seen = watch(unlabelled(new), calibrator=found.calibrator).total.expected_accuracy.value
    assert seen == pytest.approx(found.expected_accuracy.value, abs=1e-6)
    assert corrected(found.calibrator).learned().keys() == fitted.learned().keys()


def test_the_verdict_says_how_confident_the_calibrator_was_on_the_validation_data():
    """Otherwise a calibrator that was always too sure looks like an accuracy that has risen."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(900, 2)) + np.array([3.0, 0.0])
    data = Predictions.from_logits(logits, (random.random(900) < 0.2).astype(int))
    found = adapt(Identity().fit(data[:400]), data[:400], data[400:])
    assert found.valid_confidence > found.valid_accuracy + 0.05
    assert f"and {100 * found.valid_confidence:.1f} % of the validation data." in found.verdict[1]
