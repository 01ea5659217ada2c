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


def test_corpora_of_one_method_stand_below_each_other(make_record):
    records = [
        with_entities(make_record(data=corpus, seed=seed), ece)
        for corpus, ece in (("gum", 0.03), ("wnut17", 0.05))
        for seed in range(2)
    ]
    for record in records[:2]:  # Of gum: measured with no temperature.
        del record.results["temperature"]["test"]["entity_ece"]
    (table,) = [table for table in build_study(records).tables if table.name == "entities"]
    assert table.label_heads == ("corpus", "method")
    assert [row.labels for row in table.rows] == [
        ("gum", "cross_entropy"), ("wnut17", "cross_entropy"),
    ]  # fmt: skip
    values = [dict(zip(table.heads, row.entries, strict=True)) for row in table.rows]
    assert [found["learned: ECE"].value for found in values] == pytest.approx([0.03, 0.05])
    assert [found["entity ECE (T)"].text for found in values] == ["", "0.1000 ± 0.0000"]
    other = with_entities(make_record(data="gum", method="focal"), 0.1)
    names = {table.name for table in build_study([*records, other]).tables}
    assert "entities" not in names  # Each corpus has its own, of both methods.
    assert {"gum-entities", "wnut17-entities"} <= names
