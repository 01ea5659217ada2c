"""How often a promised target risk is broken: simulated validation splits of known truth.

python benchmarks/target_risk.py --json results/target-risk-cpu.json

Entities of one to four words, three a sentence. In the world "nothing" confidence says nothing and
one in five is wrong; in "least" the least word tells the chance of being right; in "steps" the
product does, in steps that no beta calibrator can follow. With a correlation, entities of one
sentence are right and wrong together (a Gaussian copula). A promise is broken if the true risk of
what the threshold accepts is above the target; at the level of 0.9 one in ten may be.
"""

import argparse
import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np

from calibrant import Predictions
from calibrant.comparison.risk_control import THRESHOLDS, guaranteed_threshold
from calibrant.comparison.span_calibrator import SpanCalibrator
from calibrant.experiments.record import circumstances
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Spans

LABELS = ("O", "B-X", "I-X")
WORLDS = {
    "nothing": lambda _, spans: np.full(len(spans), 0.8),
    "least": lambda c, spans: _sigmoid(1.2 * _logit(span_confidence(spans, c, "min")) - 0.3),
    "steps": lambda c, spans: np.select(
        [span_confidence(spans, c, "product") > x for x in (0.9, 0.6)], [0.97, 0.75], 0.3
    ),
}
# World, validation entities, target, correlation.
CASES = [
    *(("nothing", n, t, 0.0) for n in (200, 800) for t in (0.18, 0.195)),
    *((world, n, t, 0.0) for world in ("least", "steps") for n in (200, 800) for t in (0.1, 0.2)),
    *(("nothing", 800, 0.195, rho) for rho in (0.3, 0.6)),
    *(("least", 800, 0.2, rho) for rho in (0.3, 0.6)),
]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _logit(p):
    return np.log(p / (1 - p))


def draw(random, n, world, correlation):
    """Confidences of words, spans of entities, their chances, and which are right."""
    length = random.integers(1, 5, n)
    end = np.cumsum(length)
    spans = Spans(end - length, end, np.zeros(n, np.int64))
    shared = np.repeat(random.beta(4, 1, n), length)
    confidence = np.clip(shared + random.normal(0, 0.08, len(shared)), 0.35, 1 - 1e-6)
    chance = WORLDS[world](confidence, spans)
    luck = math.sqrt(correlation) * random.normal(size=n)[np.arange(n) // 3]
    luck += math.sqrt(1 - correlation) * random.normal(size=n)
    quantile = np.vectorize(NormalDist().cdf)(luck)
    return confidence, spans, chance, quantile < chance


def predictions(confidence, spans, right):
    words = len(confidence)
    number = np.repeat(np.arange(len(spans)), spans.end - spans.start)
    tag = np.where(np.isin(np.arange(words), spans.start), 1, 2)
    scores = np.repeat(((1 - confidence) / 2)[:, None], 3, axis=1)
    scores[np.arange(words), tag] = confidence
    return Predictions.from_probabilities(
        scores,
        np.where(right[number], tag, 0),
        label_names=LABELS,
        groups={"sentence": number // 3},
    )


def simulate(world, n, target, correlation, splits):
    random = np.random.default_rng(0)
    words, spans, chance, _ = draw(random, 50_000, world, 0.0)
    broken, coverage = 0, []
    for _ in range(splits):
        confidence, found, _, right = draw(random, n, world, correlation)
        valid = predictions(confidence, found, right)
        together = SpanCalibrator().fit(valid)
        learned = together.apply(span_confidence(spans, words, together.reduction_))
        own = together.transform(valid)
        threshold = guaranteed_threshold(
            own.confidence, own.correct, target, groups=np.arange(n) // 3,
            thresholds=together.apply(THRESHOLDS),
        ).threshold  # fmt: skip
        accepted = learned >= threshold
        coverage.append(float(accepted.mean()))
        broken += bool(accepted.any() and 1 - chance[accepted].mean() > target)
    promised = sum(share > 0 for share in coverage)
    return {"promised": promised, "broken": broken, "coverage": float(np.mean(coverage))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=300)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    made = []
    for case in CASES:
        names = ("world", "entities", "target", "correlation")
        made.append({**dict(zip(names, case, strict=True)), **simulate(*case, splits=args.splits)})
        print(*made[-1].values(), flush=True)
    if args.json:
        about = {"splits": args.splits, "circumstances": circumstances()}
        args.json.write_text(json.dumps({"cases": made, **about}, indent=1))


if __name__ == "__main__":
    main()
