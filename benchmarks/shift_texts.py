"""Texts of scikit-learn models under damage: what the rule chooses, and how the rest is shared.

    python benchmarks/shift_texts.py DATA/text -o shift-texts-cpu.jsonl

Models on TF-IDF: logistic regression and naive Bayes, of CLINC150 (150 intents) and of the first
words of 20 Newsgroups. Their predictions have two signals, the share of unknown words and the
number of words. The calibrator is fitted on 3,000 validation texts and copies of them, and tested
on 3,000 to 4,500 texts; **the tested kind of damage is left out of the fit**.

``raw shares`` leaves the other classes in proportion to the raw scores, as every top-label
calibrator does; ``shift-aware`` learns how they share what the confidence leaves. Both have the
same confidences, so the same ECE. ``top_nll`` is the log-loss of being right alone. ``rule`` is
what the rule says of each, beside the calibrator that it chooses on clean validation (``chosen``),
among those of ``calibrant train``.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from calibrant import Predictions
from calibrant.calibrators import Calibrator, ShiftAware, Temperature
from calibrant.comparison import select_calibrator, under_shift
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.under_shift import with_corruption
from calibrant.corruptions import TEXT_COPIES, corrupt_text
from calibrant.experiments.outcome import CANDIDATES
from calibrant.experiments.record import circumstances
from calibrant.metrics import ece

CLEAN, RAW = "clean", "raw shares"
KINDS = tuple(dict.fromkeys(name.rpartition("-")[0] for name in TEXT_COPIES))
VALID, WORDS = 3000, 80  # Texts of validation; the first words of a text of 20 Newsgroups.
MODELS = {
    "logistic regression": lambda: LogisticRegression(C=20, max_iter=60),
    "naive Bayes": lambda: MultinomialNB(alpha=0.1),
}
Texts = tuple[list[str], np.ndarray]


def load(folder: Path, data: str) -> tuple[Texts, Texts, Texts]:
    """Return texts and labels of training, validation and test."""
    suffix = ".jsonl" if data == "clinc150" else ".jsonl.gz"
    parts = {s: read(folder / data / f"{s}{suffix}") for s in ("train", "test")}
    if data == "clinc150":
        return parts["train"], read(folder / data / "dev.jsonl"), parts["test"]
    texts, labels = parts["train"]
    order = np.random.default_rng(0).permutation(len(texts))
    train, valid = order[VALID:], order[:VALID]
    test = parts["test"][0][:VALID], parts["test"][1][:VALID]
    return (pick(texts, train), labels[train]), (pick(texts, valid), labels[valid]), test


def pick(texts: Sequence[str], rows: np.ndarray) -> list[str]:
    """Return some of the texts."""
    return [texts[row] for row in rows]


def read(path: Path) -> Texts:
    """Read the texts that have a class, and are not empty."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    kept = [x for x in lines if x["label"] != "oos" and x["text"].strip()]
    if path.parent.name != "clinc150":
        kept = [kept[row] for row in np.random.default_rng(0).permutation(len(kept))]
    texts = [" ".join(x["text"].split()[:WORDS]) for x in kept]
    return texts, np.array([str(x["label"]) for x in kept])


class Model:
    """A fitted scikit-learn model with two signals of each text."""

    def __init__(self, name: str, train: Texts) -> None:
        self.vectorizer = TfidfVectorizer(sublinear_tf=True)
        vectors = self.vectorizer.fit_transform(train[0])
        self.model = MODELS[name]().fit(vectors, train[1])
        self.known, self.words = set(self.vectorizer.vocabulary_), self.vectorizer.build_analyzer()

    def predict(self, texts: Sequence[str], labels: np.ndarray) -> Predictions:
        """Return the predictions of texts."""
        found = [self.words(text) for text in texts]
        unknown = [np.mean([w not in self.known for w in words]) if words else 1 for words in found]
        classes = list(self.model.classes_)
        return Predictions.from_logits(
            self.model.predict_log_proba(self.vectorizer.transform(texts)),
            np.searchsorted(classes, labels),
            label_names=classes,
            signals={"unknown": np.array(unknown, float), "words": [len(w) for w in found]},
        )


def corrupted(texts: Sequence[str], name: str, seed: int) -> list[str]:
    """Return each text with a corruption such as typos-3."""
    kind, _, strength = name.rpartition("-")
    return [corrupt_text(t, kind, int(strength), seed=seed, number=i) for i, t in enumerate(texts)]


class RawShares(ShiftAware):
    """The calibrator whose other classes keep the proportions of the raw scores."""

    def _shares(self, *beside: Any) -> np.ndarray:  # noqa: ARG002
        return np.ones(2)


