"""How often bootstrap intervals hold the truth: percentile, basic and auto, metric by metric.

Draws samples from models whose calibration is known, and prints for each metric how often the 95 %
interval holds the true value, how often it holds the estimate itself, and its mean width: first for
independent examples, then for words of sentences that are alike, and then for the ECE alone: of
few and many examples, of models that are off everywhere, in one bin or in both directions. There it
also counts the intervals that reach 0 although the ECE is more than chance. ``losses`` are NLL and
Brier score alone, of the same sentences and of naive Bayes, whose losses have a heavy tail. The
figures in docs/decisions/0005-basic-intervals.md and 0012-intervals-of-groups.md come from

    python benchmarks/interval_coverage.py --part independent --samples 100
    python benchmarks/interval_coverage.py --part grouped --samples 300
    python benchmarks/interval_coverage.py --part ece --samples 300
    python benchmarks/interval_coverage.py --part losses --samples 300
"""

import argparse
import json
import platform
import time
from functools import cache
from math import erf
from pathlib import Path

import numpy as np

import calibrant
from calibrant import Predictions
from calibrant.metrics import (
    accumulate,
    accuracy,
    adaptive_ece,
    assign_blocks,
    aurc,
    auroc,
    brier,
    chance_ece,
    classwise_ece,
    confidences,
    debiased_rms_ece,
    ece,
    ks_error,
    mce,
    nll,
    overconfidence_error,
    replicate,
    smooth_ece,
)
from calibrant.metrics.bootstrap import (
    _weights,
    effective_groups,
    skewness_of_mean,
    tells_of_mistakes,
)
from calibrant.metrics.interval_ends import interval_of
from calibrant.metrics.null_ece import least_ece

ADDITIVE = [ece, mce, overconfidence_error, classwise_ece, debiased_rms_ece, accuracy, nll, brier]
SORTED = [adaptive_ece, ks_error, smooth_ece, aurc, auroc]
UNCALIBRATED = [accuracy, nll, brier, aurc, auroc]  # Those that are not 0 for honest confidences.
GROUPED = [accuracy, nll, brier, ece, ks_error, auroc]  # Few, for the many cases of sentences.
METHODS = {
    "independent": ("percentile", "basic", "auto"),
    "grouped": ("percentile", "auto"),
    "ece": ("percentile", "auto"),
    "losses": ("percentile", "auto"),
}
# Naive Bayes: how far apart its classes are, and a factor of its log-odds.
NAIVE_BAYES = {"naive bayes": (0.8, 1), "rare mistakes": (1.1, 1), "ten times as sure": (0.8, 10)}
# How often a model is right at a confidence, where this is not a power of it.
CURVES = {
    "one bin": lambda c: np.where(c > 14 / 15, c - 0.2, c),
    "both ways": lambda c: np.where(c > 0.85, c - 0.06, np.minimum(c + 0.06, 1)),
}
VERDICT = 0.9875  # The quantile of chance beyond which an audit doubts.
CLASSES = 4
WORDS = 12  # Mean length of a sentence.


