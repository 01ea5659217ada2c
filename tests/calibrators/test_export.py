"""Every calibrator as a torch module and as ONNX, against its own transform."""

import json
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from calibrant import InputError, NotFittedError, Predictions
from calibrant.calibrators import CALIBRATORS, CalibrationWarning, Temperature
from calibrant.calibrators.export import to_onnx, to_torch

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
KINDS = ("logits", "probabilities")


def sample(n=400, seed=0):
    """Overconfident token predictions in sentences, with each row's position."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, n)
    logits = 4 * rng.normal(size=(n, 5)) + 4 * np.eye(5)[labels]
    groups = {"sentence": np.arange(n) // 10, "position": np.arange(n) % 10}
    return Predictions.from_logits(
        logits.astype(np.float32), labels, label_names=NAMES, groups=groups
    )


def of_kind(predictions, kind):
    if kind == "logits":
        return predictions
    return predictions.with_scores(predictions.probabilities(), "probabilities")


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return {name: row.calibrator().fit(sample()) for name, row in CALIBRATORS.items()}


def groups_of(calibrator, predictions):
    """The further inputs of an exported calibrator: groups, and signals as float32."""
    signals = calibrator.signal_columns(predictions).values()
    groups = [predictions.groups[name] for name in calibrator.needs_groups]
    return [*groups, *(column.astype(np.float32) for column in signals)]


def inputs_of(calibrator):
    return [*calibrator.needs_groups, *calibrator.signals_]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_torch_module_equals_transform(fitted, name, kind):
    calibrator = fitted[name]
    module = to_torch(calibrator, takes=kind)
    assert not list(module.parameters())
    for seed in (0, 1):  # What it was fitted on, where bins have their edges, and new examples.
        given = of_kind(sample(seed=seed), kind)
        groups = [torch.as_tensor(g) for g in groups_of(calibrator, given)]
        got = module(torch.as_tensor(given.scores), *groups)
        expected = calibrator.transform(given).probabilities()
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-6)
        assert got.dtype == torch.float32


@pytest.mark.parametrize("gives", KINDS)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_classes_that_logits_rule_out_stay_so_in_a_module(fitted, name, gives):
    given = sample(seed=1)
    given.scores[::2, 4] = -np.inf
    given.scores[3, 1:] = -np.inf  # One class is left.
    calibrator = fitted[name]
    groups = [torch.as_tensor(g) for g in groups_of(calibrator, given)]
    got = to_torch(calibrator, gives=gives)(torch.as_tensor(given.scores), *groups)
    expected = calibrator.transform(given).probabilities()
    got = got if gives == "probabilities" else got.softmax(-1)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-6)
    assert (got.numpy()[given.scores == -np.inf] == 0).all()


# A second for each: both kinds for a calibrator that gives logits and for one of probabilities.
ONNX = [(name, "logits") for name in CALIBRATORS]
ONNX += [("temperature", "probabilities"), ("isotonic", "probabilities")]


@pytest.mark.parametrize(("name", "kind"), ONNX)
def test_onnx_equals_transform(fitted, name, kind, tmp_path):
    calibrator = fitted[name]
    both = (of_kind(sample(seed=seed), kind) for seed in (0, 1))
    new = Predictions.concatenate(both)  # With what it was fitted on, where bins have their edges.
    path = to_onnx(calibrator, tmp_path / "map.onnx", takes=kind)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == [kind, *inputs_of(calibrator)]
    for n in (800, 1, 2):  # Any number of rows.
        part = new[:n]
        feed = {kind: part.scores}
        feed.update(zip(inputs_of(calibrator), groups_of(calibrator, part), strict=True))
        (got,) = session.run(None, feed)
        np.testing.assert_allclose(got, calibrator.transform(part).probabilities(), atol=1e-6)
    if kind == "logits":
        part.scores[0, 4] = -np.inf  # Ruled out.
        feed = {kind: part.scores}
        feed.update(zip(inputs_of(calibrator), groups_of(calibrator, part), strict=True))
        (got,) = session.run(None, feed)
        np.testing.assert_allclose(got, calibrator.transform(part).probabilities(), atol=1e-6)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_module_is_one_graph_for_compile_and_export(fitted, name):
    module, new = to_torch(fitted[name]), sample(seed=1)
    inputs = (
        torch.as_tensor(new.scores),
        *(torch.as_tensor(g) for g in groups_of(fitted[name], new)),
    )
    expected = module(*inputs)
    torch._dynamo.reset()  # It recompiles one function a few times only.
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), expected)
    exported = torch.export.export(module, inputs).module()
    torch.testing.assert_close(exported(*inputs), expected)


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if "-temperature" not in n])
def test_two_classes(name):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    scores = 4 * (labels - 0.5 + rng.normal(size=300))
    given = Predictions.from_logits(scores, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = CALIBRATORS[name].calibrator().fit(given)
    got = to_torch(calibrator)(torch.as_tensor(given.scores))
    np.testing.assert_allclose(got, calibrator.transform(given).probabilities(), atol=1e-9)


def test_map_that_fell_back_is_exported_as_identity(tmp_path):
    calibrator, given = Temperature().fit(sample()), sample(seed=1)
    calibrator.fell_back_ = True
    got = to_torch(calibrator)(torch.as_tensor(given.scores))
    np.testing.assert_allclose(got, given.probabilities(), atol=1e-6)
    path = to_onnx(calibrator, tmp_path / "map.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"logits": given.scores})
    np.testing.assert_allclose(got, given.probabilities(), atol=1e-6)


def test_logits_out_are_log_probabilities(fitted):
    new = torch.as_tensor(sample(seed=1).scores)
    for calibrator in fitted.values():
        if not inputs_of(calibrator):
            logits = to_torch(calibrator, gives="logits")(new)
            probabilities = to_torch(calibrator)(new)
            torch.testing.assert_close(logits.softmax(-1), probabilities, atol=1e-6, rtol=0)


def test_module_keeps_leading_axes_and_widens_half_precision(fitted):
    module = to_torch(fitted["temperature"])
    scores = torch.randn(2, 3, 5, dtype=torch.bfloat16)
    out = module(scores)
    assert out.shape == scores.shape
    assert out.dtype == torch.float32
    temperature = fitted["temperature"].temperature_
    torch.testing.assert_close(out, (scores.float() / temperature).softmax(-1))
    assert module(scores.double()).dtype == torch.float64
    assert module(torch.empty(0, 5)).shape == (0, 5)


def test_module_lets_gradients_through_and_moves_with_state_dict(fitted):
    module = to_torch(fitted["temperature"])
    scores = torch.randn(4, 5, requires_grad=True)
    module(scores)[:, 0].sum().backward()
    assert scores.grad.abs().sum() > 0
    other = to_torch(Temperature().fit(sample(seed=5)))
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(scores), module(scores))


def test_float32_module_for_devices_without_float64(fitted):
    module = to_torch(fitted["temperature"], dtype=torch.float32)
    assert {b.dtype for b in module.buffers()} == {torch.float32}
    scores = torch.as_tensor(sample(seed=1).scores)
    torch.testing.assert_close(module(scores), to_torch(fitted["temperature"])(scores))


def test_half_model_still_computes_in_float32(fitted):
    scores = torch.as_tensor(sample(seed=1).scores)
    out = to_torch(fitted["temperature"]).half()(scores)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.sum(-1), torch.ones(len(out)))


def test_takes_what_the_map_was_fitted_on():
    fitted = Temperature().fit(of_kind(sample(), "probabilities"))
    assert to_torch(fitted).takes == "probabilities"


def test_onnx_file_says_where_it_comes_from_and_is_not_overwritten(fitted, tmp_path):
    path = to_onnx(fitted["temperature"], tmp_path / "map.onnx")
    metadata = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert metadata["calibrant.method"] == "temperature"
    assert tuple(json.loads(metadata["calibrant.label_names"])) == NAMES
    assert json.loads(metadata["calibrant.fitted_on"])["n"] == 400
    with pytest.raises(InputError, match="exists"):
        to_onnx(fitted["temperature"], path)
    to_onnx(fitted["temperature"], path, overwrite=True, gives="logits")
    assert onnx.load(path).graph.output[0].name == "calibrated_logits"


def test_clear_errors(fitted):
    with pytest.raises(NotFittedError):
        to_torch(Temperature())
    module = to_torch(fitted["temperature"])
    with pytest.raises(InputError, match=r"fitted on 5 classes.*\(2, 3\)"):
        module(torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"0 group\(s\) \(none\), got 1"):
        module(torch.zeros(2, 5), torch.zeros(2))
