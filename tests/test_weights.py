"""Sample weights of predictions and claims: kept with their rows, checked once."""

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions, audit, compare, write_report
from calibrant.cli import main


def test_weights_stay_with_their_rows() -> None:
    p = Predictions.from_probabilities([0.9, 0.8, 0.7, 0.6], [1, -100, 0, 1], weights=[1, 5, 0, 2])
    assert p.weights.tolist() == [1, 2]
    assert (len(p), p.ignored, p.rows.tolist()) == (2, 2, [0, 3])
    assert p[1:].weights.tolist() == [2]
    assert p[np.array([True, False])].weights.tolist() == [1]
    assert Predictions.concatenate([p, p]).weights.tolist() == [1, 2, 1, 2]
    assert p.with_scores(p.scores, "probabilities").weights.tolist() == [1, 2]
    assert [part.weights.tolist() for part in p.chunks(1)] == [[1], [2]]
    assert Claims.of_positive(p).weights.tolist() == [1, 2]
    assert Claims.of_positive(p).binary().weights.tolist() == [1, 2]


def test_examples_of_weight_0_are_not_called_labelled(tmp_path) -> None:
    random = np.random.default_rng(0)
    scores, labels = random.uniform(0.1, 0.9, 300), random.integers(0, 2, 300)
    found = audit(
        Predictions.from_probabilities(scores, labels, weights=np.arange(300) % 4), bootstrap=0
    )
    assert "75 examples labelled −100 or of weight 0 were ignored." in found.verdict
    page = write_report(found, tmp_path / "audit.html").read_text("utf-8")
    assert "75 ignored (label −100 or weight 0)" in page


def test_counts_of_weighted_examples_are_rounded(tmp_path) -> None:
    """Sums of weights that are scaled to 60 may be 59.999…: no example is lost."""
    for seed in (7, 16, 17, 18):
        random = np.random.default_rng(seed)
        scores, weights = random.uniform(0.05, 0.95, 60), random.gamma(1, 1, 60)
        labels = (random.random(60) < scores).astype(int)
        found = audit(Predictions.from_probabilities(scores, labels, weights=weights), bootstrap=0)
        page = write_report(found, tmp_path / f"{seed}.html").read_text("utf-8")
        assert "60 examples" in page
        assert "59 examples" not in page
        assert "n = 59" not in page


def test_the_identity_changes_no_accuracy_of_weighted_examples() -> None:
    random = np.random.default_rng(3)
    scores, labels = random.normal(size=(900, 3)), random.integers(0, 3, 900)
    p = Predictions.from_logits(scores, labels, weights=random.gamma(0.7, 2, 900))
    for start in (100, 200, 300):  # Sums in another order differ for some.
        found = compare(p[:start], p[start:], ["temperature"], bootstrap=100)
        assert [row.accuracy_change for row in found.rows] == [0, 0]


def test_claims_keep_weights() -> None:
    claims = Claims.from_top_label(
        list("aab"), [0.9, 0.8, 0.7], ["a", None, "b"], weights=[1, 5, 2]
    )
    assert claims.weights.tolist() == [1, 2]
    assert claims[[1]].weights.tolist() == [2]
    assert Claims.concatenate([claims, claims]).weights.tolist() == [1, 2, 1, 2]
    many = Claims.from_multi_label([[0.9, 0.1], [0.2, 0.7]], [[1, 0], [0, 1]], weights=[1, 3])
    assert many.weights.tolist() == [1, 1, 3, 3]
    assert many.top_labels().weights.tolist() == [1, 3]


def test_weights_of_sentences() -> None:
    scores, labels = np.zeros((2, 3, 2)), np.zeros((2, 3), int)
    one_each = Predictions.from_logits(scores, labels, weights=[1, 2])
    assert one_each.weights.tolist() == [1, 1, 1, 2, 2, 2]
    by_word = Predictions.from_logits(scores, labels, weights=np.arange(6).reshape(2, 3))
    assert by_word.weights.tolist() == [1, 2, 3, 4, 5]


def test_tensors_have_weights_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    p = Predictions.from_logits(scores, torch.tensor([0, 1]), weights=torch.tensor([0.0, 2.0]))
    assert p.weights.tolist() == [2]
    assert torch.is_tensor(p.scores)
    assert len(p.scores) == 1


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, -1], "at least 0, got -1"),
        ([1, np.nan], "got nan at row 1"),
        ([np.inf, 1], "got inf at row 0"),
        ([0, 0], "All weights are 0"),
        ([1], "one value per example"),
        ([[1], [2]], "one value per example"),
        (["a", "b"], "numbers"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda w: Predictions.from_probabilities([0.9, 0.2], [1, 0], weights=w),
        lambda w: Claims.from_top_label(None, [0.9, 0.2], correct=[1, 0], weights=w),
    ],
    ids=["predictions", "claims"],
)
def test_bad_weights_are_one_line(make, weights: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make(weights)
    assert "\n" not in str(caught.value)


def test_weights_in_all_parts_or_in_none() -> None:
    p = Predictions.from_probabilities([0.9], [1])
    with pytest.raises(InputError, match="weights in all parts, or in none"):
        Predictions.concatenate([p, Predictions.from_probabilities([0.9], [1], weights=[1])])


@pytest.mark.parametrize("rows", [1, 3])
def test_an_audit_of_one_weighted_group_says_that_it_is_too_few(rows):
    """One example with a weight, or one sentence, was refused with a line about states."""
    options = {"groups": {"sentence": np.zeros(rows, int)}}
    p = Predictions.from_probabilities(
        np.full((rows, 2), [0.9, 0.1]), [0] * rows, weights=np.full(rows, 2.5), **options
    )
    found = audit(p, bootstrap=100)
    assert found.verdict[0].startswith("Too few examples to tell")
    one = Predictions.from_probabilities([[0.9, 0.1]], [0])
    same = Predictions.from_probabilities([[0.9, 0.1]], [0], weights=[2.5])
    assert audit(same, bootstrap=0).measures[0].value == audit(one, bootstrap=0).measures[0].value


def test_all_that_can_be_kept_is_exactly_all(tmp_path, capsys) -> None:
    """Sums of weights differ in their last digit by their order."""
    random = np.random.default_rng(0)
    for seed in range(20):
        n, scores = 500 + seed, random.uniform(0.5, 1, 520)
        weights = random.uniform(0.1, 3, n)
        p = Predictions.from_probabilities(scores[:n], np.ones(n, int), weights=weights)
        found = audit(p, bootstrap=0)
        assert [point.coverage for point in found.at_risk] == [1.0] * 5
    page = write_report(found, tmp_path / "audit.html").read_text("utf-8")
    assert "99.9999 %" not in page
    assert page.count('<td class="number">100 %</td>') >= 5
    path = tmp_path / "p.csv"
    rows = zip(scores[:n], weights, strict=True)
    path.write_text("y_prob,y_true,weight\n" + "".join(f"{s},yes,{w}\n" for s, w in rows))
    (tmp_path / "names").write_text("no\nyes\n")
    command = ["audit", str(path), "--labels", str(tmp_path / "names"), "--bootstrap", "0"]
    assert main([*command, "--positive", "yes"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count("100 %") >= 5
