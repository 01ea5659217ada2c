"""Whether promises hold, and what they cost: simulated validation splits of known truth.

python benchmarks/guarantees.py --json results/guarantees-cpu.json

A stopped command continues where it stopped when it is run again, at the same commit.
`pip install mapie torchcp` adds the columns of these two; without them they are left out.

Risk: a promise is broken if the true risk of what the threshold accepts is above the target; at
level 0.9 one split in ten may be. "Kept" is the true share that is accepted, 0 where nothing is;
"held" is the same, but also 0 where the promise is broken.
Confidences are honest and spread ("honest"), honest and high ("sharp"), claim too much ("over") or
too little ("under"), or say nothing about items whose risk is just above the target ("nothing" and
"halves", which has one half above 0.99 and one below 0.5: whatever is accepted breaks the promise).
In groups, a share √ρ of the items takes its luck from the group, so that the correlation of two
items of a group is ρ (intra-class correlation).

Missed: reach of the true entities of sentences. Sets: ten classes, from the same probabilities.
"""

import argparse
import json
import math
import sys
import types
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from calibrant import Predictions, guarantee
from calibrant.experiments.record import circumstances
from calibrant.policies.missed import review_threshold
from calibrant.policies.risk import find_threshold

LEVEL, PEERS = 0.9, ("mapie", "torchcp")


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def draw(random, n, world, target):
    """Confidences, and the chance of each to be right."""
    if world == "honest":
        confidence = 0.4 + 0.6 * random.beta(3, 1, n)
        return confidence, confidence
    if world == "sharp":
        confidence = random.beta(12, 1, n)
        return confidence, confidence
    if world == "nothing":
        return random.uniform(0.5, 1, n), np.full(n, 1 - 1.02 * target)
    if world == "halves":
        high = random.random(n) < 0.5
        confidence = np.where(high, random.uniform(0.99, 1, n), random.uniform(0, 0.5, n))
        return confidence, np.full(n, 1 - 1.001 * target)
    if world == "under":
        confidence = 0.5 + 0.4 * random.beta(3, 1, n)
        return confidence, 1 - 1.5 * (1 - confidence) ** 2
    margin = np.abs(random.normal(1.5, 1.5, n))
    return _sigmoid(4 * margin), _sigmoid(margin)


def lucky(random, chance, group, correlation):
    """Which items are right; some of each group share their luck."""
    shared = random.random(len(chance)) < math.sqrt(correlation)
    luck = np.where(shared, random.random(group.max() + 1)[group], random.random(len(chance)))
    return luck < chance


def calibrant_groups(confidence, right, target, group):
    return find_threshold(confidence, right, target, LEVEL, groups=group).threshold


def calibrant_rows(confidence, right, target, _):
    return find_threshold(confidence, right, target, LEVEL).threshold


