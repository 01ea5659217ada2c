"""``guarantee``: rows, entities, types, units, missed entities, and bad input."""

import math

import numpy as np
import pytest

from calibrant import Predictions, Temperature, guarantee, load_policy
from calibrant.errors import InputError
from calibrant.metrics import entity_confidences
from calibrant.policies import Items, guarantee_items
from calibrant.policies.learning import floored_scores, with_floor
from calibrant.policies.missed import FLOOR, REVIEW_THRESHOLDS, entity_reach, review_threshold
from calibrant.policies.risk import THRESHOLDS, find_threshold

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
WORDS = {0: [0], 1: [1], 2: [3, 4], 3: [1, 2]}


def tagged(sentences=300, seed=0, noise=1.2):
    random = np.random.default_rng(seed)
    labels, sentence = [], []
    for s in range(sentences):
        for _ in range(random.integers(3, 9)):
            words = WORDS[int(random.choice(4, p=[0.6, 0.2, 0.1, 0.1]))]
            labels += words
            sentence += [s] * len(words)
    shift = random.normal(5, 1.5, (len(labels), 1))
    logits = noise * random.normal(size=(len(labels), 5)) + np.eye(5)[labels] * shift
    return Predictions.from_logits(
        logits, labels, label_names=TAGS, groups={"sentence": np.array(sentence)}
    )


