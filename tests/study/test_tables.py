"""The tables, number by number: by hand where that is possible, by SciPy where it is not."""

import json
import math

import numpy as np
import pytest

from calibrant import InputError
from calibrant.study import Extra, build_study
from calibrant.study.measures import StudyMeasure, measures_of
from calibrant.study.runs import arrange
from calibrant.study.statistics import best_alike
from calibrant.study.table import Table, TableEntry, TableRow

stats = pytest.importorskip("scipy.stats")

CORPORA = ("conll2003", "ncbi-disease", "wikiann-en", "gum", "wnut17")
WIDTHS = (64, 128, 200, 256)


def table_of(study, name):
    (found,) = [table for table in study.tables if table.name == name]
    return found


def texts(table):
    return {row.labels: [entry.text for entry in row.entries] for row in table.rows}


def values(table, *labels):
    """The numbers of one row."""
    (row,) = [row for row in table.rows if row.labels == labels]
    return [entry.value for entry in row.entries]


@pytest.fixture
def tiny(make_record):
    """Two methods, three seeds; the second has a clearly smaller ECE and much the same F1."""
    f1 = {"cross_entropy": (0.5, 0.6, 0.7), "focal": (0.6, 0.5, 0.7)}
    ece = {"cross_entropy": (0.10, 0.11, 0.12), "focal": (0.05, 0.06, 0.071)}
    return [make_record(f1=f1[m][s], ece=ece[m][s], seed=s, method=m) for m in f1 for s in range(3)]


def test_results_by_hand(tiny):
    table = table_of(build_study(tiny), "gum-results")
    assert table.label_heads == ("method", "width")
    assert table.heads == ("seeds", "F1", "ECE", "APCR", "ECE (T)", "APCR (T)")
    seeds, f1, ece = table.rows[0].entries[:3]
    assert table.rows[0].labels == ("cross_entropy", "128")
    t = stats.t.ppf(0.975, 2) / math.sqrt(3)
    assert (seeds.value, f1.n, ece.n) == (3, 3, 3)
    assert (f1.value, f1.half) == pytest.approx((0.6, 0.1 * t))
    assert (ece.value, ece.half) == pytest.approx((0.11, 0.01 * t))
    marks = [[entry.bold for entry in row.entries][1:4] for row in table.rows]
    # APCR differs by 4.7, 0.9 and 2.8: p is 0.12.
    assert marks == [[True, False, True], [True, True, True]]
    assert table.rows[0].keys == tuple(sorted(r.recipe.key for r in tiny[:3]))


def test_the_tests_are_scipys(tiny):
    table = table_of(build_study(tiny), "gum-tests")
    row = next(row for row in table.rows if row.labels == ("ECE", "focal"))
    pairs, difference, effect, p, corrected, flips, seeds, verdict = row.entries
    differences = np.array([-0.05, -0.05, -0.049])
    assert pairs.value == 3
    assert difference.value == pytest.approx(differences.mean())
    assert effect.value == pytest.approx(differences.mean() / differences.std(ddof=1))
    assert p.value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert corrected.value == p.value  # One method: nothing to correct for.
    assert flips.value == 0.25
    assert seeds.value == pytest.approx(p.value)  # One width: a pair is a seed.
    assert verdict.text == "better"
    assert verdict.bold
    assert "cannot fall below 0.25" in table.note
    f1 = next(row for row in table.rows if row.labels == ("F1", "focal"))
    assert f1.entries[-1].text == "no significant difference"
    assert len(row.keys) == 6


def test_worse_is_a_verdict_too(make_record):
    records = [make_record(ece=0.1 + s / 1000, seed=s) for s in range(4)]
    records += [make_record(ece=0.2 + s / 900, seed=s, method="avuc") for s in range(4)]
    table = table_of(build_study(records), "gum-tests")
    verdicts = {row.labels[0]: row.entries[-1].text for row in table.rows}
    assert verdicts["ECE"] == verdicts["APCR"] == "worse"


