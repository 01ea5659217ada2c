"""The table of what belongs to no class, such as queries out of scope."""

import pytest

from calibrant.study.study import build_study


def with_outside(record, auroc, sure):
    for place, parts in enumerate(record.results.values()):
        parts["outside"] = {
            "auroc": auroc - 0.01 * place, "mean_confidence": sure + 0.1 * place, "examples": 1000.0
        }  # fmt: skip
    return record


def table_of(study, name):
    return next((table for table in study.tables if table.name == name), None)


def test_a_row_for_each_method_with_the_means_of_its_seeds(make_record):
    values = {"cross_entropy": (0.90, 0.92, 0.94), "focal": (0.80, 0.81, 0.85)}
    records = [
        with_outside(make_record(method=method, seed=seed), auroc, 0.5)
        for method, several in values.items()
        for seed, auroc in enumerate(several)
    ]
    table = table_of(build_study(records), "gum-outside")
    assert table.heads == (
        "seeds",
        "AUROC",
        "AUROC (T)",
        "mean confidence",
        "mean confidence (T)",
    )
    assert [row.labels[0] for row in table.rows] == ["cross_entropy", "focal"]
    first, second = (row.entries for row in table.rows)
    assert first[1].value == pytest.approx(0.92)
    assert first[2].value == pytest.approx(0.91)
    assert second[1].value == pytest.approx(0.82)
    assert first[3].value == pytest.approx(0.5)
    assert first[1].bold
    assert not second[1].bold
    assert not first[3].bold  # A claim has no best.
    assert "1,000 that belong to no class" in table.note


def test_runs_without_such_examples_have_no_table(make_record):
    assert table_of(build_study([make_record()]), "gum-outside") is None
    some = [with_outside(make_record(seed=0), 0.9, 0.5), make_record(seed=1)]
    table = table_of(build_study(some), "gum-outside")
    assert [row.entries[0].value for row in table.rows] == [1]
