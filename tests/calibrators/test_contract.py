"""What every calibrator of the table promises."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn.base
import torch
from calibrator_samples import NAMES, as_probabilities, kinds, maps, quiet_fit, tagged
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import InputError, NotFittedError, Predictions
from calibrant.calibrators import CALIBRATORS, CalibrationWarning, calibrator_class
from calibrant.calibrators.export import to_torch
from calibrant.metrics import mean_confidence, nll

NER = ("type-temperature", "position-temperature")


def probabilities(predictions):
    return np.asarray(predictions.numpy().probabilities(), np.float64)


def test_table_names_are_the_classes_names():
    assert [row.calibrator.name for row in CALIBRATORS.values()] == list(CALIBRATORS)
    assert all(row.about for row in CALIBRATORS.values())
    assert len({row.calibrator for row in CALIBRATORS.values()}) == len(CALIBRATORS)


def test_the_error_for_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'temperature'"):
        calibrator_class("temperatur")


@maps
def test_fit_returns_self_and_learns_attributes(name):
    calibrator = calibrator_class(name)()
    before = dict(vars(calibrator))
    assert quiet_fit(calibrator, tagged()) is calibrator
    assert {k: v for k, v in vars(calibrator).items() if k in before} == before
    assert (calibrator.n_classes_, calibrator.label_names_) == (5, NAMES)
    assert isinstance(calibrator.classes_, np.ndarray)
    assert calibrator.classes_.tolist() == list(NAMES)
    where = calibrator.fitted_on_
    assert where["n"] == 500
    assert {"ignored", "nll_before", "nll_after", "version", "warnings"} <= where.keys()
    assert all(key.endswith("_") for key in calibrator.learned())
    for value in calibrator.learned().values():
        assert np.isfinite(value).all()


@maps
def test_unfitted_use_raises(name):
    calibrator, p = calibrator_class(name)(), tagged(n=20)
    for use in (calibrator.transform, lambda p: calibrator.transform_scores(p.scores, p.kind)):
        with pytest.raises(NotFittedError, match=type(calibrator).__name__):
            use(p)
    with pytest.raises(NotFittedError):
        calibrator.learned()


@maps
def test_hyperparameters_round_trip(name):
    calibrator = calibrator_class(name)()
    again = type(calibrator)(**calibrator.get_params())
    assert again.get_params() == calibrator.get_params()
    assert repr(again) == repr(calibrator)


@maps
def test_clone_and_set_params(name, fitted):
    calibrator = fitted[name]
    copy = sklearn.base.clone(calibrator)
    assert type(copy) is type(calibrator)
    assert copy.get_params() == calibrator.get_params(deep=False)
    with pytest.raises(NotFittedError):
        _ = copy.classes_
    assert not hasattr(copy, "classes_")
    assert copy.set_params(**copy.get_params()) is copy
    with pytest.raises(InputError, match=f"Unknown hyper-parameter of {name} 'nothing'"):
        copy.set_params(nothing=1)


def test_set_params_takes_effect():
    calibrator = calibrator_class("histogram")(bins=5)
    assert calibrator.set_params(bins=3).bins == 3
    assert quiet_fit(calibrator, tagged()).edges_.shape[1] == 2


def test_classes_are_numbers_without_names():
    p = Predictions.from_logits(tagged().scores, tagged().labels, groups=tagged().groups)
    assert quiet_fit(calibrator_class("temperature")(), p).classes_.tolist() == [0, 1, 2, 3, 4]


@maps
def test_repr_shows_what_was_learned(name, fitted):
    text = repr(fitted[name])
    assert text.startswith(f"<{type(fitted[name]).__name__}(")
    assert "fitted on 500 examples: " in text
    assert "\n" not in text
    for value in fitted[name].learned().keys() - {"floor_"}:
        assert fitted[name].fell_back_ or f"{value}=" in text


def test_repr_of_a_temperature():
    p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    found = repr(calibrator_class("temperature")().fit(p))
    assert found == "<Temperature(), fitted on 4 examples: temperature_=1.8205>"


@maps
@kinds
def test_never_worse_than_identity_on_validation(name, of_kind):
    for seed in range(3):
        p = of_kind(tagged(n=120, seed=seed, scale=(0.5, 1.0, 4.0)[seed]))
        calibrator = quiet_fit(calibrator_class(name)(), p)
        assert nll(calibrator.transform(p)) <= nll(p) * (1 + 1e-12)
        where = calibrator.fitted_on_
        assert where["nll_after"] == pytest.approx(nll(calibrator.transform(p)), rel=1e-9)
        assert where["nll_before"] == pytest.approx(nll(p), rel=1e-9)
        if calibrator.fell_back_:
            assert "fell back" in where["warnings"][-1]


@maps
@kinds
def test_rows_are_probabilities_and_the_rest_is_kept(fitted, name, of_kind):
    new = of_kind(tagged(n=300, seed=5))
    result = fitted[name].transform(new)
    p = probabilities(result)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert (p >= 0).all()
    assert result.label_names == new.label_names
    assert (result.labels == new.labels).all()
    assert result.groups.keys() == new.groups.keys()
    assert result.kind == fitted[name].kind_of(new.kind)


@maps
@kinds
def test_torch_equals_numpy(fitted, name, of_kind):
    new = of_kind(tagged(n=300, seed=5))
    tensor = torch.tensor(new.scores)
    result = fitted[name].transform_scores(tensor, new.kind, new.groups)
    assert isinstance(result, torch.Tensor)
    assert (result.dtype, result.device) == (tensor.dtype, tensor.device)
    expected = fitted[name].transform_scores(new.scores, new.kind, new.groups)
    # A step function may fall on the other side of an edge for an ulp of difference in p.
    close = np.isclose(result.numpy(), expected, rtol=1e-12, atol=1e-13).all(axis=1)
    assert close.mean() > 0.99


@maps
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types(fitted, name, dtype):
    new = tagged(n=40, seed=6)
    tensor = torch.tensor(new.scores).to(dtype)
    result = fitted[name].transform_scores(tensor, "logits", new.groups)
    narrow = dtype != torch.float64 and not fitted[name].fell_back_
    assert result.dtype == (torch.float32 if narrow else dtype)
    expected = fitted[name].transform_scores(tensor.double().numpy(), "logits", new.groups)
    np.testing.assert_allclose(result.double().numpy(), expected, rtol=1e-6, atol=1e-6)
    if dtype not in (torch.bfloat16, torch.float64):
        array = fitted[name].transform_scores(tensor.numpy(), "logits", new.groups)
        assert array.dtype == (np.float32 if narrow else tensor.numpy().dtype)


@maps
def test_half_precision_can_be_fitted(name):
    p = tagged(dtype=np.float16)
    wide = p.with_scores(p.scores.astype(np.float64), "logits")
    half, full = (quiet_fit(calibrator_class(name)(), q) for q in (p, wide))
    for key, value in full.learned().items():
        np.testing.assert_allclose(half.learned()[key], value, rtol=1e-9, atol=1e-12)


@maps
def test_torch_predictions_can_be_fitted(name):
    p = tagged(n=200)
    q = Predictions.from_logits(
        torch.tensor(p.scores), torch.tensor(p.labels), label_names=NAMES, groups=p.groups
    )
    a, b = (quiet_fit(calibrator_class(name)(), x) for x in (p, q))
    for key, value in a.learned().items():
        assert np.array_equal(b.learned()[key], value)
    assert isinstance(b.transform(q).scores, torch.Tensor)


@maps
def test_order_of_examples_is_irrelevant(name):
    p = tagged(n=300)
    shuffled = p[np.random.default_rng(1).permutation(300)]
    a, b = (quiet_fit(calibrator_class(name)(), x) for x in (p, shuffled))
    assert a.fell_back_ == b.fell_back_
    np.testing.assert_allclose(probabilities(a.transform(p)), probabilities(b.transform(p)), 1e-4)


def repeated_texts(noise, n=403, copies=195, weights=None):
    """Some texts, one of them in whole sentences: its logits differ by ``noise``."""
    rng = np.random.default_rng(0)
    p = tagged(n=n + copies, scale=1.5)
    logits = p.scores.astype(np.float64)
    logits[n:] = (1.0, 0.2, -0.3, 2.5, -0.9)
    labels = np.append(p.labels[:n], np.where(rng.random(copies) < 0.7, 3, p.labels[n:]))
    logits[n:] += noise * rng.normal(size=(copies, 5))
    return Predictions.from_logits(
        logits, labels, label_names=NAMES, groups=p.groups, weights=weights
    )


@maps
@kinds
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_rounding_of_equal_predictions_makes_no_difference(name, of_kind, weighted):
    calibrator = calibrator_class(name)()
    if weighted and not calibrator.takes_weights:
        pytest.skip(f"{name} takes no weights")
    weights = np.random.default_rng(3).integers(1, 4, 598) if weighted else None
    p = repeated_texts(1e-7, weights=weights)
    quiet_fit(calibrator, of_kind(p))
    copies = p[np.arange(403, 598)]
    moved = copies.scores + np.random.default_rng(1).uniform(-1e-7, 1e-7, copies.scores.shape)
    found = probabilities(calibrator.transform(of_kind(copies.with_scores(moved, "logits"))))
    groups = copies.groups["position"]  # Some calibrators depend on it.
    for group in np.unique(groups):
        assert np.ptp(found[groups == group], axis=0).max() < 1e-4


@maps
def test_float32_probabilities_near_one_are_as_equal(name):
    p = repeated_texts(0.0)
    logits = p.scores + 0.0
    logits[403:, 3] += 9.0
    p = as_probabilities(p.with_scores(logits, "logits"))
    scores = p.scores.astype(np.float32)
    scores[403:] *= 1 + np.random.default_rng(2).integers(-1, 2, (195, 1)) * np.float32(6e-8)
    calibrator = quiet_fit(calibrator_class(name)(), p.with_scores(scores, "probabilities"))
    found = probabilities(calibrator.transform(p.with_scores(scores, "probabilities")))[403:]
    groups = p.groups["position"][403:]
    for group in np.unique(groups):
        assert np.ptp(found[groups == group], axis=0).max() < 1e-4


@maps
def test_chunks_make_no_difference(fitted, name, monkeypatch):
    new = tagged(n=101, seed=7)
    expected = fitted[name].transform(new).scores
    monkeypatch.setattr("calibrant.calibrators.transformation._CHUNK", 50)
    assert np.allclose(fitted[name].transform(new).scores, expected, rtol=1e-13, atol=0)


@maps
def test_any_leading_shape(fitted, name):
    new = tagged(n=60, seed=8)
    flat = fitted[name].transform_scores(new.scores, "logits", new.groups)
    groups = {key: column.reshape(3, 20) for key, column in new.groups.items()}
    shaped = fitted[name].transform_scores(new.scores.reshape(3, 20, 5), "logits", groups)
    assert np.array_equal(shaped.reshape(60, 5), flat)
    nothing = {key: column[:0] for key, column in new.groups.items()}
    empty = fitted[name].transform_scores(new.scores[:0], "logits", nothing)
    assert empty.shape == (0, 5)


@maps
def test_class_count_and_names_are_checked(fitted, name):
    with pytest.raises(InputError, match=r"fitted on 5 classes, got scores of shape \(2, 4\)"):
        fitted[name].transform_scores(np.zeros((2, 4)), "logits", {"position": [0, 0]})
    renamed = tagged(n=20)
    other = Predictions.from_logits(
        renamed.scores,
        renamed.labels,
        label_names=("O", "B-LOC", "I-PER", "B-PER", "I-LOC"),
        groups=renamed.groups,
    )
    with pytest.raises(
        InputError, match="class 1 is 'B-PER' in the calibrator and 'B-LOC' in the data"
    ):
        fitted[name].transform(other)


@maps
def test_no_examples_is_an_error(name):
    p = tagged(n=5)
    empty = Predictions.from_logits(
        p.scores, np.full(5, -100), label_names=NAMES, groups=dict(p.groups)
    )
    with pytest.raises(InputError, match=r"at least one labelled example, got none \(5 ignored"):
        calibrator_class(name)().fit(empty)


@pytest.mark.parametrize("name", [n for n, r in CALIBRATORS.items() if r.calibrator.keeps_argmax])
@given(seed=st.integers(0, 2**31), scale=st.floats(0.1, 30))
@settings(max_examples=15)
def test_argmax_is_kept_where_promised(name, seed, scale):
    p = tagged(n=60, seed=seed, scale=scale)
    result = quiet_fit(calibrator_class(name)(), p).transform(p)
    assert (result.scores.argmax(axis=1) == p.scores.argmax(axis=1)).all()


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in NER])
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 30),
    classes=st.integers(2, 4),
    digits=st.sampled_from([0, 1, 6]),
    scale=st.sampled_from([0.0, 1.0, 50.0, 1e4]),
)
@settings(max_examples=25)
def test_small_odd_inputs_give_probabilities(name, seed, n, classes, digits, scale):
    """Ties, saturation, missing classes, single examples, constant rows."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, classes)).round(digits)
    p = Predictions.from_logits(logits, rng.integers(0, classes, n))
    for q in (p, as_probabilities(p)):
        calibrator = quiet_fit(calibrator_class(name)(), q)
        result = probabilities(calibrator.transform(q))
        np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-9)
        assert (result >= 0).all()
        assert calibrator.fitted_on_["nll_after"] <= calibrator.fitted_on_["nll_before"] + 1e-9


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in NER])
def test_fitting_again_forgets(name):
    first, second = tagged(n=200), tagged(n=150, seed=9, scale=0.5)
    again = quiet_fit(quiet_fit(calibrator_class(name)(), first), second)
    fresh = quiet_fit(calibrator_class(name)(), second)
    assert np.array_equal(again.transform(second).scores, fresh.transform(second).scores)
    assert again.fell_back_ == fresh.fell_back_