def test_holm_is_over_the_methods_of_a_measure(make_record):
    methods = ("cross_entropy", "avuc", "focal", "mmce")
    records = [make_record(seed=s, method=m) for m in methods for s in range(5)]
    table = table_of(build_study(records), "gum-tests")
    for measure in ("F1", "ECE", "APCR"):
        rows = [row for row in table.rows if row.labels[0] == measure]
        p = sorted(row.entries[3].value for row in rows)
        corrected = sorted(row.entries[4].value for row in rows)
        assert corrected[0] == pytest.approx(min(1, 3 * p[0]))
        assert len(rows) == 3


def test_only_shared_pairs_are_compared(make_record):
    records = [make_record(ece=0.1, seed=s, head_width=w) for s in range(3) for w in (64, 128)]
    records += [make_record(ece=0.1 + 0.01 * s, seed=s, method="focal") for s in range(1, 4)]
    table = table_of(build_study(records), "gum-tests")
    row = next(row for row in table.rows if row.labels == ("ECE", "focal"))
    assert row.entries[0].value == 2
    assert row.entries[1].value == pytest.approx(0.015)
    assert len(row.keys) == 4


def test_seeds_can_be_compared_without_taking_widths_as_independent(make_record):
    change = {(64, 0): 0.01, (64, 1): 0.02, (64, 2): 0.04, (128, 0): 0.03, (128, 1): 0.02,
              (128, 2): 0.02}  # fmt: skip
    records = [make_record(ece=0.1, head_width=w, seed=s) for w, s in change]
    records += [
        make_record(ece=0.1 + d, head_width=w, seed=s, method="focal")
        for (w, s), d in change.items()
    ]
    table = table_of(build_study(records), "gum-tests")
    row = next(row for row in table.rows if row.labels == ("ECE", "focal"))
    values = dict(zip(table.heads, (entry.value for entry in row.entries), strict=True))
    assert values["p"] == pytest.approx(stats.ttest_1samp(list(change.values()), 0).pvalue)
    assert values["p (seeds)"] == pytest.approx(stats.ttest_1samp([0.02, 0.02, 0.03], 0).pvalue)


def test_another_baseline(tiny):
    table = table_of(build_study(tiny, baseline="focal"), "gum-tests")
    assert {row.labels[1] for row in table.rows} == {"cross_entropy"}
    assert table.rows[0].entries[1].value == pytest.approx(0)
    with pytest.raises(InputError, match="Did you mean 'focal'"):
        build_study(tiny, baseline="focall")
    others = [record for record in tiny if record.recipe.method == "focal"]
    assert not [t for t in build_study(others).tables if t.name == "gum-tests"]


def test_pooled_over_widths_by_hand(make_record):
    values = {(64, 0): 0.1, (64, 1): 0.2, (128, 0): 0.3, (128, 1): 0.6}
    records = [make_record(ece=e, head_width=w, seed=s) for (w, s), e in values.items()]
    records += [make_record(method="focal", seed=s) for s in range(2)]
    records += [make_record(head_width=64, seed=2)]  # Has no partner at width 128.
    table = table_of(build_study(records), "gum-pooled")
    (row,) = table.rows  # Focal was not run at both widths.
    assert row.labels == ("cross_entropy",)
    assert row.entries[0].value == 2
    assert row.entries[2].value == pytest.approx((0.2 + 0.4) / 2)
    assert row.entries[2].half == pytest.approx(stats.t.ppf(0.975, 1) * 0.1)
    assert len(row.keys) == 4


