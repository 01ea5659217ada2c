"""The rule that chooses a calibrator, on sets of scores on which it was not developed.

python benchmarks/map_rule.py --make SETS                      # Trains the models, on a CPU.
python benchmarks/map_rule.py --sets SETS -o after.json        # Chooses with the installed version.
python benchmarks/map_rule.py --sets SETS -o before.json       # The same with another version.
python benchmarks/map_rule.py --join before.json after.json -o benchmarks/results/…

No set occurs in ``map_study.py``: other models, features, splits, sizes, and other synthetic
faults. The list was fixed before the first run. Log-loss reads a probability below 1e-12 as 1e-12.
"""

import argparse
import gzip
import json
import os
import platform
import subprocess
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import calibrant
from calibrant import Predictions
from calibrant.comparison import select_calibrator

TEST, BLOCKS = 10_000, 100


def cut(x, y, sizes, seed):
    """Parts of the examples in a random order: to train on, to fit calibrators on, to test."""
    order = np.random.default_rng(seed).permutation(len(y))
    ends = np.cumsum(sizes)
    return [(x[i], y[i], None) for i in np.split(order, ends)[: len(sizes)]]


def embedded():
    digits, wine, cancer = (
        f(return_X_y=True) for f in (load_digits, load_wine, load_breast_cancer)
    )
    models = {
        "SVM": SVC(gamma="scale", decision_function_shape="ovr"),
        "quadratic discriminant": QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
        "linear discriminant": LinearDiscriminantAnalysis(),
        "boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    }
    for seed, (kind, model) in enumerate(models.items(), 1):
        yield "digits", kind, model, cut(*digits, (600, 400, 797), seed)
    network = MLPClassifier((30,), max_iter=300, random_state=0)
    yield "digits", "network", network, cut(*digits, (200, 200, 1397), 5)
    yield (
        "digits",
        "linear discriminant",
        LinearDiscriminantAnalysis(),
        cut(*digits, (400, 1000, 397), 6),
    )
    yield "wine", "naive Bayes", GaussianNB(), cut(*wine, (30, 60, 88), 7)
    yield (
        "breast cancer",
        "boosting",
        AdaBoostClassifier(random_state=0),
        cut(*cancer, (169, 200, 200), 8),
    )
    yield "breast cancer", "naive Bayes", GaussianNB(), cut(*cancer, (69, 200, 300), 9)


def tabular():
    x, y = make_classification(
        20_000,
        60,
        n_informative=30,
        n_classes=50,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=1,
    )
    trees = ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0)
    yield "50 classes", "extra trees", trees, cut(x, y, (4000, 5000, TEST), 1)
    yield (
        "50 classes",
        "linear discriminant",
        LinearDiscriminantAnalysis(),
        cut(x, y, (4000, 1000, TEST), 2),
    )
    few = {"n_samples": 20_000, "n_features": 20, "n_informative": 8, "n_redundant": 8}
    x, y = make_classification(n_classes=3, weights=[0.9, 0.08], flip_y=0.05, random_state=2, **few)
    boosting = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    yield "3 rare classes", "boosting", boosting, cut(x, y, (2000, 1000, TEST), 3)
    balanced = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    yield "3 rare classes", "balanced logistic", balanced, cut(x, y, (2000, 1000, TEST), 4)
    x, y = make_classification(weights=[0.8], random_state=3, **few)
    for n in (200, 1000, 5000):
        yield "2 classes", "naive Bayes", GaussianNB(), cut(x, y, (2000, n, TEST), 5 + n)


def synthetic():
    """Scores with a known truth: honest; noisy labels; shifted class frequencies."""
    rng = np.random.default_rng(11)
    for kind, classes in (("honest", 5), ("noisy labels", 100), ("shifted frequencies", 7)):
        logits = 2.5 * rng.normal(size=(5000 + TEST, classes))
        if kind == "shifted frequencies":  # The truth has the class frequencies of a forest survey.
            logits = 0.8 * logits + np.log([0.36, 0.49, 0.06, 0.005, 0.016, 0.03, 0.035])
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        if kind == "noisy labels":
            wrong = rng.random(len(labels)) < 0.1
            labels[wrong] = rng.integers(0, classes, wrong.sum())
        if kind == "shifted frequencies":
            logits = 1.5 * (logits - logits.mean(axis=0))
        for n in (200, 1000, 5000):
            parts = [(logits[i], labels[i], None) for i in (slice(0, n), slice(5000, None))]
            yield "synthetic", kind, None, [None, *parts]


