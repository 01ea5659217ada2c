"""Probabilities with zeros or few digits: csv files, forests, nearest neighbours."""

import numpy as np
import pytest
import torch
from calibrator_samples import NAMES, as_probabilities, overconfident, quiet_fit, tagged
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from calibrant import Predictions, brier, ece, nll
from calibrant.calibrators import CALIBRATORS, Temperature, load_calibrator
from calibrant.calibrators.backend import FLOOR
from calibrant.calibrators.export import to_torch
from calibrant.calibrators.likelihood import example_nll, fitted_floor, probability_floor
from calibrant.calibrators.scalar import TopLabel

# Calibrators one against the rest that take probabilities give 0 a value of its own.
FLOORED = [
    name
    for name, (calibrator, *_) in CALIBRATORS.items()
    if calibrator.changes_scores
    and (calibrator.takes == "logits" or issubclass(calibrator, TopLabel))
]
maps = pytest.mark.parametrize("name", FLOORED)


def rounded(predictions, digits=4):
    p = as_probabilities(predictions)
    return p.with_scores(p.scores.round(digits), "probabilities")


def halves(n, **options):
    p = tagged(n=2 * n, **options)
    return p[:n], p[n:]


@maps
def test_rounding_to_four_digits_leaves_the_map_as_it_was(name):
    train, test = halves(3000, scale=2.0)
    assert (rounded(train).scores == 0).mean() > 0.03
    exact = quiet_fit(CALIBRATORS[name].calibrator(), as_probabilities(train))
    coarse = quiet_fit(CALIBRATORS[name].calibrator(), rounded(train))
    assert not coarse.fell_back_
    before, after = exact.transform(as_probabilities(test)), coarse.transform(rounded(test))
    assert nll(after) == pytest.approx(nll(before), rel=0.01)
    assert ece(after) < ece(before) + 0.005


def test_the_floor_of_1e_38_would_let_a_few_rows_rule():
    train, _ = halves(3000, scale=3.0)
    coarse = quiet_fit(Temperature(), rounded(train))
    assert coarse.temperature_ == pytest.approx(3.0, rel=0.1)
    low = Predictions.from_logits(np.log(np.maximum(rounded(train).scores, FLOOR)), train.labels)
    assert quiet_fit(Temperature(), low).temperature_ > 4


@pytest.mark.parametrize(("digits", "close"), [(3, 0.1), (4, 0.05)])
def test_a_sharp_network_keeps_its_temperature_when_its_probabilities_are_rounded(digits, close):
    """Scores as a wide ResNet has them: most of the probabilities are rounded to 0."""
    p = overconfident(n=12000, classes=10, scale=4.0)
    sharp, new = p[:6000], p[6000:]
    assert (rounded(sharp, digits).scores == 0).mean() > 0.4
    exact = quiet_fit(Temperature(), sharp)
    coarse = quiet_fit(Temperature(), rounded(sharp, digits))
    assert coarse.temperature_ == pytest.approx(exact.temperature_, rel=close)
    assert ece(coarse.transform(rounded(new, digits))) < ece(exact.transform(new)) + 0.1 * close
    half = probability_floor(rounded(sharp, digits))
    at_half = Predictions.from_logits(
        np.log(np.maximum(rounded(sharp, digits).scores, half)), sharp.labels
    )
    assert quiet_fit(Temperature(), at_half).temperature_ < (1 - 1.4 * close) * exact.temperature_


def test_zeros_that_are_never_right_do_not_lower_the_floor_without_end():
    scores = np.tile([[0.9, 0.1, 0.0]], (1000, 1))
    labels = np.arange(1000) % 10 == 0
    p = Predictions.from_probabilities(scores, labels.astype(int))
    assert 1e-4 < fitted_floor(p) <= probability_floor(p)


def test_no_zeros_leave_the_floor():
    p = Predictions.from_probabilities([[0.73, 0.27], [0.6, 0.4]] * 5, [0, 1] * 5)
    assert fitted_floor(p) == probability_floor(p)
    assert fitted_floor(overconfident(n=50)) == FLOOR


