"""Every metric once more, by plain loops from its definition: slow, and easy to believe."""

import itertools
import math

import numpy as np

from calibrant import Predictions


def sample(name, n=150, seed=0):
    """Predictions of one kind each, overconfident, some of them at the edges."""
    rng = np.random.default_rng(seed)
    classes = 2 if name == "two" else 4
    labels = rng.integers(0, classes, n)
    logits = 1.5 * rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.2
    if name == "saturated":  # Confidence exactly 1, right and wrong.
        logits[::3] *= 1000
    if name == "ties":  # Tenths: many equal confidences, on bin edges.
        tenths = rng.multinomial(10, [0.1, 0.1, 0.7, 0.1], size=n)
        return Predictions.from_probabilities(rng.permuted(tenths, axis=1) / 10, labels)
    if name == "probabilities32":
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return Predictions.from_probabilities((p / p.sum(1, keepdims=True)).astype("f4"), labels)
    return Predictions.from_logits(logits.astype("f4" if name == "logits32" else "f8"), labels)


def probabilities(p):
    """The rows of probabilities as lists of floats, from float64 logits."""
    if p.kind == "probabilities":
        return [[float(v) for v in row] for row in p.scores]
    rows = []
    for row in p.scores:
        row = [float(v) for v in row]
        exponentials = [math.exp(v - max(row)) for v in row]
        rows.append([e / sum(exponentials) for e in exponentials])
    return rows


def pairs(p):
    """(confidence, right) of each example."""
    result = []
    for row, score, label in zip(probabilities(p), p.scores, p.labels, strict=True):
        best = max(range(len(row)), key=lambda k: (score[k], -k))
        result.append((row[best], best == int(label)))
    return result


def bin_of(value, bins, closed="right", dtype=np.float64):
    for b in range(bins):
        low, high = dtype(b / bins), dtype((b + 1) / bins)
        if closed == "right" and (value <= high or b == bins - 1):
            return b
        if closed == "left" and (low <= value < high or b == bins - 1):
            return b
    raise AssertionError


def _dtype(p):
    return p.scores.dtype.type if p.kind == "probabilities" else np.float64


def _table(scored, bins, closed, dtype):
    table = [[0, 0.0, 0] for _ in range(bins)]
    for value, right in scored:
        row = table[bin_of(value, bins, closed, dtype)]
        row[0] += 1
        row[1] += value
        row[2] += right
    return [row for row in table if row[0]]


def _binned(scored, bins, closed, dtype=np.float64):
    """(share, accuracy, confidence, count) of each bin that is not empty."""
    rows = _table(scored, bins, closed, dtype)
    n = sum(row[0] for row in rows)
    return [(c / n, right / c, total / c, c) for c, total, right in rows]


def ece(p, bins=15, closed="right"):
    return sum(w * abs(a - c) for w, a, c, _ in _binned(pairs(p), bins, closed, _dtype(p)))


def mce(p, bins=15, closed="right"):
    return max(abs(a - c) for _, a, c, _ in _binned(pairs(p), bins, closed, _dtype(p)))


def overconfidence_error(p, bins=15, closed="right"):
    rows = _binned(pairs(p), bins, closed, _dtype(p))
    return sum(w * c * max(c - a, 0) for w, a, c, _ in rows)


def debiased_rms_ece(p, bins=15, closed="right"):
    total = 0.0
    for w, a, c, count in _binned(pairs(p), bins, closed, _dtype(p)):
        if count > 1:
            total += w * ((a - c) ** 2 - a * (1 - a) / (count - 1))
    return math.sqrt(max(total, 0))


def columns(p):
    """For each class, (p_k, label is k) of each example."""
    rows = probabilities(p)
    return [
        [(row[k], int(y) == k) for row, y in zip(rows, p.labels, strict=True)]
        for k in range(p.classes)
    ]


def classwise_ece(p, bins=15, closed="right"):
    errors = [
        sum(w * abs(a - c) for w, a, c, _ in _binned(column, bins, closed, _dtype(p)))
        for column in columns(p)
    ]
    return sum(errors) / len(errors)


def accuracy(p):
    return sum(right for _, right in pairs(p)) / len(p)


def error_rate(p):
    return 1 - accuracy(p)


def mean_confidence(p):
    return sum(c for c, _ in pairs(p)) / len(p)


def nll(p):
    total = 0.0
    for row, y in zip(p.scores, p.labels, strict=True):
        if p.kind == "probabilities":
            total += -math.log(float(row[y])) if row[y] > 0 else math.inf
        else:
            top = float(max(row))
            total += top - float(row[y]) + math.log(sum(math.exp(float(v) - top) for v in row))
    return total / len(p)


