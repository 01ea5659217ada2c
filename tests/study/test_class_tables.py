"""The tables of single classes, as segmentation measures them."""

import math

import pytest

from calibrant.study.study import build_study

CLASSES = ("road", "sky", "either/or")


def with_classes(record, ece, classes=CLASSES):
    for calibrator, parts in record.results.items():
        parts["classes"] = {
            name: {
                "iou": 0.5 + 0.1 * place,
                "ece": math.nan if name == "sky" else ece * (1 if calibrator == "identity" else 2),
            }
            for place, name in enumerate(classes)
        }
    return record


def tables_of(records):
    found = {table.name: table for table in build_study(records).tables}
    return {name: table for name, table in found.items() if "classes-" in name}


def test_a_column_for_each_class_and_a_row_for_each_method(make_record):
    values = {"cross_entropy": (0.1, 0.2), "focal": (0.3, 0.5)}
    records = [
        with_classes(make_record(method=method, seed=seed), ece)
        for method, several in values.items()
        for seed, ece in enumerate(several)
    ]
    tables = tables_of(records)
    assert list(tables) == ["gum-classes-iou", "gum-classes-ece", "gum-classes-ece-temperature"]
    assert tables["gum-classes-iou"].heads == ("seeds", *CLASSES)
    plain, scaled = tables["gum-classes-ece"], tables["gum-classes-ece-temperature"]
    assert plain.heads == ("seeds", "road", "either/or")  # The sky was never predicted.
    assert [row.entries[1].value for row in plain.rows] == pytest.approx([0.15, 0.4])
    assert [row.entries[2].value for row in scaled.rows] == pytest.approx([0.3, 0.8])


def test_of_many_classes_the_first_are_shown(make_record):
    many = [f"class {number}" for number in range(30)]
    table = tables_of([with_classes(make_record(seed=0), 0.1, many)])["gum-classes-ece"]
    assert table.heads == ("seeds", *many[:20])
    assert "The first 20 of 30 classes." in table.note


def test_other_records_have_no_such_tables(make_record):
    assert not tables_of([make_record(seed=seed) for seed in (0, 1)])