def draw(rng, power, n=1000, sentences=0, alike=0.0, unequal=False):
    """Predictions that are right with probability confidence^power: honest where power is 1.

    ``power`` is also the name of one of the ``CURVES``, or of a kind of ``NAIVE_BAYES``.

    Of ``sentences``, confidence and correctness have a normal part that all words share, of the
    intra-class correlation ``alike``; their lengths are 12, or geometric with that mean.
    """
    if power in NAIVE_BAYES:
        return naive_bayes(rng, *NAIVE_BAYES[power], n)
    groups = {}
    sentence = np.arange(n)
    if sentences:
        lengths = rng.geometric(1 / WORDS, sentences) if unequal else np.full(sentences, WORDS)
        sentence = np.repeat(np.arange(sentences), lengths)
        groups["sentence"] = sentence
    n = len(sentence)
    shared = [_uniform(rng, sentence, alike) for _ in range(2)]
    confidence = 1 - 0.7 * (1 - shared[0] ** (1 / 6))  # 1 − 0.7 · Beta(1, 6)
    right = CURVES[power](confidence) if power in CURVES else confidence**power
    first = np.where(shared[1] < right, 0, rng.integers(1, CLASSES, n))
    scores = np.repeat(((1 - confidence) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    scores[:, 0] = confidence
    turn = rng.integers(CLASSES, size=n)  # Turn the columns, so that the classes are alike.
    columns = (np.arange(CLASSES) - turn[:, None]) % CLASSES
    probabilities = np.take_along_axis(scores, columns, axis=1)
    return Predictions.from_probabilities(probabilities, (first + turn) % CLASSES, groups=groups)


def naive_bayes(rng, apart, factor, n):
    """Log-odds of three classes from twelve features that are taken as independent.

    They share a part of the noise, and the spread of the classes differs.
    """
    means = apart * np.random.default_rng(5).normal(size=(3, 12))
    label, shared = rng.integers(3, size=n), rng.normal(size=(n, 1))
    noise = np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.normal(size=(n, 12))
    features = means[label] + np.array([0.7, 1.0, 1.3])[label, None] * noise
    away = ((features[:, None] - means) ** 2).sum(axis=2)
    return Predictions.from_logits(-factor * away / 2, label)


def _uniform(rng, sentence, alike):
    """Uniform numbers whose normal scores are correlated within a sentence."""
    common = rng.normal(size=sentence[-1] + 1)[sentence]
    score = np.sqrt(alike) * common + np.sqrt(1 - alike) * rng.normal(size=len(sentence))
    return (1 + np.vectorize(erf)(score / np.sqrt(2))) / 2


@cache
def truth(power, metrics):
    """The metrics of half a million examples; the errors of an honest model are 0 by definition."""
    large = draw(np.random.default_rng(1), power, 500_000)
    state, each = accumulate(large), confidences(large)
    values = {m: m(each if m in SORTED else state) for m in metrics}
    return {m: v if power != 1 or m in UNCALIBRATED else 0.0 for m, v in values.items()}


def cases(part):
    """The settings of the samples, by name."""
    if part == "losses":
        sizes = (50, 150, 500, 5000)
        kinds = (1.0, 1.5, *NAIVE_BAYES)
        alone = {f"power={kind} n={n}": {"power": kind, "n": n} for kind in kinds for n in sizes}
        return alone | cases("grouped")
    if part == "independent":
        return {f"power={power}": {"power": power} for power in (1.0, 1.3, 2.0)}
    if part == "ece":
        sizes = [{"n": n} for n in (100, 1000, 10_000)]
        sizes += [{"sentences": g, "alike": a} for g in (20, 50, 250) for a in (0.0, 0.4)]
        return {
            " ".join(f"{name}={value}" for name, value in ({"power": power} | size).items()): {
                "power": power, **size,
            }
            for power in (1.0, 1.1, 1.5, 2.0, *CURVES)
            for size in sizes
        }  # fmt: skip
    return {
        f"power={power} sentences={sentences} alike={alike} {kind}": {
            "power": power, "sentences": sentences, "alike": alike, "unequal": kind == "unequal",
        }
        for power in (1.0, 1.5)
        for alike in (0.0, 0.4, 0.7)
        for sentences in (10, 20, 50, 250)
        for kind in ("equal", "unequal")
    }  # fmt: skip


def measure(options, settings, metrics):
    """Per metric and method: how often the truth and the estimate are held, and the mean width."""
    rng = np.random.default_rng(options.seed)
    true, seen = truth(settings["power"], tuple(metrics)), {}
    for _ in range(options.samples):
        p = draw(rng, **settings)
        # Blocks that hold nothing are left out: they are never drawn, but cost time.
        used, block = np.unique(assign_blocks(p), return_inverse=True)
        where = {"block": block, "blocks": len(used), "classwise": options.part == "independent"}
        state = accumulate(p, **where)
        each = confidences(p, block) if options.part != "losses" else None
        groups, drawn = effective_groups(state), replicates_of(metrics, state, each, options)
        known = state if "sentences" in settings else state.total()
        least = least_ece(known, replicates=options.replicates) if ece in metrics else None
        chance = chance_ece(known, quantile=VERDICT)[1] if options.part == "ece" else np.inf
        for metric in metrics:
            values, estimate = drawn[metric], metric(p)
            if values is None or np.isnan(values).all() or np.isnan(estimate):
                continue
            if not tells_of_mistakes(metric, state, estimate, None):
                continue
            skewness = skewness_of_mean(metric, state)
            for method in METHODS[options.part]:
                known_end = least if metric is ece else None
                beside = {"groups": groups, "least": known_end, "skewness": skewness}
                found = interval_of(metric, values, estimate, method=method, **beside)
                low, high = found[0] - 1e-12, found[1] + 1e-12
                held = (low <= true[metric] <= high, low <= estimate <= high)
                row = (*held, high - low, estimate > chance, estimate > chance and low < 1e-6)
                seen.setdefault((metric, method), []).append(row)
    for (metric, method), rows in seen.items():
        covered, held, width, doubted, reaches_0 = np.mean(rows, axis=0).tolist()
        beside = {"doubted": doubted, "doubted_from_0": reaches_0} if options.part == "ece" else {}
        yield {
            "metric": metric.__name__, "method": method, "true": true[metric],
            "covers": covered, "holds": held, "width": width, "intervals": len(rows), **beside,
        }  # fmt: skip


def replicates_of(metrics, state, each, options):
    """The replicates by metric; of KS error and AUROC alone, of all replicates at once."""
    found = {
        m: replicate(m, state, replicates=options.replicates) for m in metrics if m in ADDITIVE
    }
    ordered = [m for m in metrics if m in SORTED]
    if options.part == "grouped":
        return found | dict(zip(ordered, at_once(each, options.replicates), strict=True))
    return found | {m: replicate(m, each, replicates=options.replicates) for m in ordered}


def at_once(each, replicates):
    """KS error and AUROC of the replicates of ``replicate``, for confidences without ties."""
    order = np.argsort(each.confidence)
    drawn = _weights(np.bincount(each.block) > 0, replicates, seed=0)[:, each.block[order]]
    right = drawn * each.correct[order]
    wrong, n = drawn - right, drawn.sum(axis=1)
    gaps = np.cumsum(right - drawn * each.confidence[order], axis=1)
    pairs = right.sum(axis=1) * wrong.sum(axis=1)
    above = ((np.cumsum(wrong, axis=1) - wrong) * right + wrong * right / 2).sum(axis=1)
    return np.abs(gaps).max(axis=1) / n, np.where(pairs > 0, above / np.maximum(pairs, 1), np.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=tuple(METHODS), default="independent")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="the cases whose name holds this")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    metrics = {"grouped": GROUPED, "ece": [ece], "losses": [nll, brier]}.get(
        options.part, ADDITIVE + SORTED
    )
    started, rows = time.perf_counter(), []
    chosen = {name: case for name, case in cases(options.part).items() if options.only in name}
    for name, settings in chosen.items():
        for row in measure(options, settings, metrics):
            rows.append({"case": name, **row})
            print(
                f"{name:45} {row['metric']:22} {row['method']:10} true={row['true']:.4f} "
                f"covers={row['covers']:.2f} holds={row['holds']:.2f} width={row['width']:.4f} "
                f"from 0 though doubted={row.get('doubted_from_0', np.nan):.2f}",
                flush=True,
            )
    if options.json is not None:
        content = {
            "program": f"interval_coverage.py --part {options.part}", "samples": options.samples,
            "replicates": options.replicates, "seed": options.seed,
            "seconds": round(time.perf_counter() - started),
            "calibrant": calibrant.__version__, "numpy": np.__version__,
            "python": platform.python_version(), "rows": rows,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