def test_pooled_bold_is_of_the_seeds_that_are_shown(make_record):
    """A method whose best runs lack a width elsewhere, or that has one seed, is not the best."""
    values = {
        "cross_entropy": {(w, s): 0.10 + 0.001 * s for w in (64, 128) for s in range(3)},
        "focal": {(w, s): 0.12 + 0.002 * s for w in (64, 128) for s in range(3)}
        | {(64, s): 0.01 for s in range(3, 9)},  # Shown nowhere: they have no width 128.
        "mmce": {(w, 0): 0.09 for w in (64, 128)},
    }
    records = [
        make_record(method=m, ece=e, head_width=w, seed=s)
        for m, cells in values.items()
        for (w, s), e in cells.items()
    ]
    table = table_of(build_study(records), "gum-pooled")
    shown = {row.labels[0]: row.entries[2] for row in table.rows}
    assert [shown[m].value for m in values] == pytest.approx([0.101, 0.122, 0.09])
    assert [shown[m].bold for m in values] == [True, False, False]
    assert "One seed" in table.note


def test_one_width_needs_no_pooling(tiny):
    assert not [t for t in build_study(tiny).tables if t.name.endswith("pooled")]


def test_depths_have_a_table_and_stay_out_of_the_others(make_record):
    records = [make_record(ece=0.1 * d, head_depth=d, seed=s) for d in (1, 2, 3) for s in range(2)]
    records += [make_record(method="focal", seed=s) for s in range(2)]
    study = build_study(records)
    table = table_of(study, "gum-depth")
    assert [row.labels[2] for row in table.rows] == ["1", "2", "3"]  # Focal has one depth alone.
    assert [row.entries[2].value for row in table.rows] == pytest.approx([0.1, 0.2, 0.3])
    sentence = "All tables except the depth table use heads of depth"
    assert f"{sentence} 1." in study.summary
    records += [make_record(data="wnut17", head_depth=2, seed=s) for s in range(2)]
    assert f"{sentence} 1 (2 on wnut17)." in build_study(records).summary
    results = table_of(study, "gum-results")
    assert [row.labels for row in results.rows] == [("cross_entropy", "128"), ("focal", "128")]
    assert results.rows[0].entries[2].value == pytest.approx(0.1)


def test_other_data_by_strength(make_record):
    names = ["typos-10", "typos-2", "wnut17"]
    records = [make_record(ece=0.1, shift=names, seed=s) for s in range(2)]
    records += [make_record(method="focal", seed=s) for s in range(2)]  # Not tested there.
    study = build_study(records)
    table = table_of(study, "gum-shift-typos")
    assert [row.labels[-1] for row in table.rows] == ["0", "2", "10"]
    assert table.heads == ("seeds", "accuracy", "ECE", "AURC", "AUROC", "ECE (T)")
    assert [row.entries[2].value for row in table.rows] == pytest.approx([0.1, 0.12, 0.11])
    other = table_of(study, "gum-shift-other-data")
    assert [row.labels[-1] for row in other.rows] == ["test", "wnut17"]
    assert other.rows[1].entries[1].value == pytest.approx(0.92)


def test_out_of_domain_is_other_data_too(make_record):
    record = make_record()
    for parts in (record.results["identity"], record.results["temperature"]):
        parts["ood"] = dict(parts["test"], ece=0.5)
    table = table_of(build_study([record]), "gum-shift-other-data")
    assert [row.labels[-1] for row in table.rows] == ["test", "ood"]
    assert table.rows[1].entries[2].value == 0.5


def test_requested_keys_are_columns(make_record):
    records = [
        make_record(seed=s, learning_rate=rate) for s in range(2) for rate in (2e-4, 5e-5, 1e-4)
    ]
    table = table_of(build_study(records, by=["learning_rate"]), "gum-results")
    assert table.label_heads == ("method", "learning rate", "width")
    assert [row.labels[1] for row in table.rows] == ["5e-05", "0.0001", "0.0002"]


def test_wins_by_hand(make_record):
    ece = {"cross_entropy": 0.2, "focal": 0.1}
    records = [
        make_record(data=d, method=m, seed=s, ece=ece[m] * (1 + 0.01 * s), f1=0.5 + 0.1 * s)
        for d in ("gum", "wnut17")
        for m in ece
        for s in range(5)
    ]
    study = build_study(records)
    assert texts(table_of(study, "wins-identity-ece")) == {
        ("cross_entropy",): ["", "0/0/2"],
        ("focal",): ["2/0/0", ""],
    }
    assert texts(table_of(study, "wins-identity-entity-f1"))[("focal",)] == ["0/2/0", ""]
    assert values(table_of(study, "ranks"), "focal") == [1.5, 1, 1, 1, 1]
    assert "1.39 apart" in table_of(study, "ranks").note  # 1.960 √(2·3 / (6·2))


