"""The calibrators of one number, against hand computation and plain-loop twins."""

import math

import numpy as np
import pytest
from calibrator_samples import as_probabilities, overconfident, quiet_fit
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError, Predictions
from calibrant.calibrators import (
    BBQ,
    CALIBRATORS,
    Beta,
    HistogramBinning,
    Isotonic,
    Platt,
    Spline,
    TopLabelHistogramBinning,
    TopLabelIsotonic,
)
from calibrant.calibrators.backend import log_odds, normalized, sigmoid
from calibrant.calibrators.bbq import _AveragedHistograms, log_gamma
from calibrant.calibrators.histogram import _Histogram, equal_mass_edges
from calibrant.calibrators.isotonic import _by_stack, _IsotonicCurve, pool_adjacent_violators
from calibrant.calibrators.spline import natural_splines

unit = st.floats(0, 1)
pairs = st.lists(st.tuples(st.integers(0, 10).map(lambda i: i / 10) | unit, st.booleans()))
some_pairs = pairs.filter(lambda rows: len(rows) > 0)


def columns(rows):
    return np.array([x for x, _ in rows]), np.array([hit for _, hit in rows])


def evaluate(scalar, learned, x):
    """A fitted one-number calibrator at x."""
    return scalar.apply(x[:, None], {k: v[None] for k, v in learned.items()})[:, 0]


# Pool adjacent violators


def loop_isotonic(values, weights):
    """The isotonic regression as the max over left ends of the min over right ends of means."""
    n = len(values)
    result = []
    for i in range(n):
        best = -math.inf
        for a in range(i + 1):
            means = [
                sum(values[a : b + 1] * weights[a : b + 1]) / sum(weights[a : b + 1])
                for b in range(i, n)
            ]
            best = max(best, min(means))
        result.append(best)
    return np.array(result)


def expanded(means, starts, n):
    return np.repeat(means, np.diff(np.append(starts, n)))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=14))
def test_pool_adjacent_violators_equals_max_min(rows):
    values, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    got = expanded(*pool_adjacent_violators(values, weights), len(values))
    np.testing.assert_allclose(got, loop_isotonic(values, weights), atol=1e-12)
    stack = _by_stack(values * weights, weights, np.arange(len(values)))
    np.testing.assert_allclose(expanded(*stack, len(values)), got, atol=1e-12)


def test_pool_adjacent_violators_on_its_worst_case():
    # A long ascent and one low value at its end: one merge per round.
    values = np.append(np.arange(20_000.0), -1e9)
    means, starts = pool_adjacent_violators(values, np.ones(20_001))
    assert len(means) == 1
    assert starts.tolist() == [0]


