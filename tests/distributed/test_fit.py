"""Fits from sums of parts have the parameters of fits in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_audit import top_labels, weighted

import calibrant
from calibrant import Predictions
from calibrant.calibrators import (
    CALIBRATORS,
    CalibrationWarning,
    Temperature,
    TopLabelIsotonic,
    calibrator_class,
    load_calibrator,
)
from calibrant.distributed import fit
from calibrant.distributed.engines import open_dataset
from calibrant.distributed.fitting import Source, is_distributed, survey
from calibrant.distributed.passes import Passes
from calibrant.distributed.reading import reader_of
from calibrant.errors import InputError
from calibrant.files import write

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
# How far the learned values may be from those of the fit in memory.
EXACT = {
    "identity": 0.0,
    "temperature": 1e-8,
    "vector": 1e-6,
    "structured-vector": 1e-6,
    "matrix": 1e-6,
    "dirichlet": 1e-6,
    "structured-matrix": 1e-6,
    "platt": 1e-6,
    "beta": 1e-6,
    "quadratic": 1e-6,
    "quadratic-top-label": 1e-6,
}
# Of calibrators whose steps lie where bins of log-odds do: how far probabilities may be.
RANKED = dict.fromkeys(
    ("isotonic", "isotonic-top-label", "centred-isotonic", "centred-isotonic-top-label",
     "venn-abers", "venn-abers-top-label"), 2e-3
)  # fmt: skip
BINNED = dict.fromkeys(("histogram", "histogram-top-label", "bbq", "spline"), 3e-3)


def unbalanced(n=5000, classes=4):
    """Classes that are wrong in different directions, so that every parameter matters."""
    p = random_predictions(n, classes)
    scale, shift = 1 + 0.3 * np.arange(classes), 0.4 * np.arange(classes)
    return Predictions.from_logits(p.scores * scale.astype(np.float32) + shift, p.labels)


def both(p, name, tmp_path, cuts=(10, 1700, 1701, 4000)):
    folder = write_shards(p, tmp_path / "shards", cuts, groups=2)
    return fit(str(folder), name), calibrator_class(name)().fit(calibrant.read(folder))


def test_every_calibrator_of_sums_is_tested():
    known = {name for name, row in CALIBRATORS.items() if is_distributed(row.calibrator())}
    assert known == {*EXACT, *RANKED, *BINNED}


@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_those_of_the_fit_in_memory(name, tmp_path):
    mine, whole = both(unbalanced(), name, tmp_path)
    for key, value in whole.learned().items():
        np.testing.assert_allclose(mine.learned()[key], value, rtol=EXACT[name], atol=EXACT[name])
    for key in ("n", "ignored", "kind", "warnings"):
        assert mine.fitted_on_[key] == whole.fitted_on_[key], key
    for key in ("nll_before", "nll_after"):
        assert mine.fitted_on_[key] == pytest.approx(whole.fitted_on_[key], abs=1e-8)
    assert mine.fell_back_ == whole.fell_back_


@pytest.mark.parametrize("name", {**RANKED, **BINNED})
def test_curves_are_those_of_the_fit_in_memory(name, tmp_path):
    p = unbalanced()
    mine, whole = both(p, name, tmp_path)
    most = {**RANKED, **BINNED}[name]
    gap = np.abs(mine.transform(p).probabilities() - whole.transform(p).probabilities())
    assert gap.mean() <= most  # Where two steps meet, single rows may be further off.
    loose = 2e-3 if name.startswith("centred") else 5e-4
    assert mine.fitted_on_["nll_after"] == pytest.approx(whole.fitted_on_["nll_after"], abs=loose)


def one_bin(n=4000):
    """Confidences of one bin, of which the higher half is right: the worst for a sketch."""
    c = np.linspace(0.7 + 1e-6, 0.7 + 1e-5, n)
    return c, np.arange(n) >= n // 2


def no_doubt(n=4000):
    """Only 0 and 1: infinite log-odds."""
    random = np.random.default_rng(0)
    return random.choice([1.0, 1.0, 0.5], n), random.random(n) < 0.8


def few_ties(n=4000):
    random = np.random.default_rng(0)
    c = random.choice([0.5, 0.6, 0.6 + 1e-9, 1 - 1e-12, 1.0], n)
    return c, random.random(n) < c**2


def smooth(n=4000):
    random = np.random.default_rng(0)
    c = 0.5 + random.random(n) / 2
    return c, random.random(n) < c**2


@pytest.mark.parametrize("make", [one_bin, no_doubt, few_ties, smooth])
def test_isotonic_of_bins_misses_the_least_squared_error_by_no_more_than_promised(make, tmp_path):
    confidence, right = make()
    p = Predictions.from_probabilities(confidence, right.astype(int))
    p.write(tmp_path / "a.parquet")
    bins = np.floor((np.log(confidence) - np.log1p(-np.minimum(confidence, 1 - 2**-48))) * 819.2)
    most = np.unique(bins, return_counts=True)[1].max()
    errors = []
    for fitted in (
        fit(str(tmp_path / "a.parquet"), TopLabelIsotonic(floor=0, keep_prediction=False)),
        TopLabelIsotonic(floor=0, keep_prediction=False).fit(p),
    ):
        errors.append(np.mean((fitted.transform(p).probabilities()[:, 1] - right) ** 2))
    assert errors[1] - 1e-12 <= errors[0] <= errors[1] + 4.5 * most / len(p)
    if make is not one_bin:  # There it is blind, and far from useless elsewhere.
        assert errors[0] <= errors[1] + 1e-3


@pytest.mark.parametrize(
    "name", ["temperature", "platt", "beta", "vector", "isotonic", "histogram"]
)
def test_probabilities_of_exactly_0_and_1_are_fitted(name, tmp_path):
    confidence, right = no_doubt()
    p = Predictions.from_probabilities(confidence, right.astype(int))
    mine, whole = both(p, name, tmp_path, cuts=(1000,))
    assert np.isfinite(mine.fitted_on_["nll_after"])
    assert mine.fitted_on_["nll_after"] == pytest.approx(whole.fitted_on_["nll_after"], abs=1e-4)


def with_copies(p, corrupted):
    """Return the rows; those of ``corrupted`` are copies of which damage changed the scores."""
    noise = np.random.default_rng(1).normal(size=p.scores.shape) * 4 * corrupted[:, None]
    corruption = np.where(corrupted, "typos-3", "")
    groups = {**p.groups, "corruption": corruption}
    return Predictions.from_logits(p.scores + noise, p.labels, groups=groups)


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_corrupted_copies_are_left_out(name, tmp_path):
    """As without an engine: damaged text makes any model look worse than it is."""
    rows = np.arange(4000)
    p = with_copies(random_predictions(4000), (rows % 3 == 0) | (rows >= 2500))
    folder = write_shards(p, tmp_path / "shards", [10, 1700, 2600])  # The last has copies alone.
    clean = p[p.groups["corruption"] == ""]
    found, whole = fit(str(folder), name), calibrator_class(name)().fit(clean)
    for key, value in whole.learned().items():
        np.testing.assert_allclose(found.learned()[key], value, rtol=1e-6)
    assert (found.fitted_on_["n"], found.fitted_on_["copies"]) == (len(clean), 4000 - len(clean))
    one = str(folder / "part-003.parquet")  # Where nothing else is there, copies count.
    assert fit(one, name).fitted_on_["n"] == 1400


@pytest.mark.parametrize("name", ["temperature", "vector", "platt", "isotonic-top-label"])
def test_sample_weights_count(name, tmp_path):
    p = weighted(random_predictions())
    mine, whole = both(p, name, tmp_path)
    exact = 2e-4 if name in RANKED else 1e-6
    assert mine.fitted_on_["nll_after"] == pytest.approx(whole.fitted_on_["nll_after"], abs=exact)


@pytest.mark.parametrize("name", ["temperature", "platt", "isotonic-top-label"])
def test_claims_are_fitted(name, tmp_path):
    p = top_labels(random_predictions())
    mine, whole = both(p, name, tmp_path)
    assert mine.fitted_on_["kind"] == whole.fitted_on_["kind"] == "top-label"
    assert mine.claims_ == 1
    exact = 2e-4 if name in RANKED else 1e-6
    assert mine.fitted_on_["nll_after"] == pytest.approx(whole.fitted_on_["nll_after"], abs=exact)


def test_probabilities_with_zeros_get_the_same_floor(tmp_path):
    p = random_predictions(3000)
    votes = np.random.default_rng(0).multinomial(10, p.probabilities().astype(np.float64) * 0.999)
    q = Predictions.from_probabilities(votes / 10, p.labels)
    mine, whole = both(q, "temperature", tmp_path, cuts=(1000,))
    assert mine.floor_ == pytest.approx(whole.floor_)
    assert mine.temperature_ == pytest.approx(whole.temperature_, rel=1e-6)
    assert mine.fitted_on_["warnings"] == whole.fitted_on_["warnings"]


def test_a_sample_without_a_mistake_stops_at_the_same_temperature(tmp_path):
    p = random_predictions(2000)
    right = Predictions.from_logits(p.scores, p.scores.argmax(axis=1))
    mine, whole = both(right, "temperature", tmp_path, cuts=(900,))
    assert mine.temperature_ == pytest.approx(whole.temperature_, rel=1e-6)
    assert mine.fitted_on_["warnings"] == whole.fitted_on_["warnings"]
    mine, whole = both(right, "vector", tmp_path / "again", cuts=(900,))
    assert mine.fell_back_ == whole.fell_back_


def test_large_data_start_from_a_sample(tmp_path):
    p = unbalanced(120_000, 3)
    path = tmp_path / "large.parquet"
    write(iter(p.chunks(20_000)), path)
    mine, whole = fit(str(path), "vector"), calibrator_class("vector")().fit(p)
    np.testing.assert_allclose(mine.weights_, whole.weights_, rtol=1e-6, atol=1e-6)
    assert mine.fitted_on_["passes"] <= 12


def test_a_fitted_calibrator_is_saved_and_loaded(tmp_path):
    p = unbalanced(2000)
    mine, _ = both(p, "platt", tmp_path, cuts=(500,))
    mine.save(tmp_path / "platt.json")
    again = load_calibrator(tmp_path / "platt.json")
    np.testing.assert_array_equal(again.transform(p).scores, mine.transform(p).scores)


def test_what_needs_all_rows_is_refused(tmp_path):
    folder = write_shards(random_predictions(100), tmp_path / "shards", [50])
    with pytest.raises(InputError, match=r"ensemble-temperature needs all rows at once.*vector"):
        fit(str(folder), "ensemble-temperature")


def test_warnings_are_shown(tmp_path):
    same = Predictions.from_logits(np.ones((100, 3)), np.arange(100) % 3)
    folder = write_shards(same, tmp_path / "shards", [50])
    with pytest.warns(CalibrationWarning, match="all logits of an example are equal"):
        assert fit(str(folder), "temperature").temperature_ == 1


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_ignored_rows_of_parts_without_others_are_counted(name, tmp_path):
    for number, kept in enumerate((300, 0, 200)):
        rows = np.arange(300)
        labels = np.where(rows < kept, rows % 3 > 0, -100).tolist()
        table = pa.table({"probabilities": (0.2 + rows / 500).tolist(), "label": labels})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    found = fit(tmp_path, name)
    assert (found.fitted_on_["n"], found.fitted_on_["ignored"]) == (500, 400)
    with pytest.raises(InputError, match="every row is ignored"):
        fit(tmp_path / "1.parquet", name)


def test_few_labels_among_many_rows_are_found(tmp_path):
    """The sample is of rows with labels: a table may have few of them."""
    n, known = 60_000, [5, 4321, 59_999]
    random = np.random.default_rng(0)
    logits = random.normal(size=(n, 3)).astype(np.float32)
    labels = np.full(n, -100)
    labels[known] = [0, 1, 2]
    scores = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), 3)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logits": scores, "label": labels}), path, row_group_size=10_000)
    found, whole = fit(str(path), "temperature"), Temperature().fit(calibrant.read(path))
    assert found.temperature_ == pytest.approx(whole.temperature_, rel=1e-8)
    counts = [{k: c.fitted_on_[k] for k in ("n", "ignored")} for c in (found, whole)]
    assert counts == [{"n": 3, "ignored": n - 3}] * 2


def test_the_sample_of_many_labels_is_no_larger(tmp_path):
    random = np.random.default_rng(0)
    scores = random.random((3000, 40))
    labels = (random.random(scores.shape) < scores).astype(int)
    columns = {"probabilities": scores.tolist(), "label": labels.tolist()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    opened = open_dataset(str(tmp_path / "a.parquet"))
    reader = reader_of(opened.dataset, kind="multi-label", schemas=opened.schemas)
    passes = Passes(opened.dataset, reader)
    known = passes.one(lambda ask: survey(ask, Source.of(passes)))
    assert known.n == 120_000
    assert 10_000 < len(known.sample) < 25_000
