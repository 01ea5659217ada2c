"""The reproduction's own tables: claims, targets, best counts and the papers' numbers."""

import math

import numpy as np
import pytest
from benchmarks.reproduction import reproduction_tables
from benchmarks.reproduction.printed import paper_methods

from calibrant.study import build_study as build_plain

stats = pytest.importorskip("scipy.stats")

CORPORA = ("conll2003", "ncbi-disease", "wikiann-en", "gum", "wnut17")
WIDTHS = (64, 128, 200, 256)


def build_study(records, **options):
    return build_plain(records, extra_tables=reproduction_tables, **options)


def table_of(study, name):
    (found,) = [table for table in study.tables if table.name == name]
    return found


def texts(table):
    return {row.labels: [entry.text for entry in row.entries] for row in table.rows}


def test_best_counts_and_targets_come_for_every_network(two_networks):
    study = build_study(two_networks, by=["model"])
    for model, wins in (("small", "2"), ("large", "0")):
        best = table_of(study, f"best-model-{model}")
        assert texts(best)["head_noise",][best.heads.index("ECE")] == wins
        target = table_of(study, f"target-model-{model}")
        assert target.title == f"Which recipe to take (model {model})"
        assert {key for row in target.rows for key in row.keys} == {
            r.recipe.key for r in two_networks if r.recipe.model == model
        }


def test_best_counts_by_hand(make_record):
    ece = {"cross_entropy": 0.1, "focal": 0.05}
    records = [
        make_record(data=d, method=m, seed=s, f1=0.5 + 0.01 * s, ece=ece[m])
        for d in ("gum", "wnut17")
        for m in ece
        for s in range(3)
    ]
    rows = texts(table_of(build_study(records), "best"))
    assert rows["focal",][:3] == ["2", "2", "2"]
    assert rows["cross_entropy",][:3] == ["2", "0", "0"]


def test_the_target_by_hand(make_record):
    # APCR = F1² / ECE as trained: 2.5, 5 and 10; with temperature twice that.
    ece = {"cross_entropy": 0.1, "avuc": 0.05, "focal": 0.025}
    records = [
        make_record(data=d, method=m, seed=s, f1=0.5 - 0.004 * (m == "focal"), ece=ece[m])
        for d in ("gum", "wnut17")
        for m in ece
        for s in range(3)
    ]
    for record in records:  # On wnut17 focal loses too much where it is chosen.
        if (record.recipe.data, record.recipe.method) == ("wnut17", "focal"):
            for parts in record.results.values():
                parts["valid"] = {**parts["valid"], "entity_f1": 0.4}
    table = table_of(build_study(records), "target")
    rows = {row.labels: row.entries for row in table.rows}
    assert len(rows) == 6
    multiple = 0.496**2 / 0.025 / (0.5**2 / 0.05)
    assert rows["focal", "identity"][0].value == pytest.approx(multiple)
    assert rows["focal", "temperature"][0].value == pytest.approx(2 * multiple)
    assert rows["focal", "temperature"][1].text == "−0.40 ± 0.00"
    assert rows["avuc", "identity"][0].text == "1.00 ± 0.00"
    assert [entry.text for entry in rows["focal", "temperature"]][-2] == "2 of 2"
    assert [entry.bold for entry in rows["focal", "temperature"]][:-1] == [True] * 5
    assert [entry.bold for entry in rows["focal", "identity"]][:-1] == [False] * 5
    assert "avuc on gum, wnut17" in table.note
    (reach,) = [
        sentence for sentence in build_study(records).summary if sentence.startswith("In hindsight")
    ]
    assert reach == (
        "In hindsight, of 6 recipes the target is reached on at most 2 of 2: by focal with "
        "temperature."
    )
    assert "one for all corpora: avuc with temperature" in table.note
    assert "gum focal with temperature (× 3.94 on test)" in table.note
    assert {row.labels[0]: len(row.keys) for row in table.rows} == {
        "cross_entropy": 12,  # With those of the reference,
        "avuc": 12,
        "focal": 18,  # and of the baseline.
    }