def test_isotonic_by_hand():
    scalar = _IsotonicCurve(0.0)
    learned = scalar.fit(np.array([0.1, 0.4, 0.6, 0.6, 0.9]), np.array([0, 1, 0, 0, 1], bool))
    # 0.4 has one of one, 0.6 none of two: pooled to 1/3 over three; lines between the blocks.
    assert learned["nodes_"].tolist() == [0.1, 0.1, 0.4, 0.6, 0.9, 0.9]
    np.testing.assert_allclose(learned["values_"], [0, 0, 1 / 3, 1 / 3, 1, 1])
    at = evaluate(scalar, learned, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    np.testing.assert_allclose(at, [0, 1 / 6, 1 / 3, 2 / 3, 1])


@given(some_pairs)
def test_isotonic_never_decreases_and_keeps_the_mean(rows):
    x, hit = columns(rows)
    scalar = _IsotonicCurve(0.0)
    learned = scalar.fit(x, hit)
    at = evaluate(scalar, learned, np.sort(np.append(x, np.linspace(0, 1, 50))))
    assert (np.diff(at) >= -1e-12).all()
    assert evaluate(scalar, learned, x).mean() == pytest.approx(hit.mean(), abs=1e-9)


# Histogram binning and BBQ


def loop_histogram(x, hit, edges, at):
    """Frequencies by comparing every score with every edge."""
    table = {}
    for score, happened in zip(x, hit, strict=True):
        b = sum(score > edge for edge in edges)
        count, hits = table.get(b, (0, 0))
        table[b] = (count + 1, hits + happened)
    ends = [0, *edges, 1]
    result = []
    for score in at:
        b = sum(score > edge for edge in edges)
        count, hits = table.get(b, (0, 0))
        result.append(hits / count if count else (ends[b] + ends[b + 1]) / 2)
    return result


@given(some_pairs, st.integers(1, 6), st.sampled_from(["mass", "width"]))
def test_histogram_equals_loops(rows, bins, equal):
    x, hit = columns(rows)
    scalar = _Histogram(bins, equal, 0.0)
    learned = scalar.fit(x, hit)
    at = np.append(x, np.linspace(0, 1, 23))
    edges = (
        [e for e in learned["edges_"] if e < x.max()]
        if equal == "mass"
        else [i / bins for i in range(1, bins)]
    )
    np.testing.assert_allclose(evaluate(scalar, learned, at), loop_histogram(x, hit, edges, at))


def test_equal_mass_edges_split_evenly_and_keep_ties_together():
    x = np.sort(np.random.default_rng(0).random(1000))
    counts = np.bincount(np.searchsorted(equal_mass_edges(x, 8), x))
    assert counts.tolist() == [125] * 8
    tied = np.sort(np.repeat([0.1, 0.5, 0.9], [10, 80, 10]))
    assert equal_mass_edges(tied, 10).tolist() == pytest.approx([0.3, 0.7])
    assert equal_mass_edges(np.ones(7), 3).tolist() == []


def test_floor_keeps_the_nll_of_new_data_finite():
    p = overconfident(n=300, classes=3)
    for calibrator in (HistogramBinning, Isotonic, TopLabelIsotonic, Spline):
        for floor, least in ((None, 1 / (2 * 302)), (1e-6, 1e-6)):
            values = quiet_fit(calibrator(floor=floor), p).values_
            assert values.min() >= least
            assert values.max() <= 1 - least


def agreeing_ends(n=8):
    """Two classes: 40 even examples in the middle, n at each end without a mistake."""
    scores = np.repeat([0.2, 0.5, 0.8], [n, 40, n])
    return Predictions.from_probabilities(scores, [0] * n + [0, 1] * 20 + [1] * n)


COUNTING = ("isotonic", "centred-isotonic", "histogram", "venn-abers")


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("n", [8, 98])
def test_a_bin_without_a_mistake_follows_the_rule_of_succession(name, n):
    """Eight right answers support 9/10, not 999,999 of a million."""
    calibrator = CALIBRATORS[name].calibrator()
    if name == "histogram":
        calibrator.set_params(equal="width", bins=3)
    q = quiet_fit(calibrator, p := agreeing_ends(n)).transform(p).probabilities()[:, 1]
    np.testing.assert_allclose(q[-1], (n + 1) / (n + 2), rtol=1e-12)
    np.testing.assert_allclose(q[0], 1 / (n + 2), rtol=1e-12)
    np.testing.assert_allclose(q[n : n + 40], 0.5, rtol=1e-12)


@pytest.mark.parametrize("name", [*CALIBRATORS])
def test_no_map_is_certain_of_an_end_of_eight_examples(name):
    p = agreeing_ends()
    groups = {"position": np.zeros(len(p), int)}
    names = ("O", "B-A")
    p = Predictions.from_probabilities(p.scores, p.labels, groups=groups, label_names=names)
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), p)
    claimed = fitted.transform(p).probabilities().max()
    assert claimed <= 0.999 or fitted.fell_back_