def brier(p):
    total = 0.0
    for row, y in zip(probabilities(p), p.labels, strict=True):
        total += sum((v - (k == int(y))) ** 2 for k, v in enumerate(row))
    return total / len(p)


def _adaptive(scored, bins):
    n = len(scored)
    table = [[0, 0.0, 0] for _ in range(bins)]
    for value in {value for value, _ in scored}:
        tied = [right for other, right in scored if other == value]
        smaller = sum(other < value for other, _ in scored)
        row = table[bins * (2 * smaller + len(tied)) // (2 * n)]
        row[0] += len(tied)
        row[1] += value * len(tied)
        row[2] += sum(tied)
    return sum(abs(right - total) for _, total, right in table) / n


def adaptive_ece(p, bins=15):
    return _adaptive(pairs(p), bins)


def adaptive_classwise_ece(p, bins=15):
    errors = [_adaptive(column, bins) for column in columns(p)]
    return sum(errors) / len(errors)


def ks_error(p):
    scored = pairs(p)
    return max(
        abs(sum(right - value for value, right in scored if value <= t)) / len(scored)
        for t, _ in scored
    )


def smooth_ece(p):
    """The fixed point by bisection, the reflected Gaussian as a sum over its mirror images."""
    scored = pairs(p)
    points = np.linspace(0, 1, 2001)

    def integral(sigma):
        density = np.zeros(len(points))
        for value, right in scored:
            for image in range(-8, 9):
                for centre in (2 * image + value, 2 * image - value):
                    density += (right - value) * np.exp(-((points - centre) ** 2) / (2 * sigma**2))
        density /= len(scored) * sigma * math.sqrt(2 * math.pi)
        inner = np.abs(density)
        return float((inner.sum() - 0.5 * (inner[0] + inner[-1])) * (points[1] - points[0]))

    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if integral(middle) > middle else (low, middle)
    return (low + high) / 2


def aurc(p):
    scored = pairs(p)
    total = 0.0
    for threshold, _ in scored:
        accepted = [right for value, right in scored if value >= threshold]
        total += 1 - sum(accepted) / len(accepted)
    return total / len(scored)


def e_aurc(p):
    rights = sorted((right for _, right in pairs(p)), reverse=True)
    best = sum(1 - sum(rights[:i]) / i for i in range(1, len(rights) + 1)) / len(rights)
    return aurc(p) - best


def auroc(p):
    scored = pairs(p)
    good = [value for value, right in scored if right]
    bad = [value for value, right in scored if not right]
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return wins / (len(good) * len(bad))


def augrc(p):
    """Trapezoids under (coverage, share that is wrong and accepted)."""
    scored = pairs(p)
    points = [(0.0, 0.0)]
    for t in sorted({value for value, _ in scored}, reverse=True):
        accepted = [right for value, right in scored if value >= t]
        points.append((len(accepted) / len(scored), accepted.count(False) / len(scored)))
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        area += (x1 - x0) * (y0 + y1) / 2
    return area


def risk_at_coverage(p, coverage):
    scored = pairs(p)
    for t in sorted({value for value, _ in scored}, reverse=True):
        accepted = [right for value, right in scored if value >= t]
        if len(accepted) >= coverage * len(scored):
            return accepted.count(False) / len(accepted)
    raise AssertionError


def coverage_at_risk(p, risk):
    scored, best = pairs(p), 0.0
    for t, _ in scored:
        accepted = [right for value, right in scored if value >= t]
        if accepted.count(False) / len(accepted) <= risk:
            best = max(best, len(accepted) / len(scored))
    return best


def spans(tags, mode="default"):
    """(start, end, type) of one sentence's tags, by walking along it."""
    found, opened = [], None
    for i, tag in enumerate([*tags, "O"]):
        prefix, kind = tag[0], tag[2:] or "_"
        before, kind_before = (tags[i - 1][0], tags[i - 1][2:] or "_") if i else ("O", "")
        new = prefix != "O" and (
            prefix in "BS" or before in "OES" or kind != kind_before or opened is None
        )
        if opened is not None and (prefix == "O" or new):
            found.append((opened, i, kind_before))
            opened = None
        if new:
            opened = i
    if mode == "strict":
        if any(tag[0] in "ES" for tag in tags):
            good = [("S", "S"), ("B", "E")]
            found = [s for s in found if (tags[s[0]][0], tags[s[1] - 1][0]) in good]
        else:
            found = [s for s in found if tags[s[0]][0] == "B"]
    return found