@pytest.fixture(scope="module")
def votes():
    """Validation and test probabilities of classifiers that vote."""
    X, y = make_classification(
        3000, 20, n_informative=8, n_classes=4, flip_y=0.1, n_clusters_per_class=3, random_state=0
    )
    models = {
        "forest": RandomForestClassifier(20, random_state=0),
        "large forest": RandomForestClassifier(100, min_samples_leaf=3, random_state=0),
        "knn": KNeighborsClassifier(4),
        "weighted knn": KNeighborsClassifier(10, weights="distance"),
    }
    made = {}
    for name, model in models.items():
        p = Predictions.from_probabilities(model.fit(X[:1000], y[:1000]).predict_proba(X), y)
        made[name] = p[1000:2000], p[2000:]
    return made


@pytest.mark.parametrize("digits", [None, 4])
@pytest.mark.parametrize("model", ["forest", "large forest", "knn", "weighted knn"])
@pytest.mark.parametrize("name", ["temperature", "platt", "beta", "vector", "dirichlet"])
def test_forests_and_neighbours_get_better(votes, model, name, digits):
    valid, test = (p if digits is None else rounded(p, digits) for p in votes[model])
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), valid)
    after = fitted.transform(test)
    assert np.isfinite(nll(after))
    assert nll(after) < 1.1  # Of four classes, log 4 = 1.39 says nothing.
    assert ece(after) < ece(test)
    assert brier(after) < brier(test)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floor_is_half_of_what_the_source_can_say(dtype):
    def floor(rows):
        scores = np.array(rows, dtype)
        return probability_floor(Predictions.from_probabilities(scores, np.zeros(len(rows), int)))

    assert floor([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]]) == 0.125
    assert floor([[1.0, 0.0]]) == 0.5
    third = np.float64(dtype(1 / 3))
    assert floor([[1 / 3, 1 / 3, 1 / 3]]) in (FLOOR, third / 2)
    if dtype is not np.float16:
        assert floor([[0.73, 0.27], [0.6, 0.4]]) == pytest.approx(0.005)
        assert floor([[0.7312, 0.2688], [0.6, 0.4]]) == pytest.approx(0.00005)


def test_logits_and_unrounded_probabilities_keep_the_smallest_floor():
    p = overconfident(n=50)
    assert probability_floor(p) == FLOOR
    assert probability_floor(as_probabilities(p)) == FLOOR
    tiny = np.array([[1.0, 1e-45], [1.0, 0.0]], np.float32)
    assert probability_floor(Predictions.from_probabilities(tiny, [0, 0])) == FLOOR


@pytest.mark.parametrize("rows", [1, 50, *(c * 43_690 + d for c in (1, 2) for d in (-1, 0, 1))])
def test_floor_does_not_depend_on_chunks(rows):
    """A chunk has 2¹⁷ scores: 43,690 rows of three classes."""
    scores = np.full((rows, 3), 1 / 3).round(2)
    scores[:, 0] = 0.34
    p = Predictions.from_probabilities(scores, np.zeros(rows, int))
    assert probability_floor(p) == pytest.approx(0.005)
    scores[-1] = [0.98, 0.02, 0.0]
    assert probability_floor(p.with_scores(scores, "probabilities")) == pytest.approx(0.01)


@maps
def test_floor_is_saved_exported_and_applied_to_new_zeros(name, tmp_path):
    train = rounded(tagged(n=400, scale=4.0))
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), train)
    find_floor = fitted_floor if fitted.takes == "logits" else probability_floor
    assert fitted.floor_ == find_floor(train) <= 0.00005 + 1e-12
    fitted.save(tmp_path / "map.json")
    again = load_calibrator(tmp_path / "map.json")
    new = np.array([[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]])
    groups = {"position": np.zeros(2, np.int64), "sentence": np.arange(2)}
    result = fitted.transform_scores(new, "probabilities", groups)
    # A 0 is what the floor stands for: given as such, it gives the same.
    floored = np.maximum(new, fitted.floor_)
    p = Predictions.from_probabilities(new, [0, 0], label_names=NAMES, groups=groups)
    signals = fitted.signal_columns(p)
    same = fitted.apply(floored, "probabilities", {**fitted.learned(), **groups, **signals})
    np.testing.assert_allclose(result, same, rtol=1e-12)
    np.testing.assert_array_equal(again.transform(p).scores, result)
    columns = [torch.as_tensor(groups[g]) for g in fitted.needs_groups]
    columns += [torch.as_tensor(column) for column in signals.values()]
    module = to_torch(fitted)(torch.as_tensor(new), *columns)
    np.testing.assert_allclose(module, result, rtol=1e-9)