def test_a_report_speaks_of_no_paper_and_has_the_title_of_its_recipes(make_record):
    records = [
        make_record(data=d, method=m, seed=s)
        for d in ("gum", "wnut17")
        for m in ("cross_entropy", "focal", "head_noise")
        for s in range(2)
    ]
    study = build_study(records, title="My grid")
    words = " ".join([*study.summary, *(f"{t.title} {t.note}" for t in study.tables)])
    for word in ("Table I", "the target", "paper"):
        assert word not in words, word
    assert study.to_dict()["title"] == "My grid"


def test_an_apcr_of_nothing_found_is_no_number(make_record):
    records = [make_record(seed=s, f1=0.0, ece=0.1) for s in range(2)]
    for record in records:
        for parts in record.results.values():
            parts["test"]["apcr"] = 0.0
    records += [make_record(method="focal", seed=s, f1=0.5, ece=0.1) for s in range(2)]
    table = table_of(build_study(records), "gum-results")
    found = dict(zip(table.heads, values(table, "cross_entropy", "128"), strict=True))
    assert math.isnan(found["APCR"])
    assert (found["F1"], found["ECE"]) == (0, pytest.approx(0.1))


def test_ranks_leave_out_a_corpus_rather_than_many_methods(make_record):
    methods = ("cross_entropy", "focal", "mmce", "sece")
    records = [
        make_record(data=d, method=m, seed=s)
        for d in ("gum", "wnut17", "wikiann-en")
        for m in methods
        for s in range(2 + (m == "focal"))
        if d != "wikiann-en" or m == "cross_entropy"
    ]
    table = table_of(build_study(records), "ranks")
    assert [row.labels[0] for row in table.rows[:-1]] == list(methods)
    assert "Corpora that too few methods share: wikiann-en." in table.note
    assert "Seeds that not all have: 2 on gum; 2 on wnut17." in table.note


@pytest.mark.parametrize(
    "where",
    [
        {"focal": ["gum", "wnut17", "conll2003"], "mmce": ["gum", "wnut17", "wikiann-en"]},
        {"focal": ["gum", "wnut17", "a", "b", "c", "d"], "mmce": ["gum", "wnut17"]},
    ],
)
def test_ranks_are_of_what_methods_share_also_where_none_has_that_alone(make_record, where):
    records = [
        make_record(data=data, method=method, seed=seed)
        for method, corpora in where.items()
        for data in corpora
        for seed in (0, 1)
    ]
    table = table_of(build_study(records), "ranks")
    assert [row.labels[0] for row in table.rows[:-1]] == ["focal", "mmce"]
    assert table.title == "Average rank over 2 corpora"


def test_ranks_are_of_what_all_methods_share(make_record):
    records = [
        make_record(data=d, method=m, head_width=w)
        for d in ("gum", "wnut17")
        for m, widths in {"cross_entropy": WIDTHS, "focal": (128,)}.items()
        for w in widths
    ]
    records.append(make_record(data="gum", method="mmce"))
    table = table_of(build_study(records), "ranks")
    assert "(width 128)" in table.note
    assert "Left out: mmce (too few seeds on wnut17)." in table.note
    assert [len(row.keys) for row in table.rows] == [2, 2, 4]