def rows(n=2000, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    logits = 3 * (0.6 * random.normal(size=(n, 3)) + np.eye(3)[labels])
    return Predictions.from_logits(logits, labels, label_names=["cat", "dog", "owl"])


class TestRisk:
    def test_rows(self, tmp_path):
        p = rows()
        policy = guarantee(p, target_risk=0.05)
        confidence = p.probabilities().max(axis=1)
        correct = p.scores.argmax(axis=1) == p.labels
        found = find_threshold(confidence, correct, 0.05)
        assert policy.thresholds == {"*": found.threshold}
        assert policy.kept == found.kept == policy.decide(p).mean()
        error = 1 - correct.mean()
        assert policy.details["*"]["least_refused"] == pytest.approx((error - 0.05) / 0.95)
        policy.save(tmp_path / "policy.json")
        loaded = load_policy(tmp_path / "policy.json")
        assert (loaded.decide(p) == policy.decide(p)).all()

    def test_each_type_by_itself(self):
        p = rows()
        policy = guarantee(p, target_risk=0.1, per="type")
        predicted = p.scores.argmax(axis=1)
        for k, name in enumerate(p.names):
            alone = guarantee(p[predicted == k], target_risk=0.1)
            assert policy.thresholds[name] == alone.thresholds["*"]
            assert (policy.decide(p)[predicted == k] == alone.decide(p[predicted == k])).all()

    def test_entities_by_sentence(self):
        p = tagged()
        policy = guarantee(p, target_risk=0.1, reduction="min")
        found = entity_confidences(p, reduction="min", block=p.groups["sentence"])
        expected = find_threshold(found.confidence, found.correct, 0.1, groups=found.block)
        assert policy.thresholds == {"*": expected.threshold}
        assert (policy.items, policy.unit, policy.units) == ("entities", "sentence", expected.units)
        assert policy.decide(p).sum() == expected.accepted
        words = guarantee(p, target_risk=0.1, items="rows")
        assert words.items == "rows"
        assert words.n == len(p)

    def test_documents_come_before_sentences(self):
        p = tagged()
        document = Predictions.from_logits(
            p.scores, p.labels, label_names=TAGS,
            groups={**p.groups, "document": p.groups["sentence"] // 2},
        )  # fmt: skip
        assert guarantee(document, target_risk=0.1).unit == "document"
        assert guarantee(document, target_risk=0.1, keep_together="sentence").unit == "sentence"
        assert guarantee(document, target_risk=0.1, keep_together=None).unit is None

    def test_nothing_passes(self):
        policy = guarantee(rows(), target_risk=0.002)
        assert policy.thresholds == {"*": math.inf}
        assert "nothing is accepted" in policy.promise
        assert not policy.decide(rows()).any()


class TestMissed:
    def test_reach_by_hand(self):
        scores = [[0.2, 0.8, 0], [0.6, 0.4, 0], [0.9, 0.05, 0.05], [0.3, 0.7, 0]]
        p = Predictions.from_probabilities(scores, [1, 1, 0, 1], label_names=["O", "B-X", "I-X"])
        reach, row = entity_reach(p)
        np.testing.assert_allclose(reach, [0.8, 0.4, 0.7])
        assert row.tolist() == [0, 1, 3]

    def test_accepted_wrong_ones_hide_words(self):
        """Predicted B-X I-X over a true B-X: it hides its words if it may be accepted."""
        scores = [[0.1, 0.9, 0], [0.1, 0.1, 0.8], [0.2, 0.8, 0]]
        p = Predictions.from_probabilities(scores, [1, 0, 1], label_names=["O", "B-X", "I-X"])
        np.testing.assert_allclose(entity_reach(p)[0], [0.9, 0.8])
        hidden = entity_reach(p, np.array([0.72, 0.8]))[0]
        np.testing.assert_allclose(hidden, [-np.inf, 0.8])
        low = entity_reach(p, np.array([0.49, 0.8]))[0]  # Below the floor nothing is accepted.
        np.testing.assert_allclose(low, [0.9, 0.8])

    def test_on_average_by_loops(self):
        random = np.random.default_rng(0)
        reach, groups = np.round(random.random(300), 2), random.integers(0, 90, 300)
        n = len(np.unique(groups))
        for target in (0.02, 0.1, 0.4):
            passing = []
            for t in np.unique(reach):
                losses = [(reach[groups == g] < t).mean() for g in np.unique(groups)]
                if (sum(losses) + 1) / (n + 1) <= target:
                    passing.append(t)
            assert review_threshold(reach, groups, target) == max(passing)

    def test_with_a_level_it_is_stricter_and_on_the_grid(self):
        p = tagged()
        average = guarantee(p, max_missed=0.05, on_average=True).review["threshold"]
        surely = guarantee(p, max_missed=0.05).review["threshold"]
        assert surely < average
        assert surely in REVIEW_THRESHOLDS
        found = [guarantee(p, max_missed=m).review["threshold"] for m in (0.03, 0.1, 0.3)]
        assert found == sorted(found)

    def test_the_expectation_is_kept(self):
        """The mean share of missed entities of new sentences, over splits, is at most 5 %."""
        random, losses = np.random.default_rng(0), []
        for _ in range(200):
            reach, new = random.beta(2, 1, 100), random.beta(2, 1, 500)
            losses.append((new < review_threshold(reach, np.arange(100), 0.05)).mean())
        assert np.mean(losses) <= 0.05 + 3 * np.std(losses) / math.sqrt(200)
        assert np.mean(losses) > 0.03

    def test_words_and_counts(self):
        p = tagged()
        policy = guarantee(p, max_missed=0.05)
        mass = 1 - p.probabilities()[:, 0]
        expected = mass >= policy.review["threshold"]
        assert (policy.to_review(p) == expected).all()
        assert policy.review["reviewed_words"] == pytest.approx(expected.mean())

    def test_both(self):
        p = tagged()
        policy = guarantee(p, target_risk=0.1, max_missed=0.1)
        accepted = policy.decide(p)
        flagged = policy.to_review(p)
        assert accepted.any()
        assert flagged.any()
        assert policy.thresholds["*"] >= 0.5
        from calibrant.metrics.spans import Tagging

        tagging = Tagging(p)
        for start, end in zip(
            tagging.predicted.start[accepted], tagging.predicted.end[accepted], strict=True
        ):
            assert not flagged[start:end].any()
        assert "neither accepted nor sent to review" in policy.promise
        assert (policy.to_review(p, accepted) == flagged).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "got none"),
        ({"target_risk": 0.1, "coverage": 0.9}, "got target_risk, coverage"),
        ({"target_risk": 1.0}, r"target_risk in \(0, 1\), got 1.0"),
        ({"target_risk": math.nan}, "got nan"),
        ({"coverage": True}, "got True"),
        ({"target_risk": 0.1, "level": 0}, "level"),
        ({"target_risk": 0.1, "keep_together": "sentense"}, "Unknown group 'sentense'"),
        ({"target_risk": 0.1, "per": "class"}, "Unknown per"),
        ({"target_risk": 0.1, "average": "sentences"}, "Unknown average 'sentences'"),
        ({"target_risk": 0.1, "average": "groups"}, "needs a column of groups"),
        ({"target_risk": 0.1, "items": "words"}, "Unknown items"),
        ({"target_risk": 0.1, "items": "entities"}, "BIO"),
        ({"max_missed": 0.1}, "BIO"),
        ({"target_risk": "0.1"}, "got '0.1'"),
        ({"coverage": 0.9, "score": "raps", "penalty": math.nan}, "penalty ≥ 0, got nan"),
        ({"coverage": 0.9, "score": "raps", "free": -1}, "free classes ≥ 0, got -1"),
        ({"coverage": 0.9, "score": "aps", "randomised": True, "seed": -1}, "seed .* got -1"),
        ({"target_risk": 1e-5}, "needs at least 230,258 validation "),
    ],
)
def test_bad_arguments(options, expected):
    with pytest.raises(InputError, match=expected):
        guarantee(rows(), **options)