def characters():
    return TfidfVectorizer(
        sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 4), max_features=30_000
    )


def words():
    return TfidfVectorizer(sublinear_tf=True, max_features=30_000)


def dense():
    reduced = TruncatedSVD(100, random_state=0)
    network = MLPClassifier((100,), max_iter=25, random_state=0)
    return make_pipeline(words(), reduced, StandardScaler(), network)


def texts(data):
    read = {}
    for name in ("clinc150/train", "clinc150/dev", "clinc150/test"):
        read[name] = _texts((data / "text" / f"{name}.jsonl").read_text())
    for split in ("train", "test"):
        place = data / "text" / "20newsgroups" / f"{split}.jsonl.gz"
        read[split] = _texts(gzip.decompress(place.read_bytes()).decode())
    clinc = [read[f"clinc150/{s}"] for s in ("train", "dev", "test")]
    svm = lambda: make_pipeline(characters(), LinearSVC(C=0.5, random_state=0))  # noqa: E731
    bayes = lambda: make_pipeline(words(), ComplementNB(alpha=0.3))  # noqa: E731
    yield "CLINC150", "SVM of characters", svm(), clinc
    thousand = [clinc[0], cut(*clinc[1][:2], (1000,), 1)[0], clinc[2]]
    yield "CLINC150", "SVM of characters", svm(), thousand
    yield "CLINC150", "complement naive Bayes", bayes(), clinc
    yield "CLINC150", "network", dense(), clinc
    for seed, (kind, model, n) in enumerate(
        (
            ("SVM of characters", svm(), 1000),
            ("complement naive Bayes", bayes(), 5000),
            ("complement naive Bayes", bayes(), 200),
            ("network", dense(), 1000),
        )
    ):
        parts = cut(*read["train"][:2], (5000, n), seed)
        yield "20 Newsgroups", kind, model, [*parts, read["test"]]


def _texts(content):
    rows = [json.loads(line) for line in content.splitlines()]
    return (
        np.array([r["text"] for r in rows], dtype=object),
        np.array([str(r["label"]) for r in rows]),
        None,
    )


def tagged(data):
    """Words under simple taggers, other features than in the study; sentences are groups."""
    logistic = lambda: SGDClassifier(loss="log_loss", alpha=1e-5, random_state=0)  # noqa: E731
    perceptron = lambda: Perceptron(max_iter=5, tol=None, random_state=0)  # noqa: E731
    bayes = lambda: BernoulliNB(alpha=0.1)  # noqa: E731
    for corpus, kind, model, n in (
        ("gum", "perceptron", perceptron(), 5000),
        ("gum", "naive Bayes", bayes(), 1000),
        ("wnut17", "logistic", logistic(), 1000),
        ("wnut17", "naive Bayes", bayes(), 5000),
        ("wikiann-en", "logistic", logistic(), 5000),
        ("wikiann-en", "perceptron", perceptron(), 200),
        ("ncbi-disease", "naive Bayes", bayes(), 5000),
        ("ncbi-disease", "logistic", logistic(), 1000),
        ("conll2003", "naive Bayes", bayes(), 1000),
        ("conll2003", "perceptron", perceptron(), 5000),
        ("conll2003", "logistic", logistic(), 200),
    ):
        folder = data / "ner" / corpus
        train, test = _sentences(folder / "train.conll"), _sentences(folder / "test.conll")
        if (folder / "dev.conll").exists():
            valid = _sentences(folder / "dev.conll")
        else:
            train, valid = train[:-700], train[-700:]
        parts = (train[:4000], valid, test)
        made = [_words(p, limit) for p, limit in zip(parts, (None, n, TEST), strict=True)]
        yield corpus, kind, model, made