def test_a_multiple_counts_only_where_its_interval_does(make_record):
    """A mean of 6 with an interval of ± 6 has not reached 3."""
    ece = {0: 0.02, 1: 0.0125}
    records = [make_record(f1=0.5, ece=0.1, seed=s) for s in ece]
    records += [make_record(method="focal", f1=0.5, ece=e, seed=s) for s, e in ece.items()]
    table = table_of(build_study(records), "target")
    entries = {row.labels: row.entries for row in table.rows}["focal", "identity"]
    assert entries[0].value > 3 > entries[0].value - entries[0].half
    assert not entries[0].bold
    assert entries[-2].text == "0 of 1"


def test_the_target_counts_each_seed_once(make_record):
    """Runs of one seed at several widths are not independent: the interval is that over seeds."""
    ece = {(64, 0): 0.1, (128, 0): 0.05, (64, 1): 0.04, (128, 1): 0.02}
    records = [make_record(f1=0.5, ece=0.1, head_width=w, seed=s) for w, s in ece]
    records += [
        make_record(method="focal", f1=0.45, ece=e, head_width=w, seed=s)
        for (w, s), e in ece.items()
    ]
    # The best APCR of the paper's rows, with one seed: no reference beside two.
    records += [make_record(method="avuc", f1=0.9, ece=0.01, head_width=64)]
    table = table_of(build_study(records), "target")
    rows = {row.labels: row.entries for row in table.rows}
    multiple, points = rows["focal", "identity"][:2]
    seeds = [0.81 * (1 + 2) / 2, 0.81 * (2.5 + 5) / 2]
    assert (multiple.value, multiple.n) == (pytest.approx(sum(seeds) / 2), 2)
    assert multiple.half == pytest.approx(stats.t.ppf(0.975, 1) * (seeds[1] - seeds[0]) / 2)
    assert "cross_entropy on gum" in table.note
    assert not points.bold
    after = rows["focal", "temperature"]
    assert after[0].value > 3  # Not on target: it costs five points.
    assert [entry.bold for entry in after[:3]] == [False] * 3
    assert " 2 of 6 recipes could not be chosen" in table.note  # Avuc, with either calibrator.


def test_test_numbers_have_no_word_in_what_validation_chooses(make_record):
    methods = ("cross_entropy", "avuc", "head_noise", "focal", "mmce")
    corpora = [(d, m, s) for d in ("gum", "wnut17") for m in methods for s in range(3)]
    scores = []
    for best in ("cross_entropy", "avuc", "head_noise"):  # On test, by far.
        records = [make_record(data=d, method=m, seed=s, f1=0.8) for d, m, s in corpora]
        for record in records:
            plain = record.results["identity"]
            found = 100.0 if record.recipe.method == best else 1.0
            plain["test"] = {**plain["test"], "apcr": found}
        table = table_of(build_study(records), "target")
        assert f"{best} on gum" in table.note
        scores.append([(row.labels, row.entries[-1].value) for row in table.rows])
    assert scores[0] == scores[1] == scores[2]


def cross_validated(records, apcr):
    """Records whose calibrators have numbers of sentences that they were not fitted on."""
    for record in records:
        parts = record.results["temperature"]
        found = apcr[record.recipe.method]
        parts["cross_validated"] = {**parts["valid"], "apcr": found}
    return records


