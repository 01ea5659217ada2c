"""Sketches: merged = whole, and as near to the exact metrics as they promise."""

import json
import struct
import zlib

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.errors import InputError
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    accumulate,
    adaptive_ece,
    augrc,
    aurc,
    auroc,
    chance_ece,
    confidence_steps,
    ece,
    ks_error,
    nll,
)
from calibrant.metrics.state_bytes import pack_state, unpack_state

RANDOM = np.random.default_rng(0)


def skilled(n):
    confidence = RANDOM.beta(4, 1, n)
    return Confidences(confidence, RANDOM.random(n) < confidence**1.3)


def saturated(n):
    """As naive Bayes gives them: 1 − c from a half down to less than rounding."""
    off = np.exp(-RANDOM.uniform(0.7, 38, n))
    return Confidences(1 - off, RANDOM.random(n) < 1 - 0.3 * off**0.05)


def sorted_in_one_bin(n):
    """The worst for a sketch: it cannot see that the more confident half is right."""
    confidence = np.linspace(0.5 + 1e-6, 0.5 + 1e-5, n)
    return Confidences(confidence, np.arange(n) >= n // 2)


def at_the_edges_of_bins(n):
    """One float below, at and above the edges of bins, at which rounding decides."""
    edges = 1 / (1 + np.exp(-np.arange(-n // 2, n // 2) * (80 / 65536)))
    near = [np.nextafter(edges, 0), edges, np.nextafter(edges, 1)]
    return Confidences(np.concatenate(near), RANDOM.random(3 * len(edges)) < 0.5)


def tied(n, values):
    return Confidences(RANDOM.choice(values, n), RANDOM.random(n) < 0.6)


PREDICTIONS = Predictions.from_logits(RANDOM.normal(size=(9, 3)), np.arange(9) % 3)

CASES = {
    "many": skilled(50_000),
    "few": skilled(7),
    "one bin": Confidences(0.5 + 1e-5 * RANDOM.random(500), RANDOM.random(500) < 0.5),
    "ends": Confidences(np.array([0.0, 1.0, 1.0, 1 - 2**-53, 0.5, 5e-324]), np.arange(6) % 2 == 0),
    "float32": Confidences(RANDOM.random(3000).astype("f4"), RANDOM.random(3000) < 0.7),
    "saturated": saturated(20_000),
    "one": Confidences(np.array([0.7]), np.array([True])),
    "sorted in one bin": sorted_in_one_bin(1000),
    "edges of bins": at_the_edges_of_bins(600),
    "infinite log-odds": tied(1000, [0.0, 1.0]),
    "few ties": tied(1000, [0.0, 0.5, 0.5 + 1e-9, 0.9, 1 - 1e-12, 1.0]),
    "all equal": tied(500, [0.8]),
}


def bins_of(state):
    """Bin of each example by a plain loop: the log-odds in 65,536 steps of 80 / 65,536."""
    found = []
    for c in state.confidence:
        odds = -40.0 if c == 0 else 40.0 if c >= 1 - 2**-47 else np.log(c) - np.log1p(-c)
        found.append(min(int((min(max(odds, -40.0), 40.0) + 40.0) / (80 / 65536)), 65535))
    return np.array(found)


def promised(state):
    """The bounds of the docstring, from a table of bins by plain loops."""
    bins, n = bins_of(state), len(state)
    right, wrong = int(state.correct.sum()), int((~state.correct).sum())
    pairs = squares = most = 0.0
    above = 0
    for b in sorted(set(bins), reverse=True):
        inside = bins == b
        r = int((inside & state.correct).sum())
        w = int(inside.sum()) - r
        above += r + w
        pairs += r * w
        squares += (r + w) ** 2 / (n * above)
        most = max(most, (r + w) / n)
    return {
        adaptive_ece: 2 * sum(cut_bins(state, bins).values()) / n,
        auroc: pairs / (2 * right * wrong) if right and wrong else 0.0,
        aurc: squares,
        augrc: pairs / (2 * n**2),
        ks_error: most,
    }


def cut_bins(state, bins):
    """The examples of each bin that several of the fifteen bins of equal mass share."""
    order = sorted(range(len(state)), key=lambda i: state.confidence[i])
    mass, ranks = {}, {}
    for rank, i in enumerate(order):  # A tie is in one bin of equal mass, by its middle.
        ranks.setdefault(float(state.confidence[i]), []).append(rank)
    for i in order:
        tie = ranks[float(state.confidence[i])]
        middle = (tie[0] + tie[-1] + 1) / 2
        mass.setdefault(bins[i], []).append(int(15 * middle / len(state)))
    return {b: len(found) for b, found in mass.items() if len(set(found)) > 1}


@pytest.mark.parametrize("case", CASES)
def test_rank_metrics_are_as_near_as_promised(case):
    state = CASES[case]
    made = ConfidenceSketch.of(state)
    for metric, bound in promised(state).items():
        exact, found = metric(state), metric(made)
        assert found == pytest.approx(exact, abs=bound + 1e-12, nan_ok=True), metric.__name__
    assert ks_error(made) <= ks_error(state) + 1e-12


def test_the_bounds_are_small_for_many_examples():
    state = CASES["many"]
    made = ConfidenceSketch.of(state)
    for metric in (auroc, aurc, augrc, ks_error, adaptive_ece):
        assert metric(made) == pytest.approx(metric(state), abs=2e-4), metric.__name__


@pytest.mark.parametrize("case", CASES)
def test_means_are_within_the_stated_distance(case):
    state = CASES[case]
    made = ConfidenceSketch.of(state)
    used = np.flatnonzero(made.count)
    means = dict(zip(used, made.steps()[0], strict=True))
    for c, b in zip(state.confidence, bins_of(state), strict=True):
        assert abs(means[b] - c) <= 0.000306
    assert np.all(np.diff(made.steps()[0]) >= 0)


def test_confidence_one_has_a_bin_of_its_own_up_to_rounding():
    near = np.array([1.0, 1 - 2**-53, 1 - 2**-47, 1 - 2**-46])
    state = Confidences(near, np.array([True, False, True, True]))
    made = ConfidenceSketch.of(state)
    assert np.flatnonzero(made.count).size == 2
    assert made.count[-1] == 3
    assert made.steps()[1].tolist() == confidence_steps(state).count.tolist() == [1, 3]


@pytest.mark.parametrize("size", [1, 6, 7, 8, 13, 14, 15])
def test_chunks_do_not_show(size):
    state = skilled(size)
    made = ConfidenceSketch.of(state, chunk=7)
    assert made.n == size
    assert made.correct.sum() == state.correct.sum()
    parts = sum(ConfidenceSketch.of(state[i : i + 1]) for i in range(size))
    np.testing.assert_array_equal(made.count, parts.count)
    np.testing.assert_allclose(made.confidence, parts.confidence, rtol=1e-14)


def test_predictions_give_their_top_labels():
    p = Predictions.from_logits(RANDOM.normal(size=(100, 4)) * 3, RANDOM.integers(0, 4, 100))
    assert auroc(ConfidenceSketch.of(p)) == pytest.approx(auroc(p), abs=1e-2)
    assert ConfidenceSketch.of(p).n == 100


def test_no_examples():
    made = ConfidenceSketch.of(Confidences(np.empty(0), np.empty(0, bool)))
    assert made.n == 0
    assert np.isnan(aurc(made))
    assert ConfidenceSketch.from_bytes(made.to_bytes()).n == 0


def test_confidences_out_of_range_are_refused():
    with pytest.raises(InputError, match="from 0 to 1"):
        ConfidenceSketch.of(Confidences(np.array([1.5]), np.array([True])))


def states():
    p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7], [1.0, 0.0]], [0, 0, 1])
    yield accumulate(p)  # Its nll is infinite.
    yield accumulate(p, classwise=False)
    yield CalibrationState.empty(3, blocks=(2,))
    yield ConfidenceSketch.of(p)


@pytest.mark.parametrize("state", list(states()), ids=lambda s: type(s).__name__)
def test_bytes_restore_every_bit(state):
    again = type(state).from_bytes(state.to_bytes())
    for name, value in vars(state).items():
        if isinstance(value, np.ndarray | np.generic):
            np.testing.assert_array_equal(getattr(again, name), value)
            assert getattr(again, name).dtype == value.dtype
            assert getattr(again, name).shape == value.shape
        else:
            assert getattr(again, name) == value


def test_metrics_of_a_restored_state_are_numbers():
    state = accumulate(Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0]))
    again = CalibrationState.from_bytes(state.to_bytes())
    assert isinstance(ece(again), float)
    assert (ece(again), nll(again)) == (ece(state), nll(state))
    assert chance_ece(again) == chance_ece(state)