def test_all_corpora_side_by_side(make_record):
    records = [
        make_record(data=d, method=m, seed=s)
        for d in ("gum", "wnut17")
        for m in ("cross_entropy", "focal")
        for s in range(3)
    ]
    records = [r for r in records if (r.recipe.data, r.recipe.method) != ("wnut17", "focal")]
    table = table_of(build_study(records), "all-corpora-identity")
    assert table.groups == (("gum", 3), ("wnut17", 3))
    assert table.full_heads[3] == "wnut17 F1"
    single = table_of(build_study(records), "gum-results")
    for row, other in zip(table.rows, single.rows, strict=True):
        assert [e.value for e in row.entries[:3]] == [e.value for e in other.entries[1:4]]
        assert [e.bold for e in row.entries[:3]] == [e.bold for e in other.entries[1:4]]
    assert np.isnan(values(table, "focal", "128")[3:]).all()


def test_settings_have_summaries_of_their_own(make_record):
    records = [
        make_record(data=d, method=m, batch=b, seed=s)
        for d in ("gum", "wnut17")
        for m in ("cross_entropy", "focal")
        for b, seeds in {32: 3, 3: 2}.items()
        for s in range(seeds)
    ]
    titles = [table.title for table in build_study(records).tables]
    assert "Average rank over 2 corpora" in titles
    assert "Average rank over 2 corpora (batch 3)" in titles
    names = [table.name for table in build_study(records).tables]
    assert len(set(names)) == len(names)


def test_other_tasks_have_accuracy(make_record):
    records = [make_record(seed=s) for s in range(2)]
    for record in records:
        for parts in record.results.values():
            for name in ("entity_f1", "apcr", "token_f1"):
                del parts["test"][name]
    assert [m.title for m in measures_of(arrange(records))] == ["accuracy", "ECE", "ECE (T)"]
    with pytest.raises(InputError, match="Unknown metric 'entity_f1'"):
        build_study(records, metrics=["entity_f1"])


def test_maps_can_be_chosen(tiny):
    table = table_of(build_study(tiny, calibrators=["temperature"]), "gum-results")
    assert table.heads == ("seeds", "F1 (T)", "ECE (T)", "APCR (T)")
    with pytest.raises(InputError, match="Did you mean 'temperature'"):
        build_study(tiny, calibrators=["temperatur"])
    with pytest.warns(FutureWarning, match="is now build_study"):
        assert table_of(build_study(tiny, maps=["temperature"]), "gum-results") == table


def test_a_map_that_few_records_have_is_a_dash_elsewhere(make_record):
    records = [
        make_record(data=d, seed=s, method=m)
        for d in ("gum", "wnut17")
        for m in ("cross_entropy", "focal", "mmce")
        for s in range(3)
    ]
    for record in records:
        if record.recipe.method != "mmce":
            found = record.results["temperature"]["test"]
            record.results["vector"] = {"test": {**found, "ece": found["ece"] / 3}}
    study = build_study(records, calibrators=["all"])
    table = table_of(study, "gum-results")
    place = table.heads.index("ECE (vector)")
    assert math.isnan(values(table, "mmce", "128")[place])
    assert values(table, "focal", "128")[place] < 0.01
    wins = texts(table_of(study, "wins-vector-ece"))
    assert wins["mmce",] == ["", "", ""]
    assert "ECE (vector)" not in table_of(study, "ranks").heads
    assert any(s.startswith("gum: ECE (vector) in gum-mmce") for s in study.missing)


def test_metrics_can_be_chosen(tiny):
    table = table_of(build_study(tiny, metrics=["auroc", "mean_confidence"]), "gum-results")
    assert table.heads == ("seeds", "AUROC", "mean confidence")
    assert not any(row.entries[2].bold for row in table.rows)  # No confidence is the best one.


def test_an_ece_of_zero_does_not_end_it(make_record):
    records = [make_record(seed=s, method=m) for m in ("cross_entropy", "focal") for s in range(3)]
    for parts in records[0].results.values():
        parts["test"].update(ece=0.0, apcr=math.inf)
    study = build_study(records)
    row = table_of(study, "gum-results").rows[0]
    assert row.entries[3].value == math.inf
    assert row.entries[3].bold
    json.dumps(study.to_dict(), allow_nan=False)