def test_an_outer_block_never_passes_its_neighbour():
    """One right answer above a block that is right 95 times of 100."""
    scores = np.repeat([0.2, 0.7, 0.9], [1, 100, 1])
    labels = [0] + [1] * 5 + [0] * 95 + [1]
    p = Predictions.from_probabilities(scores, labels)
    low = quiet_fit(Isotonic(), p)
    assert low.values_[0, 0] == pytest.approx(0.05)
    mirrored = Predictions.from_probabilities(1 - scores, 1 - np.array(labels))
    high = quiet_fit(Isotonic(), mirrored)
    assert high.values_[0, -1] == pytest.approx(0.95)
    assert (np.diff(high.values_[0]) >= 0).all()


def test_other_classes_share_what_one_more_example_could_be():
    """With many classes 1 / (n + 2) each would add up to most of a row."""
    classes, each = 50, 20
    labels = np.repeat(np.arange(classes), each)
    logits = 12 * np.eye(classes)[labels]
    logits[::10] = 0  # Every tenth example is a guess.
    q = quiet_fit(Isotonic(), p := Predictions.from_logits(logits, labels)).transform(p)
    assert q.probabilities()[1, 0] > 0.9


def test_a_bin_without_examples_keeps_its_middle():
    p = Predictions.from_probabilities([0.1] * 9 + [0.9] * 9, [0] * 8 + [1] * 9 + [0])
    fitted = quiet_fit(HistogramBinning(bins=5, equal="width"), p)
    np.testing.assert_allclose(fitted.values_[0, 1:4], [0.3, 0.5, 0.7])


@pytest.mark.parametrize("x", [1e-8, 1e-3, 0.5, 1, 2.5, 7.999, 8, 50, 1e6])
def test_log_gamma(x):
    assert log_gamma(np.array([x]))[0] == pytest.approx(math.lgamma(x), rel=1e-13, abs=1e-13)


def loop_bbq(x, hit, bin_counts, at):
    """Every model's evidence by math.lgamma, then the average at each point."""
    ordered, models = np.sort(x), {}
    for bins in bin_counts:
        models.setdefault(tuple(equal_mass_edges(ordered, bins)), None)
    scores, tables = [], []
    for edges in models:
        b = len(edges) + 1
        ends = [0, *edges, 1]
        evidence, table = 0.0, []
        for i in range(b):
            inside = [h for s, h in zip(x, hit, strict=True) if sum(s > e for e in edges) == i]
            n, m = len(inside), sum(inside)
            middle = min(max((ends[i] + ends[i + 1]) / 2, 1e-6), 1 - 1e-6)
            alpha, beta = 2 / b * middle, 2 / b * (1 - middle)
            evidence += math.lgamma(2 / b) - math.lgamma(n + 2 / b)
            evidence += math.lgamma(m + alpha) - math.lgamma(alpha)
            evidence += math.lgamma(n - m + beta) - math.lgamma(beta)
            least = 1 / (n + 2)  # Not in the paper: a bin that agrees is not certain.
            table.append(min(max((m + alpha) / (n + 2 / b), least), 1 - least))
        scores.append(evidence)
        tables.append((edges, table))
    weights = np.exp(np.array(scores) - max(scores))
    weights /= weights.sum()
    return [
        sum(w * t[sum(s > e for e in edges)] for w, (edges, t) in zip(weights, tables, strict=True))
        for s in at
    ]


def test_bbq_equals_loops():
    rng = np.random.default_rng(0)
    x = np.append(rng.random(80).round(2), [0.0, 1.0])
    hit = rng.random(82) < x**2
    scalar = _AveragedHistograms(1000)
    at = np.linspace(0, 1, 41)
    bin_counts = range(1, int(10 * 82 ** (1 / 3)) + 1)
    got = evaluate(scalar, scalar.fit(x, hit), at)
    # Models below a millionth of the weight are left out.
    np.testing.assert_allclose(got, loop_bbq(x, hit, bin_counts, at), atol=1e-5)


# Parametric calibrators