def test_fall_back_is_identity_and_warns():
    # One bin for all: the frequencies alone, far worse than the scores, which are right.
    p = tagged(n=400, scale=1.0)
    calibrator = calibrator_class("histogram")(bins=1)
    with pytest.warns(CalibrationWarning, match="fell back to identity"):
        calibrator.fit(p)
    assert calibrator.fell_back_
    assert np.array_equal(calibrator.transform(p).scores, p.scores)
    assert calibrator.kind_of("logits") == "logits"


def test_warnings_are_heard_once():
    p = Predictions.from_logits([[3.0, 0.0]], [0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator_class("temperature")().fit(p)
    assert [w.category for w in caught] == [CalibrationWarning]
    assert caught[0].filename == __file__


def test_importing_the_maps_loads_no_torch_and_no_numba():
    code = (
        "import sys, calibrant.calibrators; "
        "print([m for m in ('torch', 'numba', 'scipy', 'safetensors') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@maps
@pytest.mark.parametrize("as_type", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_refused_by_every_map(fitted, name, as_type, kind, bad):
    scores = np.full((4, 5), 0.2)
    scores[2, 3] = bad
    if (kind, bad) == ("logits", -np.inf):
        scores[2] = bad  # One of a row may be ruled out, not all.
    with pytest.raises(InputError, match=r"must be finite[,;] .*row 2"):
        fitted[name].transform_scores(as_type(scores), kind, {"position": np.zeros(4, int)})


@maps
def test_an_exported_map_gives_nan_for_nan(fitted, name):
    scores = torch.full((3, 5), 0.2)
    scores[1, 4] = torch.nan
    groups = [torch.zeros(3, dtype=torch.int64) for _ in fitted[name].needs_groups]
    groups += [torch.zeros(3) for _ in fitted[name].signals_]
    out = to_torch(fitted[name], takes="logits")(scores, *groups)
    assert out[1].isnan().all()
    assert not out[[0, 2]].isnan().any()


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in NER])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_one_score_per_example_is_that_of_class_1(name, kind):
    p = Predictions.from_logits(np.random.default_rng(0).normal(size=200), [0, 1] * 100)
    given = p if kind == "logits" else as_probabilities(p)
    calibrator = quiet_fit(calibrator_class(name)(), given)
    column = given.scores[:, 1]
    expected = calibrator.transform(given)
    got = calibrator.transform_scores(column, kind)
    assert got.shape == column.shape
    again = (Predictions.from_probabilities, Predictions.from_logits)[expected.kind == "logits"]
    np.testing.assert_allclose(
        again(got, p.labels).probabilities(), expected.probabilities(), rtol=1e-12, atol=1e-15
    )


@maps
def test_a_flat_row_of_many_classes_is_an_error(fitted, name):
    with pytest.raises(InputError, match=r"give one row as \[\[…\]\]"):
        fitted[name].transform_scores(np.full(5, 0.2), "probabilities")


@maps
def test_the_error_for_arrays_says_what_to_call(name):
    calibrator = calibrator_class(name)()
    for call in ("fit", "transform"):
        with pytest.raises(InputError, match=rf"\.{call} expects Predictions, got ndarray.*from_"):
            getattr(calibrator, call)(np.zeros((3, 5)))


@pytest.mark.parametrize("name", [n for n, r in CALIBRATORS.items() if r.calibrator.keeps_argmax])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@kinds
def test_argmax_is_kept_where_every_prediction_is_wrong(name, dtype, of_kind):
    logits = tagged(n=300).scores
    labels = (logits.argmax(axis=1) + 1) % 5
    groups = {"position": np.arange(300) % 13}
    p = of_kind(
        Predictions.from_logits(logits.astype(dtype), labels, label_names=NAMES, groups=groups)
    )
    result = quiet_fit(calibrator_class(name)(), p).transform(p)
    assert (result.probabilities().argmax(axis=1) == p.scores.argmax(axis=1)).all()


@maps
@kinds
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_a_faultless_sample_supports_no_more_than_the_rule_of_succession(name, of_kind, scale):
    logits = np.round(scale * tagged(n=150).scores, 9)
    p = of_kind(
        Predictions.from_logits(
            logits,
            logits.argmax(axis=1),
            label_names=NAMES,
            groups={"position": np.arange(150) % 13},
        )
    )
    result = quiet_fit(calibrator_class(name)(), p).transform(p)
    assert mean_confidence(result) <= max(mean_confidence(p), 151 / 152) + 1e-6


def test_going_beyond_what_a_faultless_sample_supports_warns():
    p = Predictions.from_logits(np.eye(3)[np.arange(60) % 3], np.arange(60) % 3)
    with pytest.warns(CalibrationWarning, match=r"beyond 0\.9839, .* fell back to identity"):
        calibrator = calibrator_class("vector")().fit(p)
    assert np.array_equal(calibrator.transform(p).scores, p.scores)


@pytest.mark.parametrize("name", [n for n, r in CALIBRATORS.items() if r.calibrator.keeps_argmax])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@kinds
@given(
    seed=st.integers(0, 2**31),
    gap=st.sampled_from([1e-12, 1e-7, 1e-4, 1e-2]),
    right=st.sampled_from([0.0, 0.2, 0.5]),
    offset=st.sampled_from([0.0, -300.0]),
)
@settings(max_examples=4)
def test_argmax_is_kept_where_the_best_two_nearly_tie(
    name, dtype, of_kind, seed, gap, right, offset
):
    """Mostly wrong predictions make all scores nearly equal, which rounding must not make ties."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(400, 5)) + offset
    second, first = np.argsort(logits, axis=1)[:, -2:].T
    rows = np.arange(400)
    logits[rows, second] = logits[rows, first] - gap * rng.random(400)
    other = (logits.argmax(axis=1) + 1) % 5
    labels = np.where(rng.random(400) < right, logits.argmax(axis=1), other)
    groups = {"position": rows % 13}
    p = of_kind(Predictions.from_logits(logits, labels, label_names=NAMES, groups=groups))
    p = p.with_scores(p.scores.astype(dtype), p.kind)
    result = quiet_fit(calibrator_class(name)(), p).transform(p)
    assert (result.scores.argmax(axis=1) == p.scores.argmax(axis=1)).all()
    if name != "identity":  # The softmax of nearly equal logits rounds too.
        assert (result.probabilities().argmax(axis=1) == p.scores.argmax(axis=1)).all()