def test_what_a_map_was_not_fitted_on_decides(make_record):
    ece = {"cross_entropy": 0.1, "focal": 0.025}
    records = [
        make_record(data=d, method=m, seed=s, f1=0.5, ece=ece[m])
        for d in ("gum", "wnut17")
        for m in ece
        for s in range(3)
    ]
    table = table_of(build_study(records), "target")
    assert table.rows[0].labels == ("focal", "temperature")  # × 8 where it was fitted
    assert "not cross-validated" in table.note
    cross_validated(records, {"cross_entropy": 5.0, "focal": 7.5})
    study = build_study(records)
    table = table_of(study, "target")
    assert table.rows[0].labels == ("focal", "identity")  # × 4 against × 3
    assert [row.entries[-1].text for row in table.rows] == ["4.00", "3.00", "2.00", "1.00"]
    assert "(cross-validated: each sentence" in table.note
    assert any("one for all corpora: focal with identity" in sentence for sentence in study.summary)
    del records[0].results["temperature"]["cross_validated"]  # Two seeds are left to judge by.
    again = table_of(build_study(records), "target")
    assert [row.labels for row in again.rows] == [row.labels for row in table.rows]
    assert "(cross-validated: each sentence" in again.note
    del records[1].results["temperature"]["cross_validated"]
    table = table_of(build_study(records), "target")
    found = {row.labels: row.entries[-1].text for row in table.rows}
    assert found["cross_entropy", "temperature"] == ""  # One seed left to judge by.
    assert found["focal", "temperature"] == "3.00"
    assert "1 of 4 recipes could not be chosen" in table.note
    for record in records:  # Where no record of a corpus has it, what was fitted there is taken.
        if record.recipe.data == "gum":
            record.results["temperature"].pop("cross_validated", None)
    table = table_of(build_study(records), "target")
    assert "(cross-validated, but on gum by the sentences" in table.note
    found = {row.labels: row.entries[-1].value for row in table.rows}
    assert found["focal", "temperature"] == pytest.approx((8 * 3) ** 0.5)


def test_a_map_is_of_the_runs_that_were_measured_with_it(make_record):
    """One that came later than some of the records counts where it is; a NaN is not left out."""
    records = [make_record(f1=0.5, ece=0.1, seed=s) for s in range(4)]
    records += [make_record(method="focal", f1=0.5, ece=0.1, seed=s) for s in range(4)]
    for record in records:
        known = record.results["temperature"]
        if record.recipe.seed > 1:
            record.results["spline"] = {"valid": known["valid"], "test": dict(known["test"])}
    study = build_study(records)
    table = table_of(study, "gum-calibrators")
    place = table.full_heads.index("ECE spline")
    assert [row.entries[place].text for row in table.rows] == ["0.0500 (2)"] * 2
    assert {row.entries[place].n for row in table.rows} == {2}
    rows = {row.labels: row.entries for row in table_of(study, "target").rows}
    assert (rows["focal", "spline"][0].value, rows["focal", "spline"][0].n) == (2, 2)
    assert rows["focal", "spline"][-1].text == "2.00"
    assert "On validation it has × 2.00; next is" in table_of(study, "target").note
    records[-1].results["spline"]["test"]["ece"] = math.nan
    records[-1].results["spline"]["test"]["apcr"] = math.nan
    study = build_study(records)
    assert table_of(study, "gum-calibrators").rows[1].entries[place].text == "– (2)"
    assert ("focal", "spline") not in [row.labels for row in table_of(study, "target").rows]
    for record in records[4:]:
        record.results.pop("spline", None)
    table = table_of(build_study(records), "gum-calibrators")
    assert [row.entries[place].text for row in table.rows] == ["0.0500 (2)", ""]


def test_what_lacks_a_corpus_or_a_second_seed_is_shown_but_not_chosen(make_record):
    ece = {"cross_entropy": 0.1, "focal": 0.025, "mmce": 0.01, "sece": 0.01}
    records = [
        make_record(data=d, method=m, seed=s, f1=0.5, ece=ece[m])
        for d in ("gum", "wnut17")
        for m in ece
        for s in range(3)
        if (d, m) != ("gum", "sece") and ((d, m) != ("gum", "mmce") or s == 0)
    ]
    study = build_study(records)
    table = table_of(study, "target")
    assert table.rows[0].labels == ("focal", "temperature")
    rows = {row.labels: [entry.text for entry in row.entries] for row in table.rows}
    assert rows["sece", "temperature"] == ["", "", "20.00 ± 0.00", "0.00 ± 0.00", "1 of 1", ""]
    assert rows["mmce", "temperature"] == [
        "20.00", "0.00", "20.00 ± 0.00", "0.00 ± 0.00", "1 of 2", "",
    ]  # fmt: skip
    ranks = table_of(study, "ranks")
    assert [row.labels[0] for row in ranks.rows[:-1]] == ["cross_entropy", "focal"]
    assert [len(row.keys) for row in ranks.rows[:-1]] == [6, 6]
    assert "Left out: mmce (too few seeds on gum), sece (too few seeds on gum)." in ranks.note
    assert "gum: any run of sece." in study.missing