def test_platt_and_beta_by_hand():
    # Two distinct scores and two or three numbers: the frequencies are met exactly.
    logits = np.array([[0.0, 2.0]] * 10 + [[0.0, -3.0]] * 10)
    p = Predictions.from_logits(logits, [1] * 7 + [0] * 12 + [1])
    for calibrator in (Platt(smooth_targets=False), Beta(ridge=1e-10)):
        q = calibrator.fit(p).transform(p).scores[:, 1]
        np.testing.assert_allclose(q[[0, 10]], [0.7, 0.1], atol=1e-6)


def test_platt_targets():
    logits = np.array([[0.0, 2.0]] * 40 + [[0.0, -3.0]] * 40)
    p = Predictions.from_logits(logits, [1] * 30 + [0] * 10 + [0] * 36 + [1] * 4)
    q = Platt().fit(p).transform(p).scores[:, 1]
    high, low = 35 / 36, 1 / 48  # 34 positives, 46 negatives.
    np.testing.assert_allclose(q[0], (30 * high + 10 * low) / 40, rtol=1e-9)
    np.testing.assert_allclose(q[40], (4 * high + 36 * low) / 40, rtol=1e-9)


def test_beta_is_identity_on_calibrated_scores():
    p = overconfident(n=40_000, classes=2, scale=1.0)
    beta = Beta().fit(p)
    np.testing.assert_allclose([beta.a_[0, 0], beta.b_[0, 0]], 1, atol=0.1)
    assert beta.c_[0, 0] == pytest.approx(0, abs=0.1)


def test_beta_never_decreases():
    rng = np.random.default_rng(0)
    x = rng.random(400)
    p = Predictions.from_probabilities(x, (rng.random(400) < 1 - x).astype(int))
    beta = quiet_fit(Beta(), p)
    assert beta.a_[0, 0] >= 0
    assert beta.b_[0, 0] >= 0


@given(st.lists(st.floats(-800, 800), min_size=2, max_size=5))
def test_log_odds_are_accurate(row):
    logits = np.array([row])
    got = log_odds(logits)[0]
    for k in range(len(row)):
        others = [v for j, v in enumerate(row) if j != k]
        top = max(others)
        expected = row[k] - top - math.log(sum(math.exp(v - top) for v in others))
        assert got[k] == pytest.approx(expected, rel=1e-12, abs=1e-9)


# Lifting to many classes


def test_one_against_rest_divides_by_the_sum():
    p = as_probabilities(overconfident(n=400, classes=3))
    calibrator = HistogramBinning(floor=0.0)
    quiet_fit(calibrator, p)
    calibrator.fell_back_ = False
    got = calibrator.transform(p).scores
    each = np.stack(
        [
            evaluate(s := _Histogram(15, "mass", 0.0), s.fit(x, p.labels == k), x)
            for k, x in enumerate(p.scores.T)
        ],
        axis=1,
    )
    np.testing.assert_allclose(got, each / each.sum(axis=1, keepdims=True))


def test_rows_of_zeros_become_uniform():
    assert normalized(np.zeros((1, 4))).tolist() == [[0.25] * 4]


@pytest.mark.parametrize("calibrator", [TopLabelIsotonic(), TopLabelHistogramBinning(), Spline()])
def test_top_label_spreads_the_rest_as_before(calibrator):
    p = as_probabilities(overconfident(n=800, classes=4))
    q = quiet_fit(calibrator, p).transform(p).scores
    top = p.scores.argmax(axis=1)
    rows = np.arange(len(p))
    before, after = p.scores.copy(), q.copy()
    before[rows, top], after[rows, top] = 0, 0
    ratio = before / before.sum(axis=1, keepdims=True)
    expected = ratio * (1 - q[rows, top])[:, None]
    spread = expected.max(axis=1) < 0.9999 * q[rows, top]  # Or the prediction would change.
    assert 0.5 < spread.mean() < 1
    np.testing.assert_allclose(after[spread], expected[spread], atol=1e-12)


