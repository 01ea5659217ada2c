"""The audit of predicted entities, against plain loops."""

import json

import numpy as np
import pytest

from calibrant.entities import Document, Entity, audit_entities, match_entities


def plain_ece(score, right, bins=15):
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        rows = [i for i, s in enumerate(score) if low < s <= high or (b == 0 and s == 0)]
        if rows:
            total += abs(sum(score[i] for i in rows) - sum(right[i] for i in rows))
    return total / len(score)


@pytest.mark.parametrize("match", ["strict", "overlapping"])
def test_numbers_are_those_of_plain_loops(matched, match):
    found = audit_entities(matched, match, bootstrap=100)
    score, right = matched.predicted.score, matched.right[match]
    gold = matched.found[match]
    assert found.audit["ece"].value == pytest.approx(plain_ece(score, right))
    assert found.audit["accuracy"].value == pytest.approx(right.mean())
    assert found.audit["entity_recall"].value == pytest.approx(gold.mean())
    assert found.audit["missed_entities"].value == pytest.approx(1 - gold.mean())
    f1 = (right.sum() + gold.sum()) / (len(right) + len(gold))
    assert found.audit["entity_f1"].value == pytest.approx(f1)
    pairs = [(a > b) + (a == b) / 2 for a in score[right] for b in score[~right]]
    assert found.audit["auroc"].value == pytest.approx(np.mean(pairs))
    for measure in found.audit.measures:
        assert measure.low is None or measure.low <= measure.value <= measure.high


def test_types_have_their_own_numbers_and_intervals(matched):
    found = audit_entities(matched, bootstrap=100)
    assert [row.name for row in found.types] == sorted(
        ("PER", "LOC", "ORG"), key=lambda kind: -(matched.predicted.type == kind).sum()
    )
    for row in found.types:
        mine = matched.predicted.type == row.name
        score, right = matched.predicted.score[mine], matched.right["strict"][mine]
        assert row.predicted == mine.sum()
        assert row["precision"].value == pytest.approx(right.mean())
        assert row["ece"].value == pytest.approx(plain_ece(score, right))
        assert row["ece"].low < row["ece"].value < row["ece"].high
        theirs = matched.gold_type == row.name
        assert (row.gold, row.missed) == (theirs.sum(), (~matched.found["strict"][theirs]).sum())


def test_intervals_are_over_documents():
    """Ten copies of a document say no more than one: the interval stays as wide."""
    predicted, gold = [], []
    rng = np.random.default_rng(0)
    for _ in range(40):
        right = int(rng.random() < 0.5)
        predicted.append(Document(tuple(Entity(9 * k, 9 * k + 4, "A", 0.9) for k in range(10))))
        gold.append(Document(tuple(Entity(9 * k, 9 * k + 3 + right, "A") for k in range(10))))
    measure = audit_entities(match_entities(predicted, gold)).audit["accuracy"]
    assert measure.high - measure.low > 0.25  # 400 independent entities would have 0.1.


def test_order_of_documents_does_not_matter(matched):
    from tests.entities.conftest import made_documents

    predicted, gold = made_documents()
    turned = match_entities(predicted[::-1], gold)
    for name in ("ece", "auroc", "entity_f1"):
        values = [audit_entities(m, bootstrap=0).audit[name].value for m in (matched, turned)]
        assert values[0] == pytest.approx(values[1])


def test_document_for_programs(matched):
    found = json.loads(json.dumps(audit_entities(matched, bootstrap=0).to_dict()))
    assert found["match"] == "strict"
    assert found["types"][0]["measures"]["ece"]["value"] > 0
    curve = found["risk_coverage"]
    assert curve["coverage"][-1] == 1
    assert curve["risk"][-1] == pytest.approx(1 - found["measures"]["accuracy"]["value"])
    mistake = found["mistakes"][0]
    assert mistake["groups"].keys() == {"document", "start", "end"}


def test_a_type_that_is_never_predicted_or_never_right():
    predicted = [Document((Entity(0, 4, "A", 0.9),)) for _ in range(30)]
    gold = [Document((Entity(0, 5, "A"), Entity(8, 9, "B"))) for _ in range(30)]
    found = audit_entities(match_entities(predicted, gold))
    rows = {row.name: row for row in found.types}
    assert np.isnan(rows["B"]["precision"].value)
    assert rows["B"]["recall"].value == 0
    assert np.isnan(rows["A"]["auroc"].value)
    assert found.audit["entity_f1"].value == 0


def test_predicted_and_gold_entities_of_a_document_share_their_block():
    """1,001 documents, nothing predicted in the last: F1 is always 2/3 where it is not 0."""
    gold = [Document((Entity(0, 4, "PER"), Entity(5, 9, "PER"))) for _ in range(1001)]
    predicted = [Document((Entity(0, 4, "PER", 0.9),)) for _ in range(1000)] + [Document(())]
    f1 = audit_entities(match_entities(predicted, gold), bootstrap=200).audit["entity_f1"]
    assert f1.value == pytest.approx(2 / 3, abs=1e-3)
    assert f1.high - f1.low < 0.005
