"""How often ``calibrant watch`` raises an alarm where nothing changes, and how soon where it does.

Draws a reference and a stream from one distribution, in which the words of a sentence are alike or
independent, and some labels arrive. It counts streams with an alarm at any time, chunks whose
accuracy lies in its interval, and confidence sequences that ever exclude the accuracy. Two
settings fit a calibrator on few rows. Then the same with a change in the middle, and the rows
until the alarm. The figures in docs/watch-and-adapt.md come from

    python benchmarks/watch_alarms.py --json benchmarks/results/watch-alarms-cpu.json
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np

import calibrant
from calibrant import Predictions, watch
from calibrant.calibrators import CALIBRATORS

CLASSES = 5


def draw(rng, n, *, words=1, sharpness=1.0, shares=None, dishonest=0.0):
    """Honest predictions; a sentence has ``words`` words whose sharpness is the same.

    ``shares`` makes classes more frequent, in predictions and labels; ``dishonest`` is the share of
    labels that another class replaces.
    """
    sharp = np.repeat(rng.gamma(2.0, sharpness, (-(-n // words), 1)), words, axis=0)[:n]
    logits = sharp * rng.normal(size=(n, CLASSES))
    if shares is not None:
        logits += np.log(shares)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    wrong = rng.random(n) < dishonest
    return p, np.where(wrong, (labels + 1) % CLASSES, labels)


def predictions(parts, words, labelled, rng):
    p, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    groups = {"labelled": rng.random(len(p)) < labelled}
    if words > 1:
        groups["sentence"] = np.arange(len(p)) // words
    return Predictions.from_probabilities(p, labels, groups=groups)


def overconfident(predictions):
    """Return logits twice as large as honest: a calibrator is needed, and is a little wrong."""
    logits = 2 * np.log(np.maximum(predictions.scores, 1e-300))
    return predictions.with_scores(logits, "logits")


# Name, words of a sentence, rows of reference and stream, share labelled, what changes; with a
# "calibrator", the scores are overconfident and it is fitted on the reference.
SETTINGS = [
    ("nothing, 500 reference rows", 1, 500, 20_000, 0.05, {}),
    ("nothing, 5,000 reference rows", 1, 5000, 20_000, 0.05, {}),
    ("nothing, sentences of 10 words", 10, 5000, 20_000, 0.05, {}),
    ("nothing, temperature of 300 rows", 1, 300, 20_000, 0.15, {"calibrator": "temperature"}),
    ("nothing, isotonic of 300 rows", 1, 300, 20_000, 0.15, {"calibrator": "isotonic-top-label"}),
    ("less sure (sharpness 0.8)", 1, 5000, 20_000, 0.0, {"sharpness": 0.8}),
    ("less sure, sentences of 10 words", 10, 5000, 20_000, 0.0, {"sharpness": 0.8}),
    ("one class twice as frequent", 1, 5000, 20_000, 0.0, {"shares": [2, 1, 1, 1, 1]}),
    ("a tenth of the labels wrong", 1, 5000, 20_000, 0.3, {"dishonest": 0.1}),
]


def _calibrator(change):
    return CALIBRATORS[change["calibrator"]].calibrator() if "calibrator" in change else None


def one(rng, setting, false_alarms):
    _, words, before, rows, labelled, change = setting
    fitted = _calibrator(change)
    change = {key: value for key, value in change.items() if key != "calibrator"}
    half = rows // 2
    reference = predictions([draw(rng, before, words=words)], words, 1.0, rng)
    parts = [draw(rng, half, words=words), draw(rng, half, words=words, **change)]
    stream = predictions(parts, words, labelled, rng)
    if fitted is not None:
        reference, stream = overconfident(reference), overconfident(stream)
        fitted.fit(reference)
    options = {"calibrator": fitted, "false_alarms": false_alarms, "level": 0.95}
    found = watch(stream, reference=reference, **options)
    first = min((alarm.row for alarm in found.alarms), default=None)
    right = np.asarray(stream.scores).argmax(axis=1) == stream.labels
    covered, seen, inside = [], 0, True
    for chunk in found.chunks:
        accuracy = right[seen : seen + chunk.rows].mean()
        low, high = chunk.expected_accuracy[1:]
        covered.append(low <= accuracy <= high)
        seen += chunk.rows
    if found.total.labelled and not change:
        low, high = found.total.accuracy[1:]
        inside = low <= right.mean() <= high
    return first, np.mean(covered), inside


def measure(setting, streams, false_alarms, seed):
    rng = np.random.default_rng(seed)
    results = [one(rng, setting, false_alarms) for _ in range(streams)]
    rows = [row for row, _, _ in results if row is not None]
    late = [row - setting[3] // 2 for row in rows if row > setting[3] // 2]
    changes = bool(setting[5].keys() - {"calibrator"})
    early = sum(row <= setting[3] // 2 for row in rows) if changes else len(rows)
    return {
        "setting": setting[0],
        "streams": streams,
        "false_alarms": early / streams,
        "found": len(late) / streams if changes else None,
        "median_rows_to_alarm": float(np.median(late)) if changes and late else None,
        "chunks_covered": None if changes else float(np.mean([c for _, c, _ in results])),
        "accuracy_excluded": None
        if changes or not setting[4]
        else sum(not inside for *_, inside in results) / streams,
    }


def shown(value, form):
    return "–" if value is None else format(value, form)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--false-alarms", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began, table = time.perf_counter(), []
    print(f"Stated rate of false alarms: {args.false_alarms:.1%}; {args.streams} streams each")
    print(f"{'what changes':36}{'false':>8}{'found':>8}{'rows':>8}{'covered':>9}{'excluded':>9}")
    for setting in SETTINGS:
        row = measure(setting, args.streams, args.false_alarms, args.seed)
        table.append(row)
        print(
            f"{row['setting']:36}{row['false_alarms']:8.1%}{shown(row['found'], '8.0%'):>8}"
            f"{shown(row['median_rows_to_alarm'], '8,.0f'):>8}"
            f"{shown(row['chunks_covered'], '9.1%'):>9}{shown(row['accuracy_excluded'], '9.1%'):>9}"
        )
    if args.json is not None:
        about = {
            "calibrant": calibrant.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.processor() or platform.machine(),
            "seconds": round(time.perf_counter() - began, 1),
            "stated": args.false_alarms,
            "seed": args.seed,
        }
        args.json.write_text(json.dumps({"about": about, "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
