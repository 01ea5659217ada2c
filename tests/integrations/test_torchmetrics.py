"""The torchmetrics adapter, alone and in two processes, and states that add up over processes."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

import torchmetrics_worker  # noqa: E402

from calibrant import Predictions  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.integrations.torchmetrics import CalibrationMetrics  # noqa: E402
from calibrant.metrics import (  # noqa: E402
    METRICS,
    CalibrationState,
    ConfidenceSketch,
    accumulate,
    measure,
)

LOGITS, LABELS = torchmetrics_worker.data()
WHOLE = Predictions.from_logits(LOGITS, LABELS)
RANKS = {name for name, metric in METRICS.items() if metric.source == ("confidences",)}


def check(found):
    expected = measure(WHOLE, ["classes"])
    assert found.keys() <= expected.keys()
    assert len(found) > 10
    for name, value in found.items():
        near = 2e-3 if name in RANKS else 1e-9
        assert float(value) == pytest.approx(expected[name], abs=near), name


@pytest.mark.parametrize("batch", [1, 100, 1000, 1001, 5000])
def test_batches_make_the_whole(batch):
    metrics = CalibrationMetrics(classes=4)
    for start in range(0, 1001, batch):
        rows = slice(start, start + batch)
        metrics.update(torch.as_tensor(LOGITS[rows]), torch.as_tensor(LABELS[rows]))
    check(metrics.compute())
    metrics.reset()
    metrics.update(torch.as_tensor(LOGITS), torch.as_tensor(LABELS))
    check(metrics.compute())


def test_the_ece_is_that_of_torchmetrics():
    kept = torch.as_tensor(LABELS >= 0)
    logits, labels = torch.as_tensor(LOGITS)[kept], torch.as_tensor(LABELS)[kept]
    theirs = torchmetrics.functional.classification.multiclass_calibration_error(
        logits.softmax(-1), labels, num_classes=4, n_bins=15
    )
    ours = CalibrationMetrics(classes=4, names=["ece"])
    assert float(ours(logits, labels)["ece"]) == pytest.approx(float(theirs), abs=1e-6)


def test_memory_is_constant_and_only_what_the_names_need():
    lean = CalibrationMetrics(classes=4, names=["ece", "nll"])
    size = sum(getattr(lean, name).numel() for name in lean._defaults)
    for _ in range(3):
        lean.update(torch.as_tensor(LOGITS), torch.as_tensor(LABELS))
    assert sum(getattr(lean, name).numel() for name in lean._defaults) == size < 200


def test_pixels_have_their_classes_second():
    scores = torch.as_tensor(LOGITS[:1000]).reshape(10, 10, 10, 4).movedim(-1, 1)
    labels = torch.as_tensor(LABELS[:1000]).reshape(10, 10, 10)
    metrics = CalibrationMetrics(classes=4, names=["ece", "accuracy"])
    found = metrics(scores, labels)
    expected = measure(WHOLE[: int((LABELS[:1000] >= 0).sum())], ["classes"])
    assert float(found["ece"]) == pytest.approx(expected["ece"], abs=1e-9)


def test_half_precision_and_gradients():
    scores = torch.as_tensor(LOGITS).half().requires_grad_()
    found = CalibrationMetrics(classes=4, names=["ece"])(scores, torch.as_tensor(LABELS))
    assert not found["ece"].requires_grad


def test_bad_input_is_one_line():
    with pytest.raises(InputError, match="does not know the metric 'eec'"):
        CalibrationMetrics(classes=4, names=["eec"])
    with pytest.raises(InputError, match="scores of 3 classes, got 4"):
        CalibrationMetrics(classes=3).update(torch.as_tensor(LOGITS), torch.as_tensor(LABELS))


def test_one_process_alone_has_the_sum():
    state = accumulate(WHOLE)
    assert state.all_reduce().to_bytes() == state.to_bytes()


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory):
    """What two processes of torchrun found."""
    if sys.platform == "win32":
        pytest.skip("needs gloo and torchrun")
    folder = tmp_path_factory.mktemp("ranks")
    more = ["lightning"] if find_spec("lightning") else []
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", torchmetrics_worker.__file__, str(folder), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_have_the_state_of_the_whole(of_two_processes):
    whole, sketch = accumulate(WHOLE), ConfidenceSketch.of(WHOLE)
    for found in of_two_processes:
        check(found["metrics"])
        state = CalibrationState.from_bytes(found["state"])
        assert state.ignored == whole.ignored
        for name in state.SUMS:
            exact = getattr(whole, name).dtype.kind == "i"
            np.testing.assert_allclose(
                getattr(state, name), getattr(whole, name), rtol=0 if exact else 1e-12
            )
        again = ConfidenceSketch.from_bytes(found["sketch"])
        np.testing.assert_array_equal(again.count, sketch.count)
        np.testing.assert_array_equal(again.correct, sketch.correct)


def test_a_process_without_rows_adds_an_empty_state(of_two_processes):
    first = accumulate(Predictions.from_logits(LOGITS[:300], LABELS[:300]))
    for found in of_two_processes:
        assert found["only rank 0 has rows"] == first.to_bytes()


def test_states_that_mean_different_things_are_refused_in_every_process(of_two_processes):
    for found in of_two_processes:
        assert len(found["refused"]) == 4
        for message in found["refused"]:
            assert "the same bins, classes, blocks and kind of weights in every process" in message


def test_lightning_logs_the_metrics_of_the_whole(of_two_processes):
    """Validated twice: the second time nothing of the first is left."""
    pytest.importorskip("lightning")
    for found in of_two_processes:
        for logged in found["lightning"]:
            check(logged)


@pytest.mark.parametrize("batch", [1, 100, 1000, 1001])
def test_weights_make_the_whole(batch):
    weights = np.random.default_rng(1).gamma(1, 1, 1001)
    weights[::7] = 0
    metrics = CalibrationMetrics(classes=4, weighted=True)
    for start in range(0, 1001, batch):
        rows = slice(start, start + batch)
        metrics.update(*(torch.as_tensor(part[rows]) for part in (LOGITS, LABELS, weights)))
    whole = Predictions.from_logits(LOGITS, LABELS, weights=weights)
    expected, found = measure(whole, ["classes"]), metrics.compute()
    assert len(found) > 10
    for name, value in found.items():
        near = 2e-3 if name in RANKS else 1e-9
        assert float(value) == pytest.approx(expected[name], abs=near), name
    assert int(metrics.ignored) == whole.ignored


def test_weights_that_do_not_fit_are_refused():
    logits, labels = torch.as_tensor(LOGITS), torch.as_tensor(LABELS)
    with pytest.raises(InputError, match="weighted=True"):
        CalibrationMetrics(classes=4).update(logits, labels, torch.ones(len(labels)))
    with pytest.raises(InputError, match="weighted=True"):
        CalibrationMetrics(classes=4, weighted=True).update(logits, labels)
    with pytest.raises(InputError, match="shape of the labels"):
        CalibrationMetrics(classes=4, weighted=True).update(logits, labels, torch.ones(3))
    with pytest.raises(InputError, match="not defined with sample weights"):
        CalibrationMetrics(classes=4, names=["e_aurc"], weighted=True)
