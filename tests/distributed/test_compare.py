"""Comparisons of parts choose as those in memory do."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_audit import top_labels, weighted
from tests.distributed.test_bad_input import damage
from tests.distributed.test_fit import with_copies

import calibrant
from calibrant import Predictions
from calibrant.distributed import compare
from calibrant.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
NAMES = ["temperature", "vector", "platt", "isotonic-top-label"]


def halves(p, tmp_path):
    middle = len(p) // 2
    parts = {"valid": p[:middle], "test": p[middle:]}
    for name, half in parts.items():
        write_shards(half, tmp_path / name, [100, 1200])
    return parts, (str(tmp_path / "valid"), str(tmp_path / "test"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: random_predictions(6000),
        lambda: random_predictions(6000, sentences=7),
        lambda: weighted(random_predictions(8000)),
    ],
    ids=["rows", "sentences", "weights"],
)
def test_numbers_are_those_in_memory(make, tmp_path):
    parts, paths = halves(make(), tmp_path)
    found = compare(*paths, NAMES, bootstrap=200)
    expected = calibrant.compare(parts["valid"], parts["test"], NAMES, bootstrap=200)
    assert found.recommended == expected.recommended
    assert [row.name for row in found.rows] == [row.name for row in expected.rows]
    for mine, whole in zip(found.rows, expected.rows, strict=True):
        exact = 1e-6 if mine.name != "isotonic-top-label" else 2e-3
        for name, value in whole.metrics.items() if exact == 1e-6 else ():
            # Ranks come from a sketch, in which a confidence is off by at most 0.0003.
            assert mine.metrics[name] == pytest.approx(value, abs=1e-3), name
        for name in ("ece", "nll", "brier", "accuracy"):
            assert mine.metrics[name] == pytest.approx(whole.metrics[name], abs=exact), name
        # Folds are dealt by a hash here and by runs of neighbours in memory.
        assert mine.valid_nll == pytest.approx(whole.valid_nll, abs=0.02)
        assert mine.accuracy_change == pytest.approx(whole.accuracy_change, abs=1e-3)
    assert found.settings.valid_examples == expected.settings.valid_examples


def test_claims_are_compared(tmp_path):
    parts, paths = halves(top_labels(random_predictions(6000)), tmp_path)
    found = compare(*paths, ["temperature", "platt", "vector"], bootstrap=200)
    expected = calibrant.compare(*parts.values(), ["temperature", "platt"], bootstrap=200)
    assert found.recommended == expected.recommended
    assert found["platt"].ece == pytest.approx(expected["platt"].ece, abs=1e-6)
    assert "scores of all classes" in found.skipped["vector"]


def test_all_calibrators_share_their_passes(tmp_path):
    _, paths = halves(random_predictions(3000), tmp_path)
    found = compare(*paths, bootstrap=0)
    assert found.rows[0].ece_low is None
    assert found.skipped["ensemble-temperature"] == "These need all rows at once."
    assert len(found.rows) > 12
    assert found.fitted[found.recommended].transform(random_predictions(50)).classes == 4


def test_a_sample_without_a_mistake_is_judged_with_one(tmp_path):
    p = random_predictions(4000)
    right = Predictions.from_logits(p.scores, p.scores.argmax(axis=1))
    parts, paths = halves(right, tmp_path)
    names = ["temperature", "vector"]
    found = compare(*paths, names, bootstrap=200)
    assert "one mistake added" in found.reason
    expected = calibrant.compare(*parts.values(), names, bootstrap=200)
    assert found.recommended == expected.recommended


def test_the_same_data_are_refused(tmp_path):
    p = random_predictions(600)
    first = write_shards(p, tmp_path / "a", [100])
    second = write_shards(p[np.random.default_rng(0).permutation(600)], tmp_path / "b", [300])
    with pytest.raises(InputError, match="hold the same examples"):
        compare(str(first), str(second), ["temperature"])
    assert compare(str(first), str(second), ["temperature"], same_data=True, bootstrap=100)


def test_corrupted_copies_in_valid_are_left_out(tmp_path):
    p = random_predictions(4000)
    p = with_copies(p, (np.arange(4000) % 3 == 0) & (np.arange(4000) < 2000))
    parts, paths = halves(p, tmp_path)
    names = ["identity", "temperature"]
    found = compare(*paths, names, bootstrap=100)
    expected = calibrant.compare(parts["valid"], parts["test"], names, bootstrap=100)
    assert found.settings == expected.settings
    for mine, whole in zip(found.rows, expected.rows, strict=True):
        assert mine.metrics["nll"] == pytest.approx(whole.metrics["nll"], abs=1e-6)
        assert mine.valid_nll == pytest.approx(whole.valid_nll, abs=5e-3)  # Other folds.
    copies = p[p.groups["corruption"] != ""]
    only = str(write_shards(copies, tmp_path / "copies", [100]))
    with pytest.raises(InputError, match="Every row of VALID has a corruption"):
        compare(only, paths[1], names, bootstrap=0)


@pytest.mark.parametrize("same_data", [False, True])
def test_a_table_without_labels_is_named(same_data, tmp_path):
    good = str(write_shards(random_predictions(200), tmp_path / "good", [100]))
    (tmp_path / "none").mkdir()
    columns = {"logits": [[0.0] * 4] * 9, "label": [-100] * 9, "site": ["A"] * 9}
    pq.write_table(pa.table(columns), tmp_path / "none" / "a.parquet")
    bad = str(tmp_path / "none")
    with pytest.raises(InputError, match="TEST: every row is ignored or without a label"):
        compare(good, bad, ["temperature"], same_data=same_data)
    with pytest.raises(InputError, match="every row is ignored or without a label"):
        compare(bad, good, ["temperature"], same_data=same_data)


def test_what_is_left_out_is_counted(tmp_path):
    _, paths = halves(random_predictions(3000), tmp_path)
    damage(tmp_path / "valid" / "part-001.parquet", 1)
    (tmp_path / "test" / "part-000.parquet").write_bytes(b"PAR1 no parquet")
    found = compare(*paths, ["temperature"], bootstrap=0, skip_damaged=True)
    counted = [found.left_out[name] for name in ("row_groups", "rows", "files")]
    assert counted == [1, 550, 1]
    assert found.settings.valid_examples == 1500 - 550
    assert found.to_dict()["left_out"]["rows"] == 550


@pytest.mark.parametrize("options", [{"folds": 0}, {"folds": 1}, {"folds": 2.5}, {"bins": 0}])
def test_bad_options_are_refused_as_in_memory(options, tmp_path):
    parts, paths = halves(random_predictions(2600), tmp_path)
    for run, data in ((compare, paths), (calibrant.compare, parts.values())):
        with pytest.raises(InputError, match=next(iter(options))):
            run(*data, ["temperature"], bootstrap=0, **options)


def test_one_group_is_too_few(tmp_path):
    _, paths = halves(random_predictions(2600, sentences=1300), tmp_path)
    with pytest.raises(InputError, match="one fold has all rows"):
        compare(*paths, ["temperature"], bootstrap=0)