@pytest.mark.parametrize("calibrator", [TopLabelIsotonic(), TopLabelHistogramBinning(), Spline()])
def test_top_label_evens_the_rest_out_as_little_as_keeps_the_prediction(calibrator):
    p = as_probabilities(overconfident(n=800, classes=4))
    q = quiet_fit(calibrator, p).transform(p).scores
    for before, after in zip(p.scores, q, strict=True):
        top = before.argmax()
        others = np.delete(before, top) / (1 - before[top])
        expected = (1 - after[top]) * others
        if expected.max() > 0.99995 * after[top]:  # By plain bisection on the pull towards equal.
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                pulled = (1 - after[top]) * ((1 - middle) * others + middle / 3)
                low, high = (low, middle) if pulled.max() < 0.99995 * after[top] else (middle, high)
            expected = (1 - after[top]) * ((1 - high) * others + high / 3)
        np.testing.assert_allclose(np.delete(after, top), expected, atol=1e-9)
        assert after.argmax() == top


def test_top_label_with_confidence_one():
    p = Predictions.from_probabilities([[1.0, 0.0, 0.0]] * 9 + [[0.5, 0.3, 0.2]], [0] * 8 + [1, 0])
    q = quiet_fit(TopLabelHistogramBinning(bins=2, equal="width"), p).transform(p).scores
    np.testing.assert_allclose(q[0], [8 / 9, 1 / 18, 1 / 18], atol=1e-12)


def test_spline_recovers_a_known_accuracy():
    rng = np.random.default_rng(0)
    c = np.sort(rng.uniform(0.5, 1, 20_000))
    right = rng.random(20_000) < 0.5 + 0.8 * (c - 0.5)
    p = Predictions.from_probabilities(c, right.astype(int))
    q = Spline().fit(p).transform(p).scores[:, 1]
    inner = slice(500, -500)
    assert np.abs(q - (0.5 + 0.8 * (c - 0.5)))[inner].max() < 0.04


def test_natural_splines_are_cubic_inside_and_linear_outside():
    knots = np.linspace(0, 1, 5)
    below = natural_splines(np.array([-3.0, -2.0, -1.0]), knots)
    above = natural_splines(np.array([1.5, 2.5, 3.5]), knots)
    for outside in (below, above):
        np.testing.assert_allclose(np.diff(outside, n=2, axis=0), 0, atol=1e-9)
    inside = natural_splines(np.array([0.3, 0.33, 0.36, 0.39, 0.42]), knots)
    np.testing.assert_allclose(np.diff(inside, n=4, axis=0), 0, atol=1e-12)
    assert np.linalg.matrix_rank(natural_splines(np.linspace(0, 1, 50), knots)) == 5


def test_the_spline_of_a_large_tied_group_is_its_accuracy():
    """Of seven neighbours: two thirds agree, and the curve has no data inside their quantiles."""
    confidence = np.repeat(np.array([2, 3, 4, 5, 6, 7]) / 7, [3, 11, 19, 36, 70, 310])
    wrong = np.repeat([0, 1] * 6, np.ravel([(1, 2), (5, 6), (11, 8), (34, 2), (68, 2), (308, 2)]))
    scores = np.full((449, 4), 1.0)
    scores *= (1 - confidence[:, None]) / 3
    scores[:, 0] = confidence
    p = Predictions.from_probabilities(scores, wrong)
    fitted = quiet_fit(Spline(), p)
    assert not fitted.fell_back_
    np.testing.assert_allclose(fitted.values_[0, -2:], [68 / 70, 308 / 310], atol=0.02)


@pytest.mark.parametrize(
    "calibrator",
    [
        HistogramBinning(bins=0),
        HistogramBinning(equal="size"),
        HistogramBinning(floor=0.5),
        Isotonic(floor=-1),
        BBQ(models=0),
        Spline(knots=1),
    ],
)
def test_wrong_arguments_are_named(calibrator):
    with pytest.raises(InputError, match="expects"):
        calibrator.fit(overconfident(n=20))


@pytest.mark.parametrize("x", [-800.0, -1.0, 0.0, 2.0, 800.0])
def test_sigmoid(x):
    expected = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
    assert sigmoid(np.array(x)) == pytest.approx(expected, rel=1e-15)
