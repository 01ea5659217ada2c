"""Prediction sets: hand-computed, by plain loops, few examples, ties, groups, and coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest

from calibrant import Claims, Predictions, guarantee
from calibrant.errors import InputError
from calibrant.policies import conformal
from calibrant.policies.conformal import conformal_quantile, conformity_scores, prediction_sets


def made(n=400, classes=4, seed=0, groups=None, sharp=2.0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = sharp * (random.normal(size=(n, classes)) + np.eye(classes)[labels])
    return Predictions.from_logits(logits, labels, groups=groups)


def test_scores_by_hand():
    p = Predictions.from_probabilities([[0.1, 0.6, 0.3]], [0])
    np.testing.assert_allclose(conformity_scores(p, "lac"), [[0.9, 0.4, 0.7]])
    np.testing.assert_allclose(conformity_scores(p, "aps"), [[0.9, 0.0, 0.6]])
    raps = conformity_scores(p, "raps", penalty=0.1, free=1)
    np.testing.assert_allclose(raps, [[0.9 + 0.2, 0.0, 0.6 + 0.1]])
    u = conformal._drawn(np.array([[0.1, 0.6, 0.3]]), seed=5)[0]
    expected = [[0.9 + (1 - u) * 0.1, (1 - u) * 0.6, 0.6 + (1 - u) * 0.3]]
    np.testing.assert_allclose(conformity_scores(p, "aps", randomised=True, seed=5), expected)


def test_quantile_by_hand():
    scores = np.array([0.5, 0.1, 0.9, 0.3])
    assert conformal_quantile(scores, 0.4) == 0.3  # ⌈5 · 0.4⌉ = 2
    assert conformal_quantile(scores, 0.41) == 0.5
    assert conformal_quantile(scores, 0.8) == 0.9
    assert conformal_quantile(scores, 0.81) == math.inf
    assert conformal_quantile(np.arange(99.0), 0.9) == 89  # The 90th, although 100 · 0.9 > 90.
    assert conformal_quantile(np.empty(0), 0.9) == math.inf
    with pytest.raises(InputError, match="in \\(0, 1\\)"):
        conformal_quantile(scores, 1.0)


def test_groups_of_one_are_rows():
    scores = np.random.default_rng(0).random(57)
    for coverage in (0.3, 0.5, 0.9, 0.98, 0.99):
        grouped = conformal_quantile(scores, coverage, np.arange(57))
        assert grouped == conformal_quantile(scores, coverage)


def test_groups_by_hand():
    """Two groups weigh 1/3 each: a has 0.1 and 0.9 at 1/6, b has 0.5 at 1/3."""
    scores, groups = np.array([0.1, 0.9, 0.5]), np.array(["a", "a", "b"])
    assert conformal_quantile(scores, 1 / 6, groups) == 0.1
    assert conformal_quantile(scores, 0.5, groups) == 0.5
    assert conformal_quantile(scores, 0.6, groups) == 0.9
    assert conformal_quantile(scores, 0.7, groups) == math.inf


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_sets_by_loops(score):
    p = made(60)
    policy = guarantee(p, coverage=0.8, score=score)
    threshold = policy.thresholds["*"]
    for row, found in zip(p.probabilities(), policy.sets(p), strict=True):
        order, expected, before = np.argsort(-row, kind="stable"), set(), 0.0
        for place, k in enumerate(order):
            value = 1 - row[k] if score == "lac" else before
            value += 0.01 * place if score == "raps" else 0
            expected |= {int(k)} if value <= threshold + 1e-9 else set()
            before += row[k]
        assert set(np.flatnonzero(found)) == expected


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
@pytest.mark.parametrize("randomised", [False, True])
@pytest.mark.parametrize("per", [None, "type"])
def test_coverage(score, randomised, per):
    """The mean over splits is at least 0.8, to three standard errors."""
    hit = []
    for seed in range(40):
        p = made(400, seed=seed)
        options = {"score": score, "randomised": randomised, "per": per, "seed": seed}
        policy = guarantee(p[:100], coverage=0.8, **options)
        test = p[100:]
        hit.append(policy.sets(test)[np.arange(300), test.labels].mean())
    assert np.mean(hit) >= 0.8 - 3 * np.std(hit) / math.sqrt(40)
    if score != "lac" and not randomised:
        assert policy.sets(test).any(axis=1).all()  # Never empty.


def test_lower_coverage_makes_smaller_sets_and_the_order_does_not_matter():
    p = made()
    sizes = [guarantee(p, coverage=c).sets(p).sum() for c in (0.5, 0.8, 0.95, 0.99)]
    assert sizes == sorted(sizes)
    order = np.random.default_rng(1).permutation(len(p))
    assert guarantee(p[order], coverage=0.8).thresholds == guarantee(p, coverage=0.8).thresholds


def test_few_examples_and_classes_without_any():
    few = guarantee(made(8), coverage=0.9)
    assert few.thresholds == {"*": math.inf}
    assert few.sets(made(3)).all()
    assert "8 validation rows are too few: every set has all classes" in few.promise
    grouped = replace(made(24), groups={"sentence": np.arange(24) // 3})
    assert "8 validation sentences are too few" in guarantee(grouped, coverage=0.9).promise
    p = made(400)
    p = p[p.labels != 2]
    per = guarantee(p, coverage=0.9, per="type")
    assert per.thresholds["2"] == math.inf
    assert per.sets(p)[:, 2].all()
    assert "Too few validation examples, so every set has them: 2." in per.promise
    assert per.details["examples"]["2"] == 0


def test_ties():
    """All scores are one number: every row is inside the quantile."""
    p = Predictions.from_probabilities(np.full((30, 2), 0.5), [0, 1] * 15)
    assert guarantee(p, coverage=0.9).sets(p).all()


def test_seeds():
    p = made()
    policy = guarantee(p, coverage=0.9, score="aps", randomised=True, seed=3)
    other = replace(policy, settings={**policy.settings, "seed": 4})
    assert (policy.sets(p) != other.sets(p)).any()


@pytest.mark.parametrize("score", ["aps", "raps"])
def test_rows_that_come_alone_have_the_sets_of_the_whole_file(score):
    """With numbers by place, all would have that of the first row: at seed 2, 25 % were covered."""
    hit = []
    for seed in range(8):
        p = made(1000, sharp=1.0, seed=seed)
        policy = guarantee(p[:500], coverage=0.5, score=score, randomised=True, seed=2)
        alone = np.concatenate([policy.sets(p[i : i + 1]) for i in range(500, 1000)])
        np.testing.assert_array_equal(alone, policy.sets(p[500:]))
        hit.append(alone[np.arange(500), p.labels[500:]].mean())
    assert 0.47 < np.mean(hit) < 0.54


def test_numbers_of_randomised_sets_are_uniform_and_independent_of_the_scores():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 100_000)
    u = conformal._drawn(p, seed=0)
    assert abs(np.bincount((10 * u).astype(int), minlength=10) - 10_000).max() < 5 * 95
    assert abs(np.corrcoef(u, p.T)[0, 1:]).max() < 5 / math.sqrt(1e5)
    assert abs(np.corrcoef(u, conformal._drawn(p, seed=1))[0, 1]) < 5 / math.sqrt(1e5)
    rounding = p * (1 + np.random.default_rng(1).choice([-1e-15, 1e-15], p.shape))
    assert (conformal._drawn(rounding, seed=0) == u).mean() > 0.999


def test_groups_of_dependent_rows():
    """Rows of a group are copies: a plain quantile of copies would promise as if they were rows."""
    p = made(20)
    copies = Predictions.from_logits(
        np.repeat(p.scores, 50, axis=0), np.repeat(p.labels, 50),
        groups={"sentence": np.repeat(np.arange(20), 50)},
    )  # fmt: skip
    assert guarantee(copies, coverage=0.9).thresholds == guarantee(p, coverage=0.9).thresholds
    assert "one row of a new sentence" in guarantee(copies, coverage=0.9).promise


def test_in_groups_the_promise_is_about_one_row_of_a_group_not_about_all_rows():
    """Long documents are hard here: rows weigh them more than the promise does."""
    random = np.random.default_rng(0)
    size = random.choice([1, 30], 2000)
    document = np.repeat(np.arange(2000), size)
    labels = random.integers(0, 4, len(document))
    signal = np.where(size[document] == 1, 8.0, 0.5)[:, None] * np.eye(4)[labels]
    logits = signal + random.normal(size=(len(labels), 4))
    p = Predictions.from_logits(logits, labels, groups={"document": document})
    valid, test = p[document < 1000], p[document >= 1000]
    policy = guarantee(valid, coverage=0.8)
    covered = policy.sets(test)[np.arange(len(test)), test.labels]
    per_document = np.bincount(document[document >= 1000], covered)[1000:] / size[1000:]
    assert per_document.mean() > 0.77
    assert covered.mean() < 0.75
    assert "long and short sentences" not in policy.promise
    assert "long and short documents count alike" in policy.promise


@pytest.mark.parametrize("rows", [1, 3, 7, 60, 61])
@pytest.mark.parametrize("randomised", [False, True])
def test_chunks_do_not_matter(rows, randomised):
    """Sizes around every chunk: 60 rows of 4 classes in parts of this many rows."""
    p, options = made(60), {"randomised": randomised, "seed": 2}
    whole = conformity_scores(p, "raps", **options)
    options["chunk"] = 4 * rows
    np.testing.assert_array_equal(conformity_scores(p, "raps", **options), whole)
    own = conformal.true_scores(p, "raps", **options)
    np.testing.assert_array_equal(own, whole[np.arange(60), p.labels])
    expected = whole <= 0.7 + 1e-9
    np.testing.assert_array_equal(
        prediction_sets(p, np.full(4, 0.7), score="raps", **options), expected
    )


def test_tensors_and_half_precision():
    torch = pytest.importorskip("torch")
    p = made()
    tensors = Predictions.from_logits(torch.tensor(p.scores), torch.tensor(p.labels))
    policy = guarantee(p, coverage=0.9)
    assert guarantee(tensors, coverage=0.9).thresholds["*"] == pytest.approx(policy.thresholds["*"])
    assert (policy.sets(tensors) == policy.sets(p)).all()
    half = Predictions.from_logits(p.scores.astype(np.float16), p.labels)
    threshold = guarantee(half, coverage=0.9).thresholds["*"]
    assert threshold == pytest.approx(policy.thresholds["*"], abs=0.01)


def test_unknown_score():
    with pytest.raises(InputError, match="Did you mean 'raps'"):
        guarantee(made(), coverage=0.9, score="rapss")


def test_thresholds_of_classes():
    p = Predictions.from_probabilities([[0.5, 0.2, 0.3]], [0])
    assert prediction_sets(p, np.array([0.4, 0.9, 0.7])).tolist() == [[False, True, True]]


def test_sets_of_an_array_are_refused_in_one_line():
    labels = np.arange(60) % 3
    scores = np.full((60, 3), 0.1) + 0.7 * np.eye(3)[labels]
    policy = guarantee(Predictions.from_probabilities(scores, labels), coverage=0.9)
    for given in (scores, Claims.from_top_label(labels, scores.max(axis=1), labels)):
        with pytest.raises(InputError, match="This policy takes Predictions, got"):
            policy.sets(given)