def _sentences(path):
    blocks = path.read_text().split("\n\n")
    rows = [[line.split("\t") for line in b.splitlines() if "\t" in line] for b in blocks]
    return [r for r in rows if r]


def _words(sentences, limit):
    features, tags, group = [], [], []
    for s, sentence in enumerate(sentences):
        if limit is not None and len(tags) >= limit:
            break
        for i, (word, *_, tag) in enumerate(sentence):
            features.append(_features(word, sentence[i - 1][0] if i else "", i))
            tags.append(tag)
            group.append(s)
    x = FeatureHasher(1 << 14, input_type="string", alternate_sign=False).transform(features)
    return x, np.array(tags), np.array(group)


def _features(word, before, place):
    shape = "".join("X" if c.isupper() else "9" if c.isdigit() else "x" for c in word)
    ends = [f"e{n}={word[-n:].lower()}" for n in (1, 2, 4)]
    return [f"w={word.lower()}", f"s={shape[:8]}", f"p={before.lower()}", f"f={place == 0}", *ends]


def scores_of(model, parts):
    """Yield scores, labels and sentences of the validation and the test part."""
    (x, y, _), *rest = parts
    classes, y = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    number = {name: k for k, name in enumerate(classes)}
    for x, y, group in rest:
        given = hasattr(model, "predict_proba")
        scores = model.predict_proba(x) if given else model.decision_function(x)
        labels = np.array([number.get(name, -100) for name in y])
        yield "probabilities" if given else "logits", scores, labels, group


def make(folder, data):
    folder.mkdir(parents=True, exist_ok=True)
    sources = (embedded(), tabular(), synthetic(), texts(data), tagged(data))
    for i, (name, kind, model, parts) in enumerate(case for source in sources for case in source):
        if model is None:
            made = [("logits", *part) for part in parts[1:]]
        else:
            made = list(scores_of(model, parts))
        content = {"data": name, "model": kind, "kind": made[0][0]}
        for split, (_, scores, labels, group) in zip(("valid", "test"), made, strict=True):
            content |= {f"{split}_scores": scores, f"{split}_labels": labels}
            content |= {} if group is None else {f"{split}_sentence": group}
        np.savez(folder / f"{i:02}.npz", **content)
        print(i, name, kind, *(len(m[2]) for m in made), made[0][1].shape[1], flush=True)


def predictions(content, split):
    groups = {"sentence": content[f"{split}_sentence"]} if f"{split}_sentence" in content else None
    kind = (
        Predictions.from_logits if content["kind"] == "logits" else Predictions.from_probabilities
    )
    return kind(content[f"{split}_scores"], content[f"{split}_labels"], groups=groups)


def losses(calibrator, test):
    """Return the sum of the log-loss in blocks of neighbours, and how many examples there are."""
    p = calibrator.transform(test).probabilities()[np.arange(len(test)), np.asarray(test.labels)]
    each = -np.log(np.maximum(np.asarray(p, np.float64), 1e-12))
    return [round(float(part.sum()), 5) for part in np.array_split(each, BLOCKS)]


def measure(path):
    content = dict(np.load(path))
    valid, test = (predictions(content, split) for split in ("valid", "test"))
    row = {k: str(content[k]) for k in ("data", "model")}
    row |= {"valid": len(valid), "test": len(test), "classes": valid.classes}
    found = select_calibrator(valid)
    kept = select_calibrator(valid, keep_predictions=True)
    row["accuracy"] = round(float((test.scores.argmax(axis=1) == test.labels).mean()), 4)
    for key, one in (
        ("identity", found.candidates["identity"].calibrator),
        ("temperature", found.candidates["temperature"].calibrator),
        ("all", found.calibrator),
        ("kept", kept.calibrator),
    ):
        row[key] = {"map": one.name, "losses": losses(one, test)}
    row["every"] = {
        name: round(sum(losses(c.calibrator, test)) / len(test), 5)
        for name, c in found.candidates.items()
    }
    return row


