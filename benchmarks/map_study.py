"""Which calibrator wins, by how much and when: all of them on what trains in minutes.

python benchmarks/map_study.py --scores SCORES -o map-study.jsonl     # measures what is not there
python benchmarks/map_study.py --tables map-study.jsonl

Classifiers of scikit-learn on words of five NER corpora (a linear tagger), CLINC150, 20 Newsgroups,
digits, and synthetic scores whose truth is known; with --scores also the fine-tuned encoders and
image networks whose logits ``encoder_scores.py`` has written there. Calibrators are fitted on up to
5,000 validation examples and measured on up to 10,000 test examples; the rule of
``select_calibrator`` chooses too.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from calibrant import Predictions
from calibrant.comparison import compare
from calibrant.comparison.selection import select_calibrator
from calibrant.json_values import json_values

CORPORA = ("conll2003", "gum", "ncbi-disease", "wikiann-en", "wnut17")
VALID, TEST = 5_000, 10_000


def linear(alpha=1e-6):
    return SGDClassifier(loss="log_loss", alpha=alpha, max_iter=10, tol=None, random_state=0)


def words():
    """A linear tagger: each word with its neighbours, its ending and its shape."""
    from calibrant.tasks.ner.corpus import load_corpus

    for name in CORPORA:
        corpus = load_corpus(name)
        tags = sorted({tag for s in corpus.train for tag in s.tags}, key=lambda t: (t != "O", t))
        hasher = FeatureHasher(1 << 18, input_type="string")
        parts = [corpus.train[:6000], corpus.dev, corpus.test]
        made = [
            _words(part, tags, hasher, limit)
            for part, limit in zip(parts, (None, VALID, TEST), strict=True)
        ]
        model = linear().fit(made[0][0], made[0][1])
        yield f"{name} words", "linear", model, made[1:], tuple(tags)


def _words(sentences, tags, hasher, limit):
    number = {tag: k for k, tag in enumerate(tags)}
    features, labels, sentence = [], [], []
    for s, one in enumerate(sentences):
        if limit is not None and len(labels) >= limit:
            break
        for i, tag in enumerate(one.tags):
            features.append(_features(one.words, i))
            labels.append(number.get(tag, -100))
            sentence.append(s)
    return hasher.transform(features), np.array(labels), {"sentence": np.array(sentence)}


def _features(tokens, i):
    word = tokens[i]
    shape = "".join(
        "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word
    )
    around = [f"{d}={tokens[i + d]}" for d in (-2, -1, 1, 2) if 0 <= i + d < len(tokens)]
    return [f"w={word.lower()}", f"s={shape[:6]}", f"e={word[-3:]}", f"b={word[:3]}", *around]


def texts():
    from calibrant.tasks.text.corpus import load_texts

    for name in ("clinc150", "20newsgroups"):
        corpus = load_texts(name)
        vectors = TfidfVectorizer(sublinear_tf=True, max_features=50_000, ngram_range=(1, 2))
        x = {"train": vectors.fit_transform(corpus.texts["train"])}
        splits = [*[s for s in ("dev", "valid") if s in corpus.texts][:1], "test"]
        x.update({split: vectors.transform(corpus.texts[split]) for split in splits})
        y = {split: np.array(corpus.classes[split]) for split in x}
        parts = [(x[s][:n], y[s][:n], {}) for s, n in zip(splits, (VALID, TEST), strict=True)]
        for kind, model in (("linear", linear(1e-5)), ("naive Bayes", MultinomialNB(alpha=0.1))):
            yield name, kind, model.fit(x["train"], y["train"]), parts, None


def digits():
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    x = np.concatenate([x + 6 * rng.normal(size=x.shape) for _ in range(5)])
    y = np.tile(y, 5)
    order = rng.permutation(len(y))
    x, y = x[order], y[order]
    parts = [(x[2000:5000], y[2000:5000], {}), (x[5000:], y[5000:], {})]
    models = {
        "forest": RandomForestClassifier(100, random_state=0),
        "nearest neighbours": KNeighborsClassifier(10),
        "naive Bayes": GaussianNB(),
        "network": MLPClassifier((100,), max_iter=60, random_state=0),
    }
    for kind, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield "noisy digits", kind, model.fit(x[:2000], y[:2000]), parts, None


def synthetic():
    """Scores of ten classes: twice too large; also biased; also confused; bent at the top."""
    rng = np.random.default_rng(0)
    n, classes = VALID + TEST, 10
    honest = 2 * rng.normal(size=(n, classes))
    labels = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)
    mixed = np.eye(classes) + 0.15 * rng.normal(size=(classes, classes))
    top = honest.max(axis=1, keepdims=True)
    made = {
        "twice too large": 2 * honest,
        "biased": 2 * honest + rng.normal(size=classes),
        "confused": 2 * honest @ mixed,
        "bent": np.where(honest == top, honest + 0.3 * np.maximum(top, 0) ** 2, honest),
    }
    for kind, logits in made.items():
        p = Predictions.from_logits(logits, labels)
        for few in (500, VALID):
            yield f"synthetic, {few:,} to fit", kind, p[:few], p[VALID:]


def trained(folder):
    """Logits of encoders and networks, cut at the end of a sentence."""
    for place in sorted(p for p in folder.iterdir() if p.is_dir()):
        parts = [Predictions.read(place / f"{split}.npz") for split in ("valid", "test")]
        data, _, network = (
            place.name.partition("-") if "cifar" in place.name else (place.name, "", "")
        )
        yield data, network or "MiniLM", *map(_cut, parts, (VALID, TEST))


def _cut(p, limit):
    sentence = np.asarray(p.groups.get("sentence", np.arange(len(p))))
    inside = np.flatnonzero(sentence != sentence[min(limit, len(p)) - 1])
    return p[: next((int(i) for i in inside if i >= limit), len(p))]


def predictions(model, part, names):
    x, y, groups = part
    p = model.predict_proba(x)
    whole = np.zeros((len(p), int(max(model.classes_)) + 1))
    whole[:, model.classes_] = p
    return Predictions.from_probabilities(whole, y, groups=groups, label_names=names)


def cases(scores=None):
    yield from () if scores is None else trained(scores)
    for source in (synthetic, digits, texts, words):
        for name, kind, model, parts, *rest in source():
            if source is synthetic:
                yield name, kind, model, parts
            else:
                valid, test = (predictions(model, part, rest[0]) for part in parts)
                yield name, kind, valid, test


def measure(name, kind, valid, test):
    found = compare(valid, test, bootstrap=200)
    kept = select_calibrator(valid, keep_predictions=True, bootstrap=200).calibrator.name
    return {
        "data": name,
        "model": kind,
        "valid": len(valid),
        "test": len(test),
        "classes": valid.classes,
        "accuracy": round(found["identity"].accuracy, 4),
        "chosen": found.recommended,
        "chosen_kept": kept,
        "maps": {
            row.name: {
                k: round(float(getattr(row, k)), 5)
                for k in ("nll", "brier", "ece", "accuracy_change")
            }
            for row in found.rows
        },
    }


def tables(path):
    rows = records(path)
    print("| data | model | n | K | accuracy | as it is | temperature | best | chosen | kept |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        maps = row["maps"]
        best = min(maps, key=lambda m: maps[m]["nll"])
        cells = [
            row["data"],
            row["model"],
            f"{row['valid']:,}",
            row["classes"],
            f"{row['accuracy']:.3f}",
        ]
        cells += [
            _cell(maps, "identity"),
            _cell(maps, "temperature"),
            f"{best} {_cell(maps, best)}",
        ]
        cells += [f"{row[c]} {_cell(maps, row[c])}" for c in ("chosen", "chosen_kept")]
        print("| " + " | ".join(map(str, cells)) + " |")
    print("\n| calibrator | NLL against temperature, median | worst | ECE, median | best of all |")
    print("|---|---|---|---|---|")
    print("\n".join(summaries(rows)))


def records(path):
    """The rows of a file; \"inf\" is how JSON has an infinite NLL."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for numbers in (numbers for row in rows for numbers in row["maps"].values()):
        numbers["nll"] = float(numbers["nll"])
    return rows


