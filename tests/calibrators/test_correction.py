"""A correction on top of every calibrator: the formula, files, exports."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from calibrator_samples import kinds, maps, quiet_fit, tagged

from calibrant import InputError, Predictions, Temperature, load_calibrator
from calibrant.calibrators import Identity
from calibrant.calibrators.correction import corrected
from calibrant.calibrators.export import to_onnx, to_torch
from calibrant.comparison.span_calibrator import entity_words

BIAS = np.log([0.5, 2.0, 1.0, 4.0, 0.1])


def probabilities(predictions):
    return np.asarray(predictions.probabilities(), np.float64)


@maps
@kinds
def test_bias_is_bayes_rule_for_other_frequencies(fitted, name, of_kind):
    p = of_kind(tagged(n=40, seed=1))
    plain = np.maximum(probabilities(fitted[name].transform(p)), 0)
    wanted = plain * np.exp(BIAS)
    wanted /= wanted.sum(axis=1, keepdims=True)
    found = corrected(fitted[name], bias=BIAS).transform(p)
    assert found.kind == fitted[name].transform(p).kind
    np.testing.assert_allclose(probabilities(found), wanted, atol=1e-4)


@maps
@kinds
@pytest.mark.parametrize("shift", [-3.0, -0.3, 0.7])
def test_shift_moves_the_log_odds_of_the_top_label_and_keeps_it(fitted, name, of_kind, shift):
    p = of_kind(tagged(n=60, seed=2))
    plain = probabilities(fitted[name].transform(p))
    found = probabilities(corrected(fitted[name], shift=shift).transform(p))
    rows, top = np.arange(60), plain.argmax(axis=1)
    unique = np.sort(plain, axis=1)[:, -1] - np.sort(plain, axis=1)[:, -2] > 1e-3
    assert (found.argmax(axis=1) == top)[unique].all()
    c = np.clip(plain[rows, top], 1e-9, 1 - 1e-9)
    wanted = 1 / (1 + np.exp(-(np.log(c / (1 - c)) + shift)))
    others = found.copy()
    others[rows, top] = 0
    free = found[rows, top] > others.max(axis=1) * 1.001
    np.testing.assert_allclose(found[rows, top][free], wanted[free], atol=2e-4)
    assert (found[rows, top][~free] >= wanted[~free] - 1e-4).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@maps
@pytest.mark.parametrize("options", [{"bias": BIAS}, {"shift": -0.8}, {"bias": BIAS, "shift": 0.3}])
def test_saved_and_exported_with_the_map(fitted, name, options, tmp_path):
    map_ = corrected(fitted[name], **options, about={"method": "em"})
    p = tagged(n=30, seed=3)
    map_.save(tmp_path / "map.json")
    loaded = load_calibrator(tmp_path / "map.json")
    np.testing.assert_array_equal(loaded.transform(p).scores, map_.transform(p).scores)
    assert loaded.fitted_on_["adapted"] == {"method": "em"}
    assert json.loads((tmp_path / "map.json").read_text())["format"] == 4
    groups = [torch.as_tensor(p.groups[g]) for g in map_.needs_groups]
    groups += [torch.as_tensor(column) for column in map_.signal_columns(p).values()]
    out = to_torch(map_, takes="logits")(torch.as_tensor(p.scores), *groups)
    np.testing.assert_allclose(out, probabilities(map_.transform(p)), atol=1e-6)


def test_exported_to_onnx(fitted, tmp_path):
    map_ = corrected(fitted["isotonic-top-label"], bias=BIAS, shift=-0.5)
    p = tagged(n=30, seed=3)
    to_onnx(map_, tmp_path / "map.onnx", takes="logits")
    session = onnxruntime.InferenceSession(tmp_path / "map.onnx")
    (out,) = session.run(None, {"logits": p.scores.astype(np.float32)})
    single = p.with_scores(p.scores.astype(np.float32), "logits")
    np.testing.assert_allclose(out, probabilities(map_.transform(single)), atol=1e-5)


@maps
def test_map_without_a_correction_keeps_its_format_and_its_bytes(fitted, name, tmp_path):
    fitted[name].save(tmp_path / "a.json")
    corrected(corrected(fitted[name], bias=BIAS)).save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["format"] == 3


def test_the_given_map_does_not_change(fitted):
    before = fitted["temperature"].learned()
    changed = corrected(fitted["temperature"], bias=BIAS, about={})
    assert fitted["temperature"].learned() == before
    assert "adapted" not in fitted["temperature"].fitted_on_
    assert "correction_bias_" in repr(changed) or "shape" in repr(changed)


def test_a_bias_may_change_predictions_and_says_so(fitted):
    p, map_ = tagged(n=50), fitted["temperature"]
    assert map_.keeps_argmax
    assert not corrected(map_, bias=BIAS).keeps_argmax
    assert corrected(map_, shift=1.0).keeps_argmax
    assert corrected(corrected(map_, bias=BIAS)).keeps_argmax
    assert entity_words(map_, p) is p
    assert entity_words(corrected(map_, bias=BIAS), p) is not p
    assert quiet_fit(corrected(map_, bias=BIAS), tagged()).keeps_argmax


def test_maps_that_change_nothing_are_corrected_too():
    p = Predictions.from_probabilities([[1.0, 0.0], [0.8, 0.2]], [0, 1])
    same = corrected(Identity().fit(p), bias=np.log([1.0, 4.0])).transform(p)
    np.testing.assert_allclose(same.scores, [[1, 0], [0.5, 0.5]], atol=1e-12)
    map_ = Temperature().fit(p)
    map_.fell_back_ = True
    moved = corrected(map_, shift=-1.0).transform(p)
    assert moved.scores[1, 0] < 0.8


def test_ties_and_two_classes():
    p = Predictions.from_probabilities([[0.5, 0.5], [0.6, 0.4]], [0, 1])
    found = corrected(Identity().fit(p), shift=-5.0).transform(p).scores
    assert found[0, 0] == 0.5
    assert 0.5 < found[1, 0] < 0.5001


@pytest.mark.parametrize(
    "wrong", [{"bias": [1.0, 2.0]}, {"bias": [np.nan] * 5}, {"shift": np.inf}], ids=str
)
def test_a_correction_that_does_not_fit_is_refused(fitted, wrong):
    with pytest.raises(InputError, match="correction"):
        corrected(fitted["temperature"], **wrong)


def test_damaged_file(fitted, tmp_path):
    corrected(fitted["temperature"], bias=BIAS).save(tmp_path / "map.json")
    content = json.loads((tmp_path / "map.json").read_text())
    content["learned"]["correction_bias_"] |= {"shape": [2], "values": [1.0, 2.0]}
    (tmp_path / "map.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="correction_bias_"):
        load_calibrator(tmp_path / "map.json")