def test_one_seed_marks_the_best_mean_alone(make_record):
    records = [make_record(ece=0.1), make_record(ece=0.2, method="focal")]
    table = table_of(build_study(records), "gum-results")
    assert [row.entries[2].bold for row in table.rows] == [True, False]
    assert table.rows[0].entries[2].value == pytest.approx(0.1)
    assert math.isnan(table.rows[0].entries[2].half)
    assert "One seed has no interval" in table.note


def test_the_best_and_its_like():
    ones = {0: 1.0, 1: 1.0, 2: 1.0}
    assert best_alike([ones, dict(ones)], 1) == [True, True]
    assert best_alike([ones, {0: 2.0, 1: 2.1, 2: 2.0}], 1) == [False, True]
    assert best_alike([ones, {0: 2.0, 1: 2.1, 2: 2.0}], -1) == [True, False]
    assert best_alike([ones, {5: 2.0, 6: 2.0}], 1) == [False, True]  # Nothing shared: no test.
    assert best_alike([ones, {0: 2.0}], 1) == [True, False]  # One run hides nothing.
    assert best_alike([{0: 1.0}, {0: 2.0}], 1) == [False, True]
    assert best_alike([{0: math.nan}, ones], 1) == [False, True]
    assert best_alike([{0: math.nan}], 1) == [False]
    assert best_alike([ones], 0) == [False]


def test_measures_know_their_direction():
    assert (
        StudyMeasure("entity_f1").sign
        == StudyMeasure("apcr").sign
        == StudyMeasure("auroc").sign
        == 1
    )
    assert StudyMeasure("ece").sign == StudyMeasure("aurc").sign == StudyMeasure("nll").sign == -1
    assert StudyMeasure("mean_confidence").sign == 0
    assert StudyMeasure("ece", "vector").title == "ECE (vector)"


def with_spline(records):
    """A third calibrator, whose ECE is a third of that as trained."""
    for record in records:
        parts = record.results["identity"]
        record.results["spline"] = {
            name: {**part, "ece": part["ece"] / 3, "apcr": 3 * part["apcr"]}
            for name, part in parts.items()
        }
    return records


def test_all_maps_stand_in_one_table_alone(tiny):
    study = build_study(with_spline(tiny))
    holders = {
        table.name
        for table in study.tables
        if any(
            "spline" in text for text in (*table.heads, *(t for r in table.rows for t in r.labels))
        )
    }
    assert holders == {"gum-calibrators"}
    table = table_of(study, "gum-calibrators")
    assert table.title == "Calibrators on gum, width 128"
    maps = ["as trained", "temperature", "spline"]
    assert table.full_heads == ("seeds", *(f"{m} {x}" for m in ("ECE", "APCR") for x in maps))
    row = table.rows[0]
    assert [entry.value for entry in row.entries[:4]] == pytest.approx([3, 0.11, 0.055, 0.11 / 3])
    assert [entry.bold for entry in row.entries[1:4]] == [False, False, True]
    everywhere = build_study(tiny, calibrators=["all"])
    assert "ECE (spline)" in table_of(everywhere, "gum-results").heads
    assert not [t for t in everywhere.tables if t.name == "gum-calibrators"]
    with pytest.raises(InputError, match="Unknown calibrator of these records 'splin'"):
        build_study(tiny, calibrators=["splin"])


def test_differences_at_a_glance(tiny):
    study = build_study(tiny)
    table, tests = table_of(study, "gum-differences"), table_of(study, "gum-tests")
    (row,) = table.rows
    for head, entry in zip(table.heads, row.entries, strict=True):
        detail = next(r for r in tests.rows if r.labels == (head, "focal"))
        assert entry.value == detail.entries[1].value
        assert entry.bold == detail.entries[-1].bold
    ece, f1 = (row.entries[table.heads.index(head)] for head in ("ECE", "F1"))
    half = stats.t.ppf(0.975, 2) * np.std([0.05, 0.05, 0.049], ddof=1) / math.sqrt(3)
    assert (ece.value, ece.half) == pytest.approx((-0.149 / 3, half))
    assert ece.text == "−0.0497 ± 0.0014 better"  # The one cell that is checked as it is printed.
    assert (f1.value, f1.bold) == (pytest.approx(0), False)
    assert tests.closed