def test_damaged_bytes_are_refused():
    data = ConfidenceSketch.of(CASES["few"]).to_bytes()
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(InputError, match="from_bytes"):
            ConfidenceSketch.from_bytes(damaged)
    for length in range(len(data)):
        with pytest.raises(InputError, match="from_bytes"):
            ConfidenceSketch.from_bytes(data[:length])


def test_another_kind_and_a_later_version_are_named():
    data = ConfidenceSketch.of(CASES["few"]).to_bytes()
    with pytest.raises(InputError, match="expects a CalibrationState, got a ConfidenceSketch"):
        CalibrationState.from_bytes(data)
    with pytest.raises(InputError, match="a later version of calibrant"):
        ConfidenceSketch.from_bytes(data[:4] + b"\x09\x00" + data[6:])
    with pytest.raises(InputError, match=r"reads format 1 .* got format 0"):
        ConfidenceSketch.from_bytes(data[:4] + b"\x00\x00" + data[6:])


@pytest.mark.parametrize("kind", [CalibrationState, ConfidenceSketch])
def test_bytes_that_lack_something_have_a_right_checksum(kind):
    """Missing, unknown or misshapen parts are named in one line."""
    made = accumulate(PREDICTIONS) if kind is CalibrationState else kind.of(CASES["few"])
    settings, arrays = unpack_state(kind.__name__, made.to_bytes())
    for name in settings:
        rest = {key: value for key, value in settings.items() if key != name}
        with pytest.raises(InputError, match=f"from_bytes.*{name}"):
            kind.from_bytes(pack_state(kind.__name__, rest, arrays))
    for name, array in arrays.items():
        rest = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(InputError, match=f"from_bytes: .* lacks {name}"):
            kind.from_bytes(pack_state(kind.__name__, settings, rest))
        longer = {**arrays, name: np.concatenate([np.atleast_1d(array)] * 2)}
        with pytest.raises(InputError, match="from_bytes"):
            kind.from_bytes(pack_state(kind.__name__, settings, longer))
    with pytest.raises(InputError, match="unknown more"):
        kind.from_bytes(pack_state(kind.__name__, settings, {**arrays, "more": np.zeros(2)}))


