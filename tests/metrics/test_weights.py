"""Sample weights: what holds for every metric of the table, and against scikit-learn."""

import numpy as np
import pytest
from metric_loops import sample

from calibrant import Claims, InputError, Predictions
from calibrant.auditing import audit
from calibrant.metrics import (
    METRICS,
    Bins,
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    TopBins,
    accumulate,
    accuracy,
    adaptive_classwise_ece,
    assign_blocks,
    aurc,
    auroc,
    bootstrap_interval,
    brier,
    chance_ece,
    confidences,
    debiased_rms_ece,
    e_aurc,
    ece,
    entity_f1,
    mean_confidence,
    measure,
    nll,
)
from calibrant.metrics.class_sums import ClassSums
from calibrant.metrics.top_bins import top_bins

KINDS = ("classes", "pixels", "binary", "labels")
WEIGHTED = [row.name for row in METRICS.values() if row.weighted]


def _weights(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, n).astype(float)


def _example(kind: str) -> Predictions | Claims:
    rng = np.random.default_rng(7)
    if kind == "labels":
        p = rng.random((60, 3)).round(2)
        return Claims.from_multi_label(p, rng.random((60, 3)) < p**2)
    if kind == "binary":
        p = rng.random(80).round(2)
        return Predictions.from_probabilities(p, (rng.random(80) < p).astype(int))
    if kind == "pixels":
        groups = {"image": np.arange(80) // 20, "border": np.arange(80) % 3 == 0}
        return Predictions.from_logits(
            rng.normal(size=(80, 3)), rng.integers(0, 3, 80), groups=groups
        )
    return sample("ties")


def _with(p: Predictions | Claims, weights: np.ndarray) -> Predictions | Claims:
    """Return the same rows with weights; of multi-label claims, each example has one weight."""
    if isinstance(p, Claims):
        each = weights[p.groups["example"]]
        kept = p[each > 0]
        return Claims(**{**vars(kept), "weights": each[each > 0]})
    options = {"groups": p.groups, "weights": weights}
    make = Predictions.from_logits if p.kind == "logits" else Predictions.from_probabilities
    return make(p.scores, p.labels, **options)


def _repeated(p: Predictions | Claims, weights: np.ndarray) -> Predictions | Claims:
    each = weights[p.groups["example"]] if isinstance(p, Claims) else weights
    if not isinstance(p, Claims):
        return p[np.repeat(np.arange(len(p)), each.astype(int))]
    # A repeated example is another example: its claims stay together.
    copies = []
    for number in range(int(each.max())):
        part = p[each > number]
        groups = {"example": part.groups["example"] + 1000 * number}
        copies.append(Claims(**{**vars(part), "groups": groups}))
    return Claims.concatenate(copies)


def _size(p: Predictions | Claims) -> int:
    return int(p.groups["example"].max()) + 1 if isinstance(p, Claims) else len(p)


def _numbers(p: Predictions | Claims, kind: str) -> dict[str, float]:
    found = measure(p, [kind])
    if kind == "classes" and isinstance(p, Predictions):
        found["adaptive_classwise_ece"] = adaptive_classwise_ece(p)
    return found


def _assert_same(mine: dict[str, float], theirs: dict[str, float]) -> None:
    names = [name for name in theirs if METRICS[name].weighted]
    assert names
    for name in names:
        assert mine[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repeated_rows(kind: str) -> None:
    p = _example(kind)
    w = _weights(_size(p))
    _assert_same(_numbers(_with(p, w), kind), _numbers(_repeated(p, w), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_one_are_none(kind: str) -> None:
    p = _example(kind)
    _assert_same(_numbers(_with(p, np.ones(_size(p))), kind), _numbers(p, kind))


@pytest.mark.parametrize("factor", [1e-3, 0.1, 7.3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_weights_does_not_matter(kind: str, factor: float) -> None:
    p = _example(kind)
    w = _weights(_size(p), 1)
    _assert_same(_numbers(_with(p, factor * w), kind), _numbers(_with(p, w), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_weight_zero_removes_the_row(kind: str) -> None:
    p = _example(kind)
    w = (_weights(_size(p)) > 1).astype(float)
    _assert_same(_numbers(_with(p, w), kind), _numbers(_repeated(p, w), kind))


def test_every_metric_with_weights_is_met_here() -> None:
    met = {name for kind in KINDS for name in _numbers(_example(kind), kind)}
    assert set(WEIGHTED) <= met | {"adaptive_classwise_ece"}


@pytest.mark.parametrize("metric", [debiased_rms_ece, e_aurc, entity_f1])
def test_metrics_that_count_examples_refuse_weights(metric) -> None:
    names = ["O", "B-X", "I-X"]
    p = Predictions.from_logits(np.eye(3), [0, 1, 2], label_names=names, weights=[1, 2, 1])
    with pytest.raises(InputError, match="weights"):
        metric(p)
    assert {"debiased_rms_ece", "e_aurc"}.isdisjoint(measure(p))


def test_against_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(4), 300)
    y, w = rng.integers(0, 4, 300), rng.random(300)
    ours = Predictions.from_probabilities(p, y, weights=w)
    right = p.argmax(1) == y
    assert accuracy(ours) == pytest.approx(sklearn.accuracy_score(y, p.argmax(1), sample_weight=w))
    assert nll(ours) == pytest.approx(sklearn.log_loss(y, p, sample_weight=w))
    assert auroc(ours) == pytest.approx(sklearn.roc_auc_score(right, p.max(1), sample_weight=w))
    squares = np.square(p - np.eye(4)[y]).sum(1)
    assert brier(ours) == pytest.approx(np.average(squares, weights=w))
    assert mean_confidence(ours) == pytest.approx(np.average(p.max(1), weights=w))


def test_ece_by_a_plain_loop() -> None:
    rng = np.random.default_rng(4)
    c, w = rng.random(200), rng.random(200)
    a = rng.random(200) < c**2
    claims = Claims.from_top_label(None, c, correct=a, weights=w)
    total = 0.0
    for low in np.arange(15) / 15:
        rows = (c > low) & (c <= low + 1 / 15)
        total += abs(sum(w[rows] * (a[rows] - c[rows])))
    assert ece(claims) == pytest.approx(total / w.sum())


def test_states_add_up_and_are_read_again() -> None:
    p = _with(sample("logits64"), _weights(len(sample("logits64"))) + 0.5)
    whole, parts = accumulate(p), accumulate(p[:7]) + accumulate(p[7:])
    assert ece(whole) == pytest.approx(ece(parts))
    for again in (
        CalibrationState.from_json(whole.to_json()),
        CalibrationState.from_bytes(whole.to_bytes()),
    ):
        assert again.weighted
        assert ece(again) == ece(whole)
    sketch = ConfidenceSketch.of(p)
    assert auroc(ConfidenceSketch.from_bytes(sketch.to_bytes())) == pytest.approx(
        auroc(p), abs=0.01
    )
    each = confidences(p)
    assert aurc(Confidences.from_json(each.to_json())) == aurc(p)
    assert aurc(each[:5] + each[5:]) == pytest.approx(aurc(p))
    with pytest.raises(InputError, match="weights"):
        whole + accumulate(sample("logits64"))


def test_top_bins_and_class_sums_are_the_state() -> None:
    p = _with(sample("logits32"), _weights(len(sample("logits32")), 2) + 0.25)
    state = accumulate(p)
    assert np.allclose(top_bins(p).top_count, state.top_count)
    sums = ClassSums(p.classes, Bins(), 10, weighted=True)
    sums.add(p, np.arange(len(p)) % 10)
    for name in ("class_count", "class_confidence", "class_correct"):
        assert np.allclose(getattr(sums.total(), name), getattr(state, name)), name


def test_tensors_are_weighted_alike() -> None:
    torch = pytest.importorskip("torch")
    from calibrant.metrics.tensors import add_tensors

    p = _with(sample("logits32"), _weights(len(sample("logits32")), 2) + 0.25)
    tensors = Predictions(torch.as_tensor(p.scores), p.labels, p.kind, weights=p.weights)
    state = CalibrationState.empty(p.classes, Bins(), blocks=(1,), weighted=True)
    add_tensors(state, tensors, None)
    for name in CalibrationState.SUMS[2:]:
        assert np.allclose(getattr(state.total(), name), getattr(accumulate(p), name)), name


def test_intervals_do_not_depend_on_the_scale() -> None:
    rng = np.random.default_rng(5)
    c, w = rng.uniform(0.5, 1, 400), rng.random(400)
    a = rng.random(400) < c
    for metric in (ece, auroc, accuracy):
        bounds = [
            bootstrap_interval(
                metric,
                Claims.from_top_label(None, c, correct=a, weights=factor * w),
                replicates=100,
            )
            for factor in (1.0, 1e-4)
        ]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


def test_intervals_of_unequal_weights_are_wider() -> None:
    rng = np.random.default_rng(6)
    c, heavy = rng.uniform(0.5, 1, 400), np.where(np.arange(400) < 20, 40.0, 1.0)
    a = rng.random(400) < c

    def width(weights: np.ndarray) -> float:
        low, high = bootstrap_interval(
            accuracy, Claims.from_top_label(None, c, correct=a, weights=weights)
        )
        return high - low

    assert width(heavy) > 2 * width(np.ones(400))


def test_chance_of_weighted_examples() -> None:
    rng = np.random.default_rng(8)
    c = rng.uniform(0.5, 1, 3000)
    claims = Claims.from_top_label(None, c, correct=rng.random(3000) < c)
    equal = Claims(**{**vars(claims), "weights": np.full(3000, 0.01)})
    assert chance_ece(equal)[1] == pytest.approx(chance_ece(claims)[1], rel=0.25)
    with pytest.raises(InputError, match="blocks"):
        chance_ece(accumulate(equal))


def test_an_audit_counts_by_weight() -> None:
    rng = np.random.default_rng(9)
    logits, w = rng.normal(size=(600, 3)), rng.integers(0, 4, 600)
    y, site = rng.integers(0, 3, 600), np.arange(600) % 2
    weighted = Predictions.from_logits(logits, y, groups={"site": site}, weights=0.1 * w)
    again = Predictions.from_logits(logits, y, groups={"site": site})[np.repeat(np.arange(600), w)]
    mine, theirs = audit(weighted, bootstrap=0, per="site"), audit(again, bootstrap=0, per="site")
    for measured in mine.measures:
        if METRICS[measured.name].weighted:
            assert measured.value == pytest.approx(theirs[measured.name].value), measured.name
    assert float(mine.state.n) == pytest.approx(len(weighted))
    assert mine.per[0].rows[0].ece == pytest.approx(theirs.per[0].rows[0].ece)
    assert any("sample weights" in sentence for sentence in mine.verdict)
    assert mine.provenance["effective_n"] < len(weighted)


def test_a_verdict_does_not_mistake_weights_for_examples() -> None:
    # Twenty heavy rows that are wrong are twenty rows of evidence, not two thousand.
    rng = np.random.default_rng(10)
    c = rng.uniform(0.6, 0.9, 60)
    claims = Claims.from_top_label(None, c, correct=rng.random(60) < c)
    heavy = Claims(**{**vars(claims), "weights": np.full(60, 1000.0)})
    light = audit(claims, bootstrap=0).verdict[0]
    assert ("Overconfident" in audit(heavy, bootstrap=0).verdict[0]) == ("Overconfident" in light)


def test_blocks_are_those_of_the_rows() -> None:
    p = _with(sample("logits64"), np.ones(len(sample("logits64"))))
    block = assign_blocks(p)
    state = accumulate(p, block=block, blocks=1000)
    assert np.array_equal(state.n, np.bincount(block, minlength=1000))


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_bins_from_arrays(monkeypatch, kernels, dtype):
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, (500, 4)).astype(dtype)
    labels, weights = random.integers(-1, 4, 500), random.gamma(1, 1, 500)
    labels[labels < 0], weights[::5] = -100, 0
    whole = accumulate(Predictions.from_logits(logits, labels, weights=weights))
    cuts = (slice(0, 100), slice(100, 500))
    found = sum(TopBins.from_logits(logits[r], labels[r], weights=weights[r]) for r in cuts)
    assert (found.weighted, found.ignored) == (True, whole.ignored)
    for name in ("top_count", "top_confidence", "top_correct"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12)
    with pytest.raises(InputError, match="with and without"):
        found + TopBins.from_logits(logits, labels)
