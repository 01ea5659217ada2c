"""The table of whole entities."""

import pytest

from calibrant.study.study import build_study


def with_entities(record, ece, map_="auto"):
    for parts in record.results.values():
        parts["test"]["entity_ece"] = 0.1
    used = record.results.setdefault(map_, dict(record.results["temperature"]))
    used["entities"] = {
        "reduction": "mean", "examples": 500.0, "ece": ece, "auroc": 0.8, "aurc": 0.3,
    }  # fmt: skip
    return record


def table_of(records):
    found = build_study(records).tables
    return next((table for table in found if table.name == "gum-entities"), None)


def test_learned_confidences_stand_beside_the_product(make_record):
    values = {"cross_entropy": (0.03, 0.04, 0.05), "focal": (0.06, 0.071, 0.079)}
    records = [
        with_entities(make_record(method=method, seed=seed), ece)
        for method, several in values.items()
        for seed, ece in enumerate(several)
    ]
    table = table_of(records)
    assert table.heads == (
        "seeds", "entity ECE", "entity ECE (T)", "learned: ECE", "learned: AUROC", "learned: AURC",
    )  # fmt: skip
    assert [row.labels[0] for row in table.rows] == ["cross_entropy", "focal"]
    first, second = (row.entries for row in table.rows)
    assert [entry.value for entry in first] == pytest.approx([3, 0.1, 0.1, 0.04, 0.8, 0.3])
    assert second[3].value == pytest.approx(0.07)
    assert first[3].bold
    assert not second[3].bold
    assert all(row.keys for row in table.rows)


def test_it_is_found_with_whichever_map_a_run_is_used_with(make_record):
    records = [
        with_entities(make_record(seed=0), 0.02, "isotonic-top-label"),
        with_entities(make_record(seed=1), 0.04, "temperature"),
        make_record(seed=2),  # From before it was measured.
    ]
    [row] = table_of(records).rows
    assert row.entries[0].value == 2
    assert row.entries[3].value == pytest.approx(0.03)


def test_runs_without_have_no_table(make_record):
    assert table_of([make_record()]) is None
