"""Multi-label predictions: K independent probabilities, per label, pooled, and the top label."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import (
    Claims,
    InputError,
    Predictions,
    audit,
    ece,
    guarantee,
    load_calibrator,
    read,
    write_report,
)
from calibrant.calibrators import Platt, ShrunkPlatt
from calibrant.cli import main
from calibrant.metrics import classwise_ece, measure, nll

NAMES = tuple(f"L{k}" for k in range(8))


def table(n: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels from frequent to rare, each with its own slope."""
    random = np.random.default_rng(seed)
    odds = 2 * random.normal(size=(n, 8)) + np.log(np.geomspace(0.4, 0.004, 8))
    true = random.random((n, 8)) < 1 / (1 + np.exp(-odds * np.linspace(0.5, 1.5, 8)))
    return 1 / (1 + np.exp(-odds)), true


def claims(n: int = 800, seed: int = 0) -> Claims:
    return Claims.from_multi_label(*table(n, seed), label_names=NAMES)


@pytest.mark.parametrize("n", [1, 300, 8191, 8192, 8193])  # Eight labels: chunks of 65,536 claims.
def test_pooled_and_per_label_are_those_of_binary_predictions(n: int) -> None:
    p, y = table(n)
    found = measure(Claims.from_multi_label(p, y))
    per_label = [
        ece(Claims.of_positive(Predictions.from_probabilities(p[:, k], y[:, k]))) for k in range(8)
    ]
    assert found["classwise_ece"] == pytest.approx(np.mean(per_label))
    pooled = Claims.of_positive(Predictions.from_probabilities(p.ravel(), y.ravel()))
    for name in ("ece", "nll", "brier", "auroc", "smooth_ece", "adaptive_ece"):
        assert found[name] == pytest.approx(measure(pooled)[name], nan_ok=True), name
    best = p.argmax(axis=1)
    assert found["top_accuracy"] == pytest.approx(y[np.arange(n), best].mean())
    assert found["top_confidence"] == pytest.approx(p.max(axis=1).mean())


def test_scikit_learn_lists_and_names() -> None:
    p, y = table(20)
    pairs = [np.stack([1 - column, column], axis=1) for column in p.T]
    lists = [[name for name, here in zip(NAMES, row, strict=True) if here] for row in y]
    expected = Claims.from_multi_label(p, y, label_names=NAMES)
    for scores, labels in ((pairs, y), (p, lists), (p, y.astype(float)), (p.tolist(), y.tolist())):
        found = Predictions.from_multi_label(scores, labels, label_names=NAMES)
        assert np.allclose(found.confidence, expected.confidence)
        assert found.correct.tolist() == expected.correct.tolist()
    partly = y.astype(float)
    partly[0, :3] = np.nan
    found = Claims.from_multi_label(p, partly)
    assert (len(found), found.unlabelled) == (157, 3)


def test_rare_labels_get_nearly_the_shared_map() -> None:
    valid, test = claims(1500, 1), claims(6000, 2)
    shrunk, pooled = ShrunkPlatt().fit(valid), Platt().fit(valid)
    own, shared = shrunk.coefficients_[:-1], shrunk.coefficients_[-1]
    truth = np.linspace(0.5, 1.5, 8)
    assert (
        np.abs(own[:4, 0] - truth[:4]).max() < 0.2
    )  # Frequent labels have calibrators of their own.
    assert shrunk.spread_[0] > 0.1
    losses = [nll(m.transform(test)) for m in (shrunk, pooled)]
    assert losses[0] < losses[1] < nll(test)
    assert classwise_ece(shrunk.transform(test)) < classwise_ece(pooled.transform(test)) / 2
    few = ShrunkPlatt().fit(valid[valid.groups["example"] < 40])  # Chance explains what differs.
    rare = few.coefficients_[7] - few.coefficients_[-1]
    assert np.abs(rare).max() < np.abs(own[7] - shared).max() + 0.5