def test_without_the_papers_rows_there_is_no_target(make_record):
    records = [make_record(data=d, method="focal") for d in ("gum", "wnut17")]
    assert "target" not in [table.name for table in build_study(records).tables]


def test_how_often_best_counts_the_papers_cells(make_record):
    records = [
        make_record(data=d, method=m, head_width=w)
        for d in CORPORA
        for m in paper_methods()
        for w in WIDTHS
    ]
    table = table_of(build_study(records), "best")
    assert table.title == "How often best, of 20 cells"
    paper = {row.labels[0]: [entry.value for entry in row.entries[-3:]] for row in table.rows}
    # The paper says that its two rows have the better APCR "12 times out of 20".
    assert paper["head_noise"][2] + paper["head_noise_error_regularization"][2] == 12
    counts = np.array([[entry.value for entry in row.entries] for row in table.rows])
    assert counts.sum(axis=0)[:3].tolist() == [20, 20, 20]


def test_claims_by_hand(make_record):
    # ECE of head_noise minus that of the baseline, by corpus: better twice, once surely.
    change = {"gum": (-0.01, -0.011, -0.0105), "wnut17": (-0.02, 0.01, -0.001),
              "conll2003": (0.001, 0.001, -0.0001)}  # fmt: skip
    records = [
        make_record(data=d, method=m, seed=s, f1=0.5, ece=0.1 + (m == "head_noise") * c)
        for d, changes in change.items()
        for s, c in enumerate(changes)
        for m in ("cross_entropy", "head_noise")
    ]
    p = sorted(stats.ttest_1samp(changes, 0).pvalue for changes in change.values())
    assert 3 * p[0] < 0.05 < p[1]
    study = build_study(records)
    rows = texts(table_of(study, "claims"))
    assert rows["head_noise", "ECE"] == ["2 of 3", "1 of 3", "0 of 3"]
    assert rows["head_noise", "F1"] == ["0 of 3", "0 of 3", "0 of 3"]
    (sentence,) = [s for s in study.summary if s.startswith("head_noise against")]
    assert "ECE better on 2 of 3 (significantly on 1, significantly worse on 0)" in sentence
    assert "(T)" not in sentence


def test_claims_are_judged_for_every_network(two_networks):
    study = build_study(two_networks, by=["model"])
    table = table_of(study, "claims")
    assert table.label_heads == ("method", "model", "measure")
    small, large = (texts(table)["head_noise", m, "ECE"] for m in ("small", "large"))
    assert small == ["2 of 2", "2 of 2", "0 of 2"]
    assert large == ["0 of 2", "0 of 2", "2 of 2"]
    found = [s for s in study.summary if s.startswith("head_noise against cross_entropy (model ")]
    assert len(found) == 2
    assert len([s for s in study.summary if s.startswith("With model small: ")]) == 2


def test_many_values_have_their_choices_in_tables_alone(make_record):
    records = [
        make_record(learning_rate=rate, method=m, seed=s)
        for rate in (1e-5, 1e-4, 1e-3)
        for m in ("cross_entropy", "avuc")
        for s in range(2)
    ]
    study = build_study(records, by=["learning_rate"])
    assert "Which recipe to take: a table for each of 3 values of learning rate." in study.summary
    assert not any("Chosen on validation" in sentence for sentence in study.summary)
    assert len([t for t in study.tables if t.name.startswith("target")]) == 3


def test_one_method_with_several_maps_leaves_a_map_to_choose(make_record):
    records = [make_record(data=d, seed=s) for d in ("gum", "wnut17") for s in range(3)]
    for record in records:
        record.results["spline"] = record.results["temperature"]
    table = table_of(build_study(records), "target")
    assert len(table.rows) == 3
    assert table.groups == (("gum", 1), ("wnut17", 1), ("all", 2))  # No calibrator changes F1.
    assert "No recipe changes F1." in table.note
    assert len(table.heads) == len(table.rows[0].entries) == 4
    assert "rows that were run, as trained (cross_entropy on gum, wnut17)" in table.note
