"""How often the verdict of an audit doubts honest confidences, and how often it sees bad ones.

Draws files whose labels follow their probabilities exactly, of independent examples and of
sentences whose words are alike, and counts the verdicts that do not say "No reason to doubt",
"Little reason to doubt" or "Too few examples". Then the same for files that are off in a class or a
group alone. The figures in docs/decisions/0011-verdict-of-classes-and-groups.md come from

    python benchmarks/verdict_alarms.py --json benchmarks/results/verdict-alarms-cpu.json
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np

import calibrant
from calibrant import Predictions
from calibrant.auditing import audit
from calibrant.metrics import ece

SATISFIED = ("No reason to doubt", "Little reason to doubt", "Too few examples")


def honest(rng, n, classes, sentences=0, alike=0.0, groups=0):
    """Probabilities of random sharpness, and labels drawn from them.

    With ``sentences`` the examples are words: of each sentence, a share ``alike`` copies the word
    before, probabilities and label, so that its words are worth fewer than their number.
    """
    logits = rng.normal(size=(n, classes)) * rng.gamma(2.0, 1.0, (n, 1))
    more = {}
    if sentences:
        sentence = np.sort(rng.integers(sentences, size=n))
        more["sentence"] = sentence
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    if sentences:
        same = np.append(False, (rng.random(n - 1) < alike) & (sentence[1:] == sentence[:-1]))
        source = np.maximum.accumulate(np.where(same, 0, np.arange(n)))
        probabilities, labels = probabilities[source], labels[source]
    if groups:
        more["domain"] = rng.integers(groups, size=n)
    return probabilities, labels, more


def doubted(probabilities, labels, more):
    """Whether the verdict doubts, and the ECE that it goes by."""
    p = Predictions.from_probabilities(probabilities, labels, groups=more)
    first = audit(p, bootstrap=0).verdict[0]
    return not first.startswith(SATISFIED), float(ece(p))


def biased_positive(rng, n):
    """Two classes; the second gets 16 points too much everywhere, the top label is fine."""
    given = rng.uniform(0.16, 1.0, n)
    labels = (rng.random(n) < given - 0.16).astype(int)
    return np.stack([1 - given, given], axis=1), labels, {}


def rare_positive(rng, n, share, too_high=1.0):
    """Two classes, of which the second is rare; its scores may be too high by a factor."""
    given = rng.beta(0.5, 0.5 / share - 0.5, n)
    labels = (rng.random(n) < given / too_high).astype(int)
    return np.stack([1 - given, given], axis=1), labels, {}


def claims_too_much(rng, n):
    """Two classes; predictions of the second claim 75 % and are right 65 %, of the first less."""
    second = rng.random(n) < 0.5
    right = np.where(second, rng.random(n) < 0.65, rng.random(n) < 0.85)
    given = np.where(second, 0.75, 0.25)
    labels = np.where(right, second, ~second).astype(int)
    return np.stack([1 - given, given], axis=1), labels, {}


def off_in_a_domain(rng, n):
    """Four classes; one domain of five is ten points too sure, the others a little too modest."""
    probabilities, labels, _ = honest(rng, n, 4)
    domain, top = rng.integers(5, size=n), probabilities.argmax(axis=1)
    spoiled = (domain == 0) & (rng.random(n) < 0.1)
    labels = np.where(spoiled, (top + rng.integers(1, 4, n)) % 4, labels)
    mended = (domain > 0) & (rng.random(n) < 0.025 / 0.4)
    labels = np.where(mended, top, labels)
    return probabilities, labels, {"domain": domain}


CASES = {
    "honest, 500 × 2": (honest, {"n": 500, "classes": 2}),
    "honest, 5000 × 2": (honest, {"n": 5000, "classes": 2}),
    "honest, 2000 × 4": (honest, {"n": 2000, "classes": 4}),
    "honest, 2000 × 50": (honest, {"n": 2000, "classes": 50}),
    "honest, 2000 × 4, 5 groups": (honest, {"n": 2000, "classes": 4, "groups": 5}),
    "honest, 10 sentences, alike .5": (
        honest, {"n": 240, "classes": 4, "sentences": 10, "alike": 0.5},
    ),
    "honest, 50 sentences, alike .5": (
        honest, {"n": 600, "classes": 4, "sentences": 50, "alike": 0.5},
    ),
    "honest, 250 sentences, alike .1": (
        honest, {"n": 3000, "classes": 4, "sentences": 250, "alike": 0.1},
    ),
    "honest, 250 sentences, alike .8": (
        honest, {"n": 3000, "classes": 4, "sentences": 250, "alike": 0.8},
    ),
    "honest, 250 sentences, alike .8, 5 groups": (
        honest, {"n": 3000, "classes": 4, "sentences": 250, "alike": 0.8, "groups": 5},
    ),
    "honest, 2 % positive, n = 2000": (rare_positive, {"n": 2000, "share": 0.02}),
    "honest, 1 % positive, n = 6000": (rare_positive, {"n": 6000, "share": 0.01}),
    "honest, 1 % positive, n = 20000": (rare_positive, {"n": 20_000, "share": 0.01}),
    "1 % expected, .6 % positive, n = 6000": (
        rare_positive, {"n": 6000, "share": 0.01, "too_high": 1.6},
    ),
    "1 % expected, .6 % positive, n = 20000": (
        rare_positive, {"n": 20_000, "share": 0.01, "too_high": 1.6},
    ),
    "positive class 16 points off, n = 500": (biased_positive, {"n": 500}),
    "positive class 16 points off, n = 2000": (biased_positive, {"n": 2000}),
    "class 1 claims 75 %, right 65 %, n = 400": (claims_too_much, {"n": 400}),
    "class 1 claims 75 %, right 65 %, n = 2000": (claims_too_much, {"n": 2000}),
    "a domain of five off, n = 2000": (off_in_a_domain, {"n": 2000}),
    "a domain of five off, n = 10000": (off_in_a_domain, {"n": 10000}),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    rows, started = [], time.perf_counter()
    for name, (draw, settings) in CASES.items():
        rng = np.random.default_rng(options.seed)
        seen = [doubted(*draw(rng, **settings)) for _ in range(options.samples)]
        share, error = np.mean([d for d, _ in seen]), np.mean([e for _, e in seen])
        rows.append({"case": name, "doubted": float(share), "mean_ece": float(error)})
        print(f"{name:45} doubted {share:.3f}   mean ECE {error:.4f}", flush=True)
    if options.json is not None:
        versions = {"calibrant": calibrant.__version__, "numpy": np.__version__}
        content = {
            "program": "verdict_alarms.py", "samples": options.samples, "seed": options.seed,
            "seconds": round(time.perf_counter() - started), "python": platform.python_version(),
            **versions, "rows": rows,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