@pytest.mark.parametrize("shares", [(0.9, 1.0), (1.0, 0.0), (0.9, 0.8, 0.0), (0.0, 0.9)])
def test_a_label_that_always_or_never_came_true_keeps_its_own_rate(shares: tuple[float]) -> None:
    n = 500
    label = np.repeat([f"L{k}" for k in range(len(shares))], n)
    right = np.concatenate([np.arange(n) < share * n for share in shares])
    confidence = np.tile(np.linspace(0.05, 0.95, 100), len(label) // 100)  # Tells nothing.
    top = Claims.from_top_label(label, confidence, correct=right)
    for given in (top, replace(top, weights=np.full(len(top), 1.0))):
        mapped = ShrunkPlatt().fit(given).transform(given).confidence
        means = mapped.reshape(len(shares), n).mean(axis=1)
        np.testing.assert_allclose(means, shares, atol=0.01)


def test_a_few_right_ones_of_a_label_say_little() -> None:
    label = np.array(["a"] * 200 + ["b"] * 5)
    right = np.append(np.arange(200) < 160, [True] * 5)
    top = Claims.from_top_label(label, np.full(205, 0.7), correct=right)
    mapped = ShrunkPlatt().fit(top).transform(top).confidence
    np.testing.assert_allclose(mapped, 165 / 205, atol=1e-3)


def test_labels_that_are_alike_share_one_map() -> None:
    random = np.random.default_rng(0)
    odds = 2 * random.normal(size=(2000, 6))
    y = random.random((2000, 6)) < 1 / (1 + np.exp(-odds / 2))
    fitted = ShrunkPlatt().fit(Claims.from_multi_label(1 / (1 + np.exp(-odds)), y))
    assert np.abs(fitted.coefficients_[:, 0] - 0.5).max() < 0.06
    assert (fitted.spread_ < 0.06).all()


def test_an_unseen_label_gets_the_shared_map(tmp_path: Path) -> None:
    fitted = ShrunkPlatt().fit(claims())
    fitted.save(tmp_path / "map.json")
    fitted = load_calibrator(tmp_path / "map.json")
    new = Claims.from_multi_label([[0.3, 0.3]], [[0, 1]], label_names=["L0", "new"])
    mapped = fitted.transform(new).confidence
    odds, shared = np.log(0.3 / 0.7), fitted.learned()["coefficients_"][-1]
    assert mapped[1] == pytest.approx(1 / (1 + np.exp(-shared[0] * odds - shared[1])))
    assert mapped[0] != mapped[1]


def test_top_labels_by_predicted_label() -> None:
    """Of top labels, the calibrator of each predicted label."""
    random = np.random.default_rng(0)
    label, c = random.integers(0, 2, 4000), random.uniform(0.5, 1, 4000)
    right = random.random(4000) < np.where(label == 0, c, c**3)
    top = Claims.from_top_label(np.array(["a", "b"])[label], c, correct=right)
    mapped = ShrunkPlatt().fit(top).transform(top)
    for k in (0, 1):
        assert ece(mapped[label == k]) < 0.06
    assert ece(top[label == 1]) > 0.1


def test_audit() -> None:
    found = audit(claims(), bootstrap=50)
    assert found.top is not None
    assert found.provenance["keep_together"] == "example"
    # A label that is given 10 % and does not apply is no wrong prediction.
    words = " ".join(found.verdict)
    assert "of them apply" in words
    assert "of the labels lie in the most confident one" in words
    assert "is right" not in words
    assert {row.name for row in found.classes} == set(NAMES)
    parts = audit((claims()[i : i + 1600] for i in range(0, 6400, 1600)), bootstrap=0)
    for name in ("ece", "classwise_ece", "top_ece", "auroc"):
        assert parts[name].value == pytest.approx(found[name].value), name


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([0.5, 0.6], [1, 0], r"probabilities of shape \(n, K\), got shape \(2,\)"),
        ([[0.5, 1.6]], [[1, 0]], "must be in 0..1, got 1.6"),
        ([[0.5, 0.6]], [[1, 0, 1]], "labels of shape"),
        ([[0.5, 0.6]], [[1, 2]], "'labels' must hold true and false, or 1 and 0, got 2"),
        ([[0.5, 0.6]], [["x"]], "Label 'x' at row 0 is not one of the label names"),
        ([[0.5, 0.6]], [], "labels of shape"),
    ],
)
def test_bad_arguments(scores: Any, labels: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Claims.from_multi_label(scores, labels)


def save(path: Path, n: int, seed: int) -> Path:
    p, y = table(n, seed)
    if path.suffix == ".npz":
        np.savez(path, probabilities=p, labels=y.astype(int), label_names=np.array(NAMES))
    elif path.suffix == ".jsonl":
        rows = [
            {"probabilities": dict(zip(NAMES, a, strict=True)), "label": [int(v) for v in b]}
            for a, b in zip(p.tolist(), y, strict=True)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        head = [f"{what}:{name}" for what in ("probabilities", "label") for name in NAMES]
        lines = [",".join(map(str, (*a, *b))) for a, b in zip(p.tolist(), y.tolist(), strict=True)]
        path.write_text("\n".join([",".join(head), *lines]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".npz", ".jsonl", ".csv"])
def test_files_and_commands(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    valid, test = save(tmp_path / f"v{suffix}", 400, 1), save(tmp_path / f"t{suffix}", 300, 2)
    found = read(test, kind="multi-label")
    assert isinstance(found, Claims)
    expected = claims(300, 2)
    assert np.allclose(found.confidence, expected.confidence)
    assert (found.correct == expected.correct).all()
    assert found.names == NAMES
    kind, fitted, out = ["--kind", "multi-label"], str(tmp_path / "m.json"), tmp_path / f"o{suffix}"
    assert main(["audit", str(test), *kind, "--bootstrap", "50"]) == 0
    assert "Top-label ECE" in capsys.readouterr().out
    options = ["--calibrator", "shrunk-platt", "-o", fitted]
    assert main(["fit", str(valid), *kind, *options]) == 0
    assert main(["apply", fitted, str(test), *kind, "-o", str(out)]) == 0
    mapped, direct = read(out, kind="multi-label"), load_calibrator(fitted).transform(found)
    assert np.allclose(mapped.confidence, direct.confidence)  # type: ignore[union-attr]


def test_a_label_that_is_no_list(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", probabilities=np.full((3, 2), 0.5), label=[0, 1, 1])
    with pytest.raises(InputError, match="'label' must hold a list of 0 and 1 in each row"):
        read(tmp_path / "p.npz", kind="multi-label")


def test_mistakes_and_sentences_are_about_examples() -> None:
    """A row of the file has one claim per label; findings are labels that apply."""
    random = np.random.default_rng(0)
    p = random.uniform(0.05, 0.95, (400, 3))
    labels = (random.random(p.shape) < np.stack([p[:, 0], p[:, 1] ** 3, p[:, 2]], 1)).astype(float)
    labels[7, 0] = np.nan
    site = np.array(["N", "S"])[np.arange(400) % 2]
    claims = Claims.from_multi_label(p, labels, label_names=list("xyz"), groups={"site": site})
    found = audit(claims, bootstrap=0)
    for mistake in found.mistakes:
        assert mistake.row == mistake.groups["example"]
        assert p[mistake.row, "xyz".index(mistake.predicted)] == mistake.confidence
    words = " ".join(found.verdict)
    assert "'y', given " in words
    assert "the label of" in words
    assert "right" not in words


def test_the_list_of_a_multi_output_classifier() -> None:
    multioutput = pytest.importorskip("sklearn.multioutput")
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X + rng.normal(size=X.shape) > 0).astype(int)
    found = multioutput.MultiOutputClassifier(LogisticRegression()).fit(X, Y).predict_proba(X)
    claims = Claims.from_multi_label(found, Y)
    assert claims.confidence.reshape(60, 3)[:, 1].tolist() == found[1][:, 1].tolist()
    with pytest.raises(InputError, match="label 0 has shape"):
        Claims.from_multi_label([found[0][:, :1], *found[1:]], Y)
    with pytest.raises(InputError, match="from_multi_label"):
        Predictions.from_probabilities(found, Y)


def test_labels_are_not_called_examples(tmp_path) -> None:
    """Sixty examples of three labels each: what is counted, ignored and weighted are labels."""
    random = np.random.default_rng(0)
    scores = random.uniform(0.05, 0.95, (60, 3))
    truth = (random.random((60, 3)) < scores).astype(float)
    truth[0, 1] = -100
    found = audit(Claims.from_multi_label(scores, truth), bootstrap=0)
    assert "1 label of −100 was ignored." in found.verdict
    assert "179 labels · 3 classes" in write_report(found, tmp_path / "audit.html").read_text()
    truth[0, :2] = np.nan
    found = audit(Claims.from_multi_label(scores, truth), bootstrap=0)
    assert "2 labels without a value were left out." in found.verdict
    found = audit(Claims.from_multi_label(scores, truth, weights=np.arange(60) + 1), bootstrap=0)
    [weights] = [text for text in found.verdict if "weight;" in text]
    assert weights.startswith("Labels count by the sample weights of their examples")


def test_top_labels_leave_out_examples_with_an_unknown_label() -> None:
    """The unknown label may be the most probable one: the next one is no top label."""
    scores = [[0.9, 0.2], [0.9, 0.6], [0.3, 0.8]]
    claims = Claims.from_multi_label(scores, [[1, 0], [np.nan, 0], [0, 1]])
    top = claims.top_labels()
    assert (top.confidence.tolist(), top.groups["example"].tolist()) == ([0.9, 0.8], [0, 2])
    found = audit(claims, bootstrap=0)
    assert found.top is not None
    assert {m.name: m.value for m in found.top.measures}["top_accuracy"] == 1
    assert any("only the examples whose labels are all known" in text for text in found.verdict)
    none = audit(Claims.from_multi_label(scores, [[1, -100]] * 3), bootstrap=0)
    assert none.top is None
    assert any("no view of top labels" in text for text in none.verdict)


@pytest.mark.parametrize("names", [[0, 1, 2], ["x", "y", "z"]])
def test_parts_that_each_count_from_zero_keep_their_examples_apart(names: list[Any]) -> None:
    parts = [
        Claims.from_multi_label(p, y, groups={"example": names[: len(p)]})
        for p, y in (
            ([[0.9, 0.2], [0.4, 0.7]], [[1, 0], [1, 0]]),
            ([[0.1, 0.8], [0.6, 0.5], [0.3, 0.2]], [[0, 1], [0, 1], [1, 1]]),
        )
    ]
    joined = Claims.concatenate(parts)
    apart = [part.top_labels() for part in parts]
    top = joined[np.random.default_rng(0).permutation(len(joined))].top_labels()
    assert sorted(top.confidence) == sorted(c for part in apart for c in part.confidence)
    assert joined.top_labels().correct.sum() == sum(part.correct.sum() for part in apart)
    assert measure(joined)["top_accuracy"] == 0.6
    found = [audit(source, bootstrap=0).top for source in (joined, parts)]
    assert [int(view.state.n) for view in found if view is not None] == [5, 5]


def test_top_labels_of_missing_labels_keep_their_accuracy() -> None:
    """Labels that are missing at random change no number but by chance."""
    random = np.random.default_rng(0)
    scores = random.uniform(0, 1, (4000, 5))
    truth = (random.random(scores.shape) < scores).astype(float)
    top = scores.argmax(axis=1)
    right = truth[np.arange(4000), top].mean()
    truth[random.random(truth.shape) < 0.1] = np.nan
    found = Claims.from_multi_label(scores, truth).top_labels()
    assert found.correct.mean() == pytest.approx(right, abs=0.02)
    complete = ~np.isnan(truth).any(axis=1)
    assert found.confidence.tolist() == scores.max(axis=1)[complete].tolist()


def test_prediction_sets_are_refused_in_words_that_name_what_they_need():
    p = Claims.from_multi_label([[0.9, 0.3], [0.2, 0.6]] * 50, [[1, 0], [0, 1]] * 50)
    expected = "all classes of examples with one label each, got multi-label predictions"
    with pytest.raises(InputError, match=expected):
        guarantee(p, coverage=0.9)
    with pytest.raises(InputError, match=expected):
        guarantee(p, max_missed=0.1)


def test_log_loss_of_labels_is_not_that_of_unknown_classes():
    """Each label applies or not, and its probability is known."""
    found = audit(claims(), bootstrap=0)
    assert not any("not known" in measure.meaning for measure in found.measures)
    top = Claims.from_top_label([0, 1], [0.9, 0.8], correct=[True, False])
    assert "right or wrong" in audit(top, bootstrap=0)["nll"].meaning