def test_identity_keeps_its_zeros_and_does_not_fall_back():
    p = Predictions.from_probabilities([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    identity = quiet_fit(CALIBRATORS["identity"].calibrator(), p)
    assert not identity.fell_back_
    assert (identity.transform(p).scores == p.scores).all()


def test_warning_names_the_floor():
    p = Predictions.from_probabilities([[1.0, 0.0], [0.5, 0.5], [0.9, 0.1]], [1, 0, 0])
    fitted = quiet_fit(Temperature(), p)
    assert "taken as 0.05 (3.0 nats each). Fit on logits" in fitted.fitted_on_["warnings"][0]


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n != "identity"])
def test_no_class_without_votes_becomes_impossible(name):
    """Five neighbours give a class 0, 0.2, … or 1; the label of a new example often had none."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(4, 0.5), 1200)
    votes = np.array([rng.multinomial(5, row) for row in truth]) / 5
    labels = np.array([rng.choice(4, p=row) for row in truth])
    assert (votes[np.arange(1200), labels] == 0).sum() > 100
    valid, test = (
        Predictions.from_probabilities(
            votes[i::2], labels[i::2], label_names=NAMES[:4], groups={"position": np.arange(600)}
        )
        for i in (0, 1)
    )
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), valid)
    assert nll(fitted.transform(test)) < 1.5


def test_a_map_that_fell_back_keeps_classes_without_votes_possible():
    """The NLL that it would raise counts a 0 as the floor, so identity does so too."""
    p = Predictions.from_probabilities([[0.75, 0.25, 0.0]] * 3 + [[0.5, 0.25, 0.25]], [0, 0, 2, 0])
    fitted = quiet_fit(CALIBRATORS["histogram"].calibrator(bins=1), p)
    fitted.fell_back_ = True
    result = fitted.transform(p)
    assert result.scores[0] == pytest.approx(np.array([0.75, 0.25, 0.125]) / 1.125)
    assert np.array_equal(result.scores[3], p.scores[3])
    assert nll(result) == pytest.approx(fitted.fitted_on_["nll_before"])
    assert np.array_equal(to_torch(fitted)(torch.as_tensor(p.scores)), result.scores)


@pytest.mark.parametrize("name", sorted(CALIBRATORS))
def test_fits_and_comparisons_print_one_nll_for_zeros(name):
    """A fit may learn a lower value for a 0; the NLL that it prints counts 0 as all others do."""
    p = rounded(tagged(n=1500, scale=3.0), 3)
    p = p.with_scores(p.scores * 0.996, "probabilities")  # Rows do not sum to 1 either.
    made = quiet_fit(CALIBRATORS[name].calibrator(), p)
    floor = probability_floor(p)
    assert fitted_floor(p) < floor
    assert made.fitted_on_["nll_before"] == pytest.approx(example_nll(p, floor).mean(), rel=1e-9)
    after = example_nll(made.transform(p), floor).mean()
    assert made.fitted_on_["nll_after"] == pytest.approx(after, rel=1e-6)


@pytest.mark.parametrize(
    "name", [n for n in FLOORED if not CALIBRATORS[n].calibrator().needs_groups]
)
def test_what_fell_back_is_worth_what_its_fit_prints(name):
    scores, names = [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0]] * 9, ("O", "B-PER", "I-PER")
    p = Predictions.from_probabilities(scores, [0, 1] * 9, label_names=names)
    made = quiet_fit(CALIBRATORS[name].calibrator(), p)
    after = example_nll(made.transform(p), probability_floor(p)).mean()
    assert made.fitted_on_["nll_after"] == pytest.approx(after, rel=1e-6)