def mapie_risk(method):
    def threshold(confidence, right, target, _):
        from mapie.risk_control import BinaryClassificationController

        def probabilities(x):
            return np.stack([1 - x[:, 0], x[:, 0]], axis=1)

        controller = BinaryClassificationController(
            probabilities, "precision", 1 - target, confidence_level=LEVEL, fwer_method=method
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That nothing passed, and that risks are not monotone.
            controller.calibrate(confidence[:, None], right.astype(int))
        best = controller.best_predict_param
        return math.inf if best is None else float(best)

    return threshold


def risk_row(world, units, size, correlation, target, splits, methods):
    random = np.random.default_rng(0)
    truth, chance = draw(random, 200_000, world, target)
    row = {"world": world, "units": units, "size": size, "icc": correlation, "target": target}
    found = {name: ([], []) for name in methods}
    for _ in range(splits):
        group = np.repeat(np.arange(units), size)
        confidence, right = draw(random, len(group), world, target)
        right = lucky(random, right, group, correlation)
        for name, method in methods.items():
            accepted = truth >= method(confidence, right, target, group)
            broken = bool(accepted.any() and 1 - chance[accepted].mean() > target)
            found[name][0].append(broken)
            found[name][1].append(accepted.mean())
    for name, (broken, kept) in found.items():
        held = np.mean(np.where(broken, 0.0, kept))
        row[name] = {"broken": float(np.mean(broken)), "kept": round(float(np.mean(kept)), 4),
                     "held": round(float(held), 4)}  # fmt: skip
    return row


def missed_row(units, target, level, splits):
    """The loss of new sentences: mean over splits, and how often it is above the target."""
    random, losses = np.random.default_rng(0), []

    def reach(n):
        sizes = random.integers(1, 5, n)
        group = np.repeat(np.arange(n), sizes)
        shared = random.beta(4, 1, n)[group]
        own = random.random(len(group)) < 0.3  # The others share the reach of their sentence.
        return np.where(own, random.beta(4, 1, len(group)), shared), group

    truth, group = reach(100_000)
    weight = 1 / np.bincount(group)[group] / (group.max() + 1)
    for _ in range(splits):
        losses.append(float(weight[truth < review_threshold(*reach(units), target, level)].sum()))
    broken = float(np.mean(np.array(losses) > target))
    return {"sentences": units, "target": target, "level": level, "mean": float(np.mean(losses)),
            "broken": broken}  # fmt: skip


class Given:
    """A classifier whose inputs are its probabilities, as MAPIE takes it."""

    def __init__(self, classes):
        self.classes_ = np.arange(classes)
        self._estimator_type = "classifier"

    def fit(self, *_):
        return self

    def predict_proba(self, x):
        return np.asarray(x)

    def predict(self, x):
        return np.asarray(x).argmax(axis=1)

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()

    def get_params(self, deep=True):  # noqa: ARG002
        return {"classes": len(self.classes_)}


def own_sets(**options):
    def sets(valid, test, coverage, seed):
        made = Predictions.from_probabilities(*valid)
        policy = guarantee(made, coverage=coverage, seed=seed, **options)
        return policy.sets(Predictions.from_probabilities(test, np.zeros(len(test), int)))

    return sets


def mapie_sets(score, last="default"):
    def sets(valid, test, coverage, seed):
        from mapie.classification import SplitConformalClassifier

        made = SplitConformalClassifier(
            Given(test.shape[1]), coverage, score, prefit=True, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.conformalize(*valid)
            options = {} if last == "default" else {"include_last_label": last}
            found = made.predict_set(test, conformity_score_params=options)[1]
        return found[:, :, 0]

    return sets


def torchcp_sets(name, conditional=False, **options):
    def sets(valid, test, coverage, seed):
        # TorchCP imports libraries of parts that are not used here.
        stub = types.SimpleNamespace(soft_rank=None, soft_sort=None)
        sys.modules.setdefault("torchsort", stub)
        for part in ("graph", "llm", "regression"):
            sys.modules.setdefault(f"torchcp.{part}", types.ModuleType(part))
        import torch
        from torchcp.classification import predictor, score

        torch.manual_seed(seed)
        kind = predictor.ClassConditionalPredictor if conditional else predictor.SplitPredictor
        # Probabilities as they are: "log_softmax" of the logarithm would give the same.
        made = kind(getattr(score, name)(score_type="identity", **options), alpha=1 - coverage)
        made.calculate_threshold(torch.tensor(valid[0]), torch.tensor(valid[1]))
        return made.predict_with_logits(torch.tensor(test)).numpy().astype(bool)

    return sets


SETS = {
    "LAC": {"calibrant": own_sets(), "mapie": mapie_sets("lac"), "torchcp": torchcp_sets("LAC")},
    "LAC, each class": {
        "calibrant": own_sets(per="type"), "torchcp": torchcp_sets("LAC", conditional=True)
    },
    "APS": {
        "calibrant": own_sets(score="aps"), "mapie": mapie_sets("aps", True),
        "torchcp": torchcp_sets("APS", randomized=False),
    },
    "APS, randomised": {
        "calibrant": own_sets(score="aps", randomised=True),
        "mapie": mapie_sets("aps", "randomized"),
        "torchcp": torchcp_sets("APS", randomized=True),
    },
    "RAPS": {
        "calibrant": own_sets(score="raps"), "mapie": mapie_sets("raps", True),
        "torchcp": torchcp_sets("RAPS", randomized=False, penalty=0.01, kreg=1),
    },
    "RAPS, randomised": {
        "calibrant": own_sets(score="raps", randomised=True),
        "mapie": mapie_sets("raps", "randomized"),
        "torchcp": torchcp_sets("RAPS", randomized=True, penalty=0.01, kreg=1),
    },
}  # fmt: skip


def ten_classes(random, n, sharp):
    logits = 2 * random.normal(size=(n, 10))
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    scores = np.exp(sharp * logits)
    return scores / scores.sum(axis=1, keepdims=True), labels


def set_row(name, n, sharp, splits, peers):
    methods = {k: f for k, f in SETS[name].items() if k in peers}
    random, found = np.random.default_rng(0), {k: ([], []) for k in methods}
    for seed in range(splits):
        valid, (test, truth) = ten_classes(random, n, sharp), ten_classes(random, 2000, sharp)
        for method, sets in methods.items():
            inside = sets(valid, test, LEVEL, seed)
            found[method][0].append(inside[np.arange(len(truth)), truth].mean())
            found[method][1].append(inside.sum(axis=1).mean())
    row = {"sets": name, "n": n, "sharp": sharp, "coverage promised": LEVEL}
    for method, (coverage, size) in found.items():
        error = float(np.std(size) / math.sqrt(splits))
        row[method] = {"coverage": round(float(np.mean(coverage)), 4),
                       "size": round(float(np.mean(size)), 4), "se": round(error, 4)}  # fmt: skip
    return row


def installed(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


# World, units, items of a unit, intra-class correlation, target.
ROWS = [
    *((w, n, 1, 0.0, t) for w in ("honest", "sharp", "over", "under") for n in (100, 300, 1000)
      for t in (0.05, 0.1)),
    *(("nothing", n, 1, 0.0, 0.1) for n in (60, 300, 1000)),
    *(("halves", n, 1, 0.0, 0.1) for n in (1000, 3000)),
]  # fmt: skip
GROUPED = [
    *((w, g, 3, icc, t) for w in ("honest", "sharp") for g in (100, 300, 1000)
      for icc in (0.0, 0.7) for t in (0.05, 0.1)),
    *(("nothing", g, size, icc, 0.1) for g, size in ((60, 3), (300, 3), (1000, 3), (200, 20))
      for icc in (0.0, 0.7)),
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=300)
    parser.add_argument("--part", choices=("rows", "groups", "missed", "sets"), action="append")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    parts = args.part or ["rows", "groups", "missed", "sets"]
    about = {"splits": args.splits, "level": LEVEL, "circumstances": circumstances()}
    about["peers"] = {name: version(name) for name in PEERS if installed(name)}
    before = finished(args.json, about)
    made = dict(before)
    for part in parts:
        made[part] = []
        for case, work in cases(part, args.splits):
            key = json.dumps([part, *case])
            row = next((r for r in before.get(part, ()) if r["case"] == key), None)
            row = row or {"case": key, **work()}
            made[part].append(row)
            print(json.dumps(row), flush=True)
            if args.json:
                args.json.write_text(json.dumps({**made, **about}, indent=1) + "\n")


def finished(path, about):
    """Return the rows of a file that a stopped command of the same circumstances left."""
    if path is None or not path.exists():
        return {}
    content = json.loads(path.read_text())
    same = all(content.pop(name, None) == value for name, value in about.items())
    return content if same and about["circumstances"]["git"] else {}


def cases(part, splits):
    """Yield the rows of a part: what identifies each, and the function that makes it."""
    peers = [name for name in PEERS if installed(name)]
    if part == "rows":
        controllers = {"calibrant": calibrant_rows}
        if "mapie" in peers:
            controllers |= {"mapie holm": mapie_risk("bonferroni_holm"),
                            "mapie fixed sequence": mapie_risk("fixed_sequence")}  # fmt: skip
        for case in ROWS:
            # A tenth and an eighth look alike in 300 splits.
            times = 5 * splits if case[0] == "halves" else splits
            yield case, partial(risk_row, *case, times, controllers)
    elif part == "groups":
        grouped = {"calibrant": calibrant_groups, "groups ignored": calibrant_rows}
        for case in GROUPED:
            yield case, partial(risk_row, *case, splits, grouped)
    elif part == "missed":
        for case in ((units, 0.05, level) for units in (60, 200, 1000) for level in (None, LEVEL)):
            yield case, partial(missed_row, *case, splits)
    else:
        for case in ((name, *c) for name in SETS for c in ((100, 1.0), (1000, 1.0), (1000, 3.0))):
            yield case, partial(set_row, *case, splits, ["calibrant", *peers])


if __name__ == "__main__":
    main()