def environment():
    """Describe the source (its last commit, + if it was changed since) and the versions."""
    git = ["git", "-C", str(Path(calibrant.__file__).parent)]
    commands = (["log", "-1", "--format=%h", "--", "."], ["status", "--porcelain", "--", "."])
    commit, changed = (
        subprocess.run([*git, *a], capture_output=True, text=True, check=False).stdout.strip()
        for a in commands
    )
    state = commit + "+" * bool(changed)
    packages = {p: version(p) for p in ("numpy", "scipy", "scikit-learn")}
    return {"git": state, "python": platform.python_version(), **packages}


def join(files):
    """Every set with what the first, … and the last version chose, against temperature."""
    read = [json.loads(file.read_text()) for file in files]
    rows = []
    for several in zip(*(r["rows"] for r in read), strict=True):
        last = several[-1]
        row = {k: last[k] for k in ("data", "model", "valid", "test", "classes", "accuracy")}
        plain = last["temperature"]["losses"]
        row |= {
            k: round(sum(last[k]["losses"]) / row["test"], 4) for k in ("identity", "temperature")
        }
        best = min(last["every"], key=last["every"].get)
        row["best"] = {"map": best, "nll": last["every"][best]}
        for key in ("all", "kept"):
            row[key] = [
                {"map": one[key]["map"], **_against(one[key], plain, row)} for one in several
            ]
            row[f"{key}_change"] = _against(last[key], several[0][key]["losses"], row)
        rows.append(row)
    return {"versions": [r["environment"] for r in read], "rows": rows}


def _against(one, other, row):
    """The change of the log-loss in percent of the other's, and its standard error by blocks."""
    difference, mean = np.subtract(one["losses"], other), np.sum(other)
    error = difference.std() * np.sqrt(len(difference))
    nll = round(sum(one["losses"]) / row["test"], 4)
    change, error = 100 * difference.sum() / mean, 100 * error / mean
    return {"nll": nll, "percent": round(float(change), 2), "error": round(float(error), 2)}


def show(joined):
    for key, title in (("all", "all maps"), ("kept", "maps that keep predictions")):
        print(f"\n{title}; log-loss against temperature\n")
        print("| data | model | n | K | temperature | before | after | after against before |")
        print("|---|---|---|---|---|---|---|---|")
        for row in joined["rows"]:
            cells = [row["data"], row["model"], f"{row['valid']:,}", row["classes"]]
            cells += [f"{row['temperature']:.4f}"]
            ends = (row[key][0], row[key][-1])
            cells += [f"`{one['map']}` {_percent(one)}" for one in ends]
            print("|", " | ".join(map(str, [*cells, _percent(row[f"{key}_change"])])), "|")
        for v, state in enumerate(joined["versions"]):
            print(state["git"], _summary([row[key][v] for row in joined["rows"]]))
        print("last against first", _summary([row[f"{key}_change"] for row in joined["rows"]]))


def _percent(one):
    return f"{one['percent']:+.1f} ± {one['error']:.1f} %"


def _summary(rows):
    change = np.array([one["percent"] for one in rows])
    clear = np.array([abs(one["percent"]) > 2 * one["error"] for one in rows])
    return (
        f"mean {change.mean():+.2f} %, median {np.median(change):+.2f} %, worst "
        f"{change.max():+.1f} %, best {change.min():+.1f} %; beyond two standard errors: "
        f"{(clear & (change < 0)).sum()} better, {(clear & (change > 0)).sum()} worse"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", type=Path, metavar="SETS", help="train the models, keep scores")
    parser.add_argument("--data", type=Path, default=os.environ.get("CALIBRANT_DATA", "data"))
    parser.add_argument("--sets", type=Path, help="choose a map for each set of this folder")
    parser.add_argument(
        "--join", type=Path, nargs="+", help="files of -o, the oldest version first"
    )
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.make:
        make(args.make, Path(args.data))
    if args.sets:
        rows = []
        for path in sorted(args.sets.glob("*.npz")):
            rows.append(measure(path))
            print(path.stem, rows[-1]["all"]["map"], rows[-1]["kept"]["map"], flush=True)
        result = {"environment": environment(), "rows": rows}
    if args.join:
        result = join(args.join)
        show(result)
    if args.output:
        args.output.write_text(json.dumps(result, indent=None) + "\n")


if __name__ == "__main__":
    main()