def test_numbers_of_numpy_and_extreme_data():
    sure = Predictions.from_probabilities(np.ones(200), np.ones(200, int))
    assert guarantee(sure, target_risk=np.float32(0.1)).kept == 1
    assert guarantee(sure, coverage=0.9).details["mean_size"] == 1
    wrong = Predictions.from_probabilities(np.ones(200), np.zeros(200, int))
    assert guarantee(wrong, target_risk=0.1).kept == 0
    one = Predictions.from_probabilities([0.5], [1])
    assert guarantee(one, coverage=0.9).sets(one).all()
    none = Predictions.from_probabilities(np.full((200, 3), [1.0, 0, 0]), np.ones(200, int),
                                          label_names=TAGS[:3])  # fmt: skip
    review = guarantee(none, max_missed=0.1)  # No word stands out: all are reviewed.
    assert review.to_review(none).all()
    assert "true entities are not sent to review, for entities" in review.promise


def test_too_little_data():
    with pytest.raises(InputError, match="needs at least 45 validation "):
        guarantee(rows(44), target_risk=0.05)
    guarantee(rows(45), target_risk=0.05)
    with pytest.raises(InputError, match="too few for at most 2 % missed"):
        guarantee(tagged(20), max_missed=0.02)
    with pytest.raises(InputError, match="too few for at most 2 % missed"):
        guarantee(tagged(20), max_missed=0.02, on_average=True)
    with pytest.raises(InputError, match="takes Predictions"):
        guarantee(np.ones(3), target_risk=0.05)


def test_a_risk_averaged_over_sentences(tmp_path):
    p = tagged(600)
    policy = guarantee(p, target_risk=0.1, items="rows", average="groups")
    assert policy.average == "groups"
    assert "of the accepted rows of a sentence are wrong, on average over sentences" in str(policy)
    policy.save(tmp_path / "policy.json")
    assert load_policy(tmp_path / "policy.json").average == "groups"
    kept, sentence = policy.decide(p), p.groups["sentence"]
    wrong = np.asarray(p.scores).argmax(axis=1) != p.labels
    shares = [wrong[kept & (sentence == s)].mean() for s in np.unique(sentence[kept])]
    assert policy.details["*"]["risk"] == pytest.approx(np.mean(shares))
    entities = guarantee(p, target_risk=0.3, average="groups")
    assert "accepted entities of a sentence" in entities.promise
    with pytest.raises(InputError, match="needs a target risk"):
        guarantee(p, max_missed=0.2, average="groups")


def test_rows_that_find_nothing_name_the_easier_promise():
    groups = {"sentence": np.r_[np.arange(1000), np.full(200, 1000)]}
    p = Predictions.from_probabilities(np.full(1200, 0.9999), np.ones(1200, int), groups=groups)
    assert "even if all 200 rows of the largest sentence are wrong together" in str(
        guarantee(p, target_risk=0.01)
    )
    assert guarantee(p, target_risk=0.01, average="groups").kept == 1


def test_each_type_has_a_promise_of_its_own():
    """The level is that of one type: the words must not say that all hold together."""
    policy = guarantee(rows(2000), target_risk=0.2, per="type")
    assert str(policy).startswith("For each type separately, with probability 90 %, at most 20 %")