def chosen_with(
    kind: type[ShiftAware], plain: Calibrator, clean: Predictions, copies: Predictions
) -> tuple[str, str]:
    """Return what the rule chooses and why, if ``kind`` is the shift-aware calibrator."""
    under_shift.ShiftAware = kind  # type: ignore[misc]
    try:
        found = under_shift.judge_under_shift(plain, clean, copies, make_folds(clean, 5, seed=0))
    finally:
        under_shift.ShiftAware = ShiftAware  # type: ignore[misc]
    return (plain.name if found.candidate is None else ShiftAware.name), found.reason


def study(model: Model, valid: Texts, test: Texts) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each setting and test part, and what the rule says."""
    copies = {name: corrupted(valid[0], name, 1) for name in TEXT_COPIES}
    parts = {"": model.predict(*valid)}
    parts |= {name: model.predict(texts, valid[1]) for name, texts in copies.items()}
    tests = {CLEAN: model.predict(*test)}
    tests |= {n: model.predict(corrupted(test[0], n, 0), test[1]) for n in TEXT_COPIES}
    plain = select_calibrator(parts[""], CANDIDATES).calibrator
    damaged = joined({name: part for name, part in parts.items() if name})
    for kind, setting in ((RawShares, RAW), (ShiftAware, "shift-aware")):
        chosen, reason = chosen_with(kind, plain, joined({"": parts[""]}), damaged)
        yield {"setting": f"rule, {setting}", "chosen": chosen, "reason": reason}
    ordinary: dict[str, Calibrator] = {"temperature": Temperature().fit(parts[""])}
    for name, fitted in (*ordinary.items(), ("chosen", plain)):
        for test_name, new in tests.items():
            yield {"calibrator": fitted.name, **measured(name, test_name, fitted.transform(new))}
    for tested in ("", *KINDS):
        seen = {n: part for n, part in parts.items() if not (tested and n.startswith(tested))}
        names = [n for n in tests if n.startswith(tested)] if tested else [CLEAN]
        for kind, setting in ((RawShares, RAW), (ShiftAware, "shift-aware")):
            fitted = kind().fit(joined(seen))
            exponents = fitted.share_exponents_.round(3).tolist()
            for name in names:
                new = fitted.transform(tests[name])
                yield {"exponents": exponents, **measured(setting, name, new)}


def joined(parts: dict[str, Predictions]) -> Predictions:
    """Return clean validation and its copies as one."""
    return Predictions.concatenate([with_corruption(part, name) for name, part in parts.items()])


def measured(setting: str, name: str, test: Predictions) -> dict[str, Any]:
    """Return the numbers of one test part."""
    probabilities = test.probabilities()
    rows, confidence = np.arange(len(test)), probabilities.max(1)
    right = probabilities.argmax(1) == test.labels
    event = np.where(right, confidence, 1 - confidence)
    return {
        "setting": setting, "test": name, "ece": float(ece(test)),
        "nll": float(-np.log(np.clip(probabilities[rows, test.labels], 1e-12, 1)).mean()),
        "top_nll": float(-np.log(np.clip(event, 1e-12, 1)).mean()),
        "accuracy": float(right.mean()), "confidence": float(confidence.mean()),
        "rows": len(test),
    }  # fmt: skip


def show(records: Sequence[dict[str, Any]]) -> None:
    """Print means over kinds and strengths."""
    settings = ("temperature", "chosen", RAW, "shift-aware")
    print("| | clean ECE | strength 3 | 5 | all damage | NLL clean | damaged |")
    print("|---|---|---|---|---|---|---|")
    for data, model in dict.fromkeys((r["data"], r["model"]) for r in records):
        own = [r for r in records if (r["data"], r["model"]) == (data, model)]
        for setting in settings:
            rows = [r for r in own if r["setting"] == setting]

            def mean(column: str, ending: str, rows: Any = rows) -> float:
                clean = ending == CLEAN
                return float(np.mean([
                    r[column] for r in rows
                    if r["test"].endswith(ending) and (r["test"] == CLEAN) == clean
                ]))  # fmt: skip

            cells = [f"{100 * mean('ece', ending):.1f}" for ending in (CLEAN, "3", "5", "")]
            cells += [f"{mean('nll', ending):.3f}" for ending in (CLEAN, "")]
            print(f"| {data}, {model}: {setting} | {' | '.join(cells)} |")
        for found in own:
            if "reason" in found:
                print(f"{found['setting']}: {found['reason']}")


def main() -> None:
    """Measure each model of each data set, write the records and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the text corpora")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--data", nargs="+", default=["clinc150", "20newsgroups"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    for data in options.data:
        train, valid, test = load(options.folder, data)
        for name in options.models:
            about = {"data": data, "model": name, "fitted": circumstances()}
            with options.output.open("a") as output:
                for found in study(Model(name, train), valid, test):
                    rounded = {k: round(v, 6) if isinstance(v, float) else v
                               for k, v in found.items()}  # fmt: skip
                    output.write(json.dumps({**about, **rounded}, separators=(",", ":")) + "\n")
                    output.flush()
    show([json.loads(line) for line in options.output.read_text().splitlines()])


if __name__ == "__main__":
    main()
