"""Logits of −∞ rule options out: metrics take them as probabilities of 0, calibrators keep them."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import CALIBRATORS
from calibrant.comparison.cross_validation import example_nll
from calibrant.metrics import TopBins, measure

N, K = 1500, 4


def masked(scale: float = 2.0, dtype: type = np.float64) -> Predictions:
    """Questions with three or four options; the label is never ruled out."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, N)
    logits = scale * (random.normal(size=(N, K)) + np.eye(K)[labels])
    logits[::2, 3] = -np.inf
    return Predictions.from_logits(logits.astype(dtype), labels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_metrics(monkeypatch: pytest.MonkeyPatch, kernels: str, dtype: type) -> None:
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    p = masked(dtype=dtype)
    as_probabilities = Predictions.from_probabilities(p.probabilities(), p.labels)
    found, expected = measure(p), measure(as_probabilities)
    tolerance = 1e-12 if dtype is np.float64 else 1e-6
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=tolerance, abs=tolerance), name
    bins = TopBins.from_logits(p.scores, p.labels)
    assert (
        bins.top_count.tolist()
        == TopBins.from_logits(p.scores.tolist(), p.labels).top_count.tolist()
    )


def test_a_label_that_was_ruled_out_has_an_infinite_loss() -> None:
    p = Predictions.from_logits([[0.0, -np.inf], [1.0, 0.0]], [1, 0])
    assert measure(p)["nll"] == np.inf
    assert np.isfinite(example_nll(p)).all()


@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", [n for n in CALIBRATORS if not n.startswith(("type", "position"))])
def test_maps_keep_what_is_ruled_out(name: str, library: str) -> None:
    p = masked()
    calibrator = CALIBRATORS[name].calibrator().fit(p)
    given = p
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = Predictions.from_logits(torch.as_tensor(p.scores), torch.as_tensor(p.labels))
    out = calibrator.transform(given).numpy()
    probabilities = out.probabilities()
    assert (probabilities[::2, 3] == 0).all()
    assert (probabilities[1::2] > 0).all()
    assert np.allclose(probabilities.sum(axis=1), 1)
    if calibrator.keeps_argmax:
        assert (probabilities.argmax(axis=1) == p.scores.argmax(axis=1)).all()


def test_temperature_ignores_what_is_ruled_out() -> None:
    """With one option ruled out in every row, the fit is that of the other options."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, N)
    logits = 3 * (random.normal(size=(N, 3)) + np.eye(3)[labels])
    closed = np.hstack([logits, np.full((N, 1), -np.inf)])
    fit = CALIBRATORS["temperature"].calibrator
    three = fit().fit(Predictions.from_logits(logits, labels))
    four = fit().fit(Predictions.from_logits(closed, labels))
    assert four.learned()["temperature_"] == pytest.approx(
        three.learned()["temperature_"], rel=1e-6
    )