def test_types_with_too_few_examples_are_named():
    """A note had "Judged by 500 rows" where each threshold had 20 to 440."""
    labels = np.repeat([0, 1, 2], [440, 40, 20])
    p = Predictions.from_probabilities(0.98 * np.eye(3)[labels] + 0.02 / 3, labels)
    policy = guarantee(p, target_risk=0.05, per="type")
    assert math.isfinite(policy.thresholds["0"])
    assert "a type needs at least 45 rows, so nothing is accepted of these: 1, 2." in policy.promise
    policy = guarantee(p[400:], target_risk=0.05, per="type")
    assert "judged by the validation rows of a type: nothing" in policy.promise
    assert "of these: 0, 1, 2." in policy.promise
    matches = Predictions.from_probabilities(
        p.scores, p.labels, groups={"match": np.arange(500) // 2}
    )
    policy = guarantee(matches, coverage=0.9, keep_together="match")
    assert "long and short matches count alike" in policy.promise


@pytest.mark.parametrize("temperature", [1.0, 40.0])
def test_confidences_that_are_too_low_are_named(temperature):
    """Ten classes, half of all rows right: the order accepts 30 %, confidences near 0.1 nothing."""
    random = np.random.default_rng(0)

    def sample():
        logits = 3 * random.normal(size=(3000, 10))
        labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        return Predictions.from_logits(logits / temperature, labels)

    valid, other = sample(), sample()
    policy = guarantee(valid, target_risk=0.2)
    assert (policy.kept == 0) == ("Calibrate first" in policy.promise) == (temperature > 1)
    if temperature > 1:
        found = policy.details["*"]["too_low"]
        assert found["confidence"] < 0.2 < 0.75 < found["right"]
        each = guarantee(valid, target_risk=0.2, per="type")
        assert "surest rows of type 0 have a mean" in each.promise
        assert guarantee(Temperature().fit(other).transform(valid), target_risk=0.2).kept > 0.3


def test_confidences_whose_order_a_calibrator_would_change_are_named():
    """The top probabilities of nearly equal ones follow classes that are out of the question."""
    random = np.random.default_rng(1)

    def sample():
        logits = 3 * random.normal(size=(3000, 10))
        logits[:, 5:] -= 40 + 40 * random.random((3000, 5))
        labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        return Predictions.from_logits(logits / 4e4, labels)

    valid, other = sample(), sample()
    policy = guarantee(valid, target_risk=0.05)
    assert policy.kept == 0
    assert "the 3,000 surest rows have a mean confidence of 10.0 %" in policy.promise
    assert policy.promise.endswith("there may be a threshold.")
    assert guarantee(Temperature().fit(other).transform(valid), target_risk=0.05).kept > 0.2


@pytest.mark.parametrize("temperature", [1.0, 8.0])
def test_confidences_that_cost_acceptances_are_named(temperature):
    """Between two thresholds lie so many rows that a part of what could pass is refused."""
    random = np.random.default_rng(0)

    def sample():
        logits = 2.5 * random.normal(size=(2000, 3))
        labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        return Predictions.from_logits(logits / temperature, labels)

    valid, other = sample(), sample()
    policy = guarantee(valid, target_risk=0.1)
    assert ("more are probably accepted" in policy.promise) == (temperature > 1)
    better = guarantee(Temperature().fit(other).transform(valid), target_risk=0.1)
    assert better.kept > (1.1 if temperature > 1 else 0.9) * policy.kept > 0.3
    assert "Calibrate first" not in better.promise


@pytest.mark.parametrize("accuracy", [0.5, 0.9])
def test_only_a_good_order_is_worth_calibrating(accuracy):
    """Confidences that say nothing about correctness, and ones that are too high."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 0.6, 2000) if accuracy == 0.5 else np.full(2000, 0.999)
    labels = (random.random(2000) < accuracy).astype(int)
    policy = guarantee(Predictions.from_probabilities(confidence, labels), target_risk=0.02)
    assert policy.details["*"]["too_low"] is None
    assert "Calibrate first" not in policy.promise


def test_with_review_every_score_that_may_be_accepted_counts_as_above_the_floor():
    """Else wrong entities would hide words from review that the promise takes for reviewed."""
    raw = np.array([0.3, 0.4, 0.6, 0.7])
    learned = np.array([0.9, 0.2, 0.1, 0.8])  # By signals: in another order.
    items = Items(learned, np.ones(4, bool), np.zeros(4, int), ("*",))
    assert floored_scores(items, raw).tolist() == [0.5, 0.4, 0.6, 0.7]
    rising = Items(raw**0.5, items.correct, items.kind, items.types, thresholds=THRESHOLDS**0.5)
    assert floored_scores(rising, raw).tolist() == raw.tolist()
    policy = guarantee_items(with_floor(items), 0.5, 0.5, classes=2)
    accepted = policy.decide(learned)
    assert (floored_scores(items, raw)[accepted] >= FLOOR).all()