def test_the_summary_says_what_is_there(make_record):
    records = [
        make_record(data=d, batch=b, method=m, seed=s)
        for d, b in {"conll2003": 64, "gum": 32, "wikiann-en": 64}.items()
        for m in ("cross_entropy", "focal")
        for s in range(2 + (m == "focal"))
    ]
    records.append(make_record(data="gum", batch=3, head_width=64))
    study = build_study(records)
    assert study.summary[:3] == (
        "16 records of 3 corpora (conll2003, gum, wikiann-en); minilm; heads of widths 64, 128 "
        "and depth 1; 1 to 3 seeds.",
        "2 methods: cross_entropy, focal.",
        "Trained with batch 64 (32 on gum). Compared separately: gum (batch 3).",
    )
    assert study.summary[-1] == "Some runs or numbers are missing: 3 gaps."
    wide = table_of(study, "all-corpora-identity")
    assert [title for title, _ in wide.groups] == ["conll2003", "gum", "wikiann-en"]
    assert wide.note.endswith(study.summary[2])


def test_widths_are_a_detail_where_they_are_averaged(make_record):
    records = [make_record(head_width=w, seed=s) for w in (64, 128) for s in range(2)]
    names = {t.name: t.closed for t in build_study(records).tables if "results" in t.name}
    assert names == {"gum-results": True}  # The averages have every method.
    records += [make_record(method="focal", seed=s) for s in range(2)]
    study = build_study(records)
    names = {t.name: t.closed for t in study.tables if "results" in t.name}
    assert names == {"gum-results-128": False, "gum-results": True}
    whole = {row.labels: row.entries for row in table_of(study, "gum-results").rows}
    for row in table_of(study, "gum-results-128").rows:
        assert [e.to_dict() for e in row.entries] == [e.to_dict() for e in whole[row.labels]]


def test_the_strongest_corruption_at_a_glance(make_record):
    names = ["casing-1", "typos-1", "typos-5", "wnut17"]
    records = [make_record(ece=0.1, shift=names, seed=s) for s in range(2)]
    for record in records:
        for parts in record.results.values():
            parts["shift"]["casing-1"] = parts["test"]
    table = table_of(build_study(records), "gum-shift")
    each = ["accuracy", "ECE", "ECE (T)"]
    assert table.full_heads == (
        "seeds", *(f"{place} {head}" for place in ("test", "typos 5", "wnut17") for head in each),
    )  # fmt: skip
    assert [e.value for e in table.rows[0].entries[1:]] == pytest.approx(
        [0.95, 0.1, 0.05, 0.92, 0.13, 0.08, 0.91, 0.14, 0.09]
    )
    assert "No number changes with casing 1." in table.note


def test_extra_tables_and_sentences_of_a_caller(tiny):
    def mine(inputs):
        assert inputs.baseline == "cross_entropy"
        assert {run.seed for run in inputs.runs} == {0, 1, 2}
        assert [run.key for run in inputs.complete] == [run.key for run in inputs.runs]
        row = TableRow(("focal",), (TableEntry("7"),), (inputs.runs[0].key,))
        over, of_gum = (
            Table("results", "Mine", ("method",), ("number",), (row,), unit=unit)
            for unit in ("", "gum")
        )
        return Extra([over, of_gum], ["Seven."])

    study, plain = build_study(tiny, extra_tables=mine), build_study(tiny)
    names = [table.name for table in study.tables]
    assert names[:3] == ["results", "gum-results", "gum-results-2"]  # Each name once.
    assert [t.rows for t in study.tables[2:]] == [t.rows for t in plain.tables]
    assert study.summary == (*plain.summary, "Seven.")
    assert list(study.tables[0].rows[0].keys) in study.to_dict()["record_sets"].values()
    assert build_study(tiny, extra_tables=lambda _: Extra()).to_dict() == plain.to_dict()