@pytest.mark.parametrize("text", [b"[]", b"{}", b"nonsense", b'{"kind": "ConfidenceSketch"}'])
def test_bytes_with_other_json(text):
    body = struct.pack("<I", len(text)) + text
    data = b"CLBR" + struct.pack("<HI", 1, zlib.crc32(body)) + body
    with pytest.raises(InputError, match="from_bytes"):
        ConfidenceSketch.from_bytes(data)
    long = struct.pack("<I", 1000) + text
    with pytest.raises(InputError, match="from_bytes"):
        ConfidenceSketch.from_bytes(b"CLBR" + struct.pack("<HI", 1, zlib.crc32(long)) + long)


def test_json_of_a_state_that_lacks_something():
    content = json.loads(accumulate(PREDICTIONS).to_json())
    for name in content:
        rest = {key: value for key, value in content.items() if key != name}
        with pytest.raises(InputError, match=f"from_json: .* lacks {name}"):
            CalibrationState.from_json(json.dumps(rest))


def test_a_sketch_of_other_bins_is_refused():
    """Its bins would be read as those of other confidences."""
    one = {"bin": np.array([1], np.uint16), **dict.fromkeys(("count", "correct"), np.array([1]))}
    data = pack_state("ConfidenceSketch", {"bins": 4}, {**one, "confidence": np.array([0.5])})
    with pytest.raises(InputError, match="of 65536 bins, got 4"):
        ConfidenceSketch.from_bytes(data)


def test_confidences_that_rounding_put_beyond_one_are_one():
    """Predictions take such rows, and so do the metrics without a sketch."""
    p = Predictions.from_probabilities([[1.0004, -0.0004], [0.3, 0.7]], [0, 0])
    assert aurc(ConfidenceSketch.of(p)) == aurc(p)
    assert ConfidenceSketch.of(p).steps()[0].tolist() == [0.7, 1.0]