def summaries(rows):
    """One line for each calibrator that all sets have, and for both choices of the rule."""
    first = [min(row["maps"], key=lambda m, r=row: r["maps"][m]["nll"]) for row in rows]
    everywhere = [n for n in rows[0]["maps"] if all(n in row["maps"] for row in rows)]
    made = [_summary(f"`{n}`", [n] * len(rows), rows, first.count(n)) for n in everywhere]
    titles = {"chosen": "the rule", "chosen_kept": "the rule, keeping predictions"}
    return made + [_summary(t, [row[c] for row in rows], rows, "") for c, t in titles.items()]


def _summary(title, names, rows, wins):
    """One line: the map of each row against temperature there."""
    pairs = [
        (row["maps"][name], row["maps"]["temperature"])
        for name, row in zip(names, rows, strict=True)
    ]
    change = [100 * (mine["nll"] / other["nll"] - 1) for mine, other in pairs]
    worst = _percent(max(change)) if np.isfinite(max(change)) else "infinite"
    ece = 100 * np.median([mine["ece"] for mine, _ in pairs])
    return f"| {title} | {_percent(np.median(change))} | {worst} | {ece:.1f} | {wins} |"


def _percent(value):
    return "0.0 %" if abs(value) < 0.05 else f"{value:+.1f} %".replace("-", "−")


def _cell(maps, name):
    return f"{maps[name]['nll']:.3f} / {100 * maps[name]['ece']:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, help="a folder that encoder_scores.py has written")
    parser.add_argument("-o", "--output", type=Path, help="records, one line each")
    parser.add_argument(
        "--tables", type=Path, metavar="RECORDS", help="print the tables of records"
    )
    args = parser.parse_args()
    if args.tables:
        tables(args.tables)
        return
    lines = args.output.read_text().splitlines() if args.output and args.output.exists() else []
    done = {(row["data"], row["model"]) for row in map(json.loads, lines)}
    for case in cases(args.scores):
        if case[:2] in done:
            continue
        lines.append(json.dumps(json_values(measure(*case))))
        print(lines[-1], flush=True)
        if args.output:
            args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
