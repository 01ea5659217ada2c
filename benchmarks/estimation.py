"""Errors of the accuracy and F1 that are estimated without labels, on clean and on damaged digits.

Trains a small network on half of scikit-learn's digits, fits what an estimator needs on a
validation split, and estimates accuracy and macro F1 of test images as they are and damaged in five
ways at five strengths. Compared: the mean confidence as it is; CBPE with a temperature and with the
chosen calibrator; average thresholded confidence; the set-level correction of ``calibrant adapt``,
fitted on validation copies with the tested kind of damage left out; and NannyML's CBPE, where
nannyml can be imported. Prints mean absolute errors in points over seeds and kinds.

    python benchmarks/estimation.py --json benchmarks/results/estimation-cpu.json
"""

import argparse
import json
import os
import platform
import time
import warnings
from pathlib import Path

import numpy as np

import calibrant
from calibrant import InputError, Predictions, Temperature, adapt, select_calibrator, watch
from calibrant.watching import unlabelled

STRENGTHS = (1, 2, 3, 4, 5)


def noise(rng, images, strength):
    return images + 1.2 * strength * rng.normal(size=images.shape)


def dropped(rng, images, strength):
    return np.where(rng.random(images.shape) < 0.08 * strength, 0, images)


def swapped(rng, images, strength):
    """Exchange pixels with the one to their right."""
    images = images.copy()
    for column in range(images.shape[2] - 1):
        chosen = rng.random(images.shape[:2]) < 0.1 * strength
        pair = images[:, :, column : column + 2]
        images[:, :, column : column + 2] = np.where(chosen[..., None], pair[:, :, ::-1], pair)
    return images


def striped(rng, images, strength):
    """Lose whole rows."""
    lost = rng.random((*images.shape[:2], 1)) < 0.07 * strength
    return np.where(lost, 0, images)


def salted(rng, images, strength):
    return np.where(rng.random(images.shape) < 0.05 * strength, 16, images)


KINDS = {
    "noise": noise,
    "dropped": dropped,
    "swapped": swapped,
    "striped": striped,
    "salted": salted,
}


def trained(seed):
    """Return a function from images to predictions, and the images of three splits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    digits, rng = load_digits(), np.random.default_rng(seed)
    order = rng.permutation(len(digits.target))
    splits = np.split(order, [600, 1200])
    model = MLPClassifier((64,), max_iter=400, random_state=seed)
    model.fit(digits.images[splits[0]].reshape(-1, 64), digits.target[splits[0]])

    def predict(images, labels):
        p = model.predict_proba(images.reshape(-1, 64))
        return Predictions.from_probabilities(p, labels)

    return predict, [(digits.images[rows], digits.target[rows]) for rows in splits[1:]]


def macro_f1(predictions):
    predicted = np.asarray(predictions.scores).argmax(axis=1)
    scores = []
    for k in range(predictions.classes):
        both = (predicted == k).sum() + (predictions.labels == k).sum()
        if both:
            right = ((predicted == k) & (predictions.labels == k)).sum()
            scores.append(2 * right / both)
    return float(np.mean(scores))


def by_calibrant(valid, test, calibrator, **options):
    found = watch(
        unlabelled(test), reference=valid, calibrator=calibrator, chunk=len(test), **options
    )
    return found.total.expected_accuracy.value, found.total.expected_macro_f1.value


def by_sets(valid, test, calibrator, copies):
    """The set-level correction; where it refuses, its base."""
    try:
        found = adapt(calibrator, valid, unlabelled(test), copies=copies)
    except InputError:
        return (*by_calibrant(valid, test, calibrator), 1)
    return (*by_calibrant(valid, test, found.calibrator), 0)


class NannyML:
    """NannyML's CBPE, fitted on the validation split."""

    def __init__(self, valid):
        os.environ.setdefault("NML_DISABLE_USAGE_LOGGING", "1")
        import nannyml
        import pandas

        self.pandas = pandas
        names = {str(k): f"p{k}" for k in range(valid.classes)}
        self.estimator = nannyml.CBPE(
            y_pred_proba=names,
            y_pred="predicted",
            y_true="label",
            problem_type="classification_multiclass",
            metrics=["accuracy", "f1"],
            chunk_number=1,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.estimator.fit(self.table(valid))

    def table(self, predictions):
        scores = np.asarray(predictions.scores)
        columns = {f"p{k}": scores[:, k] for k in range(scores.shape[1])}
        columns["predicted"] = scores.argmax(axis=1).astype(str)
        columns["label"] = predictions.labels.astype(str)
        return self.pandas.DataFrame(columns)

    def __call__(self, test):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.estimator.estimate(self.table(test).drop(columns="label"))
            frame = result.filter(period="analysis").to_df()
        return tuple(float(frame[(metric, "value")].iloc[0]) for metric in ("accuracy", "f1"))


def nannyml_of(valid):
    try:
        return NannyML(valid)
    except ImportError:
        return None


def run_seed(seed):
    """Yield (estimator, strength, error of accuracy, error of F1, refused) for one network."""
    predict, (valid_images, test_images) = trained(seed)
    rng = np.random.default_rng(seed)
    valid = predict(*valid_images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        temperature = Temperature().fit(valid)
        chosen = select_calibrator(valid, keep_predictions=True).calibrator
    other = nannyml_of(valid)
    damaged = {
        (kind, s): predict(make(rng, valid_images[0], s), valid_images[1])
        for kind, make in KINDS.items()
        for s in STRENGTHS
    }
    cases = [(kind, s) for kind in KINDS for s in STRENGTHS] + [("none", 0)]
    for kind, strength in cases:
        images = test_images[0]
        if strength:
            images = KINDS[kind](rng, images, strength)
        test = predict(images, test_images[1])
        truth = float((np.asarray(test.scores).argmax(axis=1) == test.labels).mean())
        f1 = macro_f1(test)
        copies = {f"{k}-{s}": p for (k, s), p in damaged.items() if k != kind}
        found = {
            "mean confidence": by_calibrant(valid, test, None),
            "CBPE, temperature": by_calibrant(valid, test, temperature),
            "CBPE, chosen calibrator": by_calibrant(valid, test, chosen),
            "ATC": by_calibrant(valid, test, temperature, estimator="atc"),
            "set-level, temperature": by_sets(valid, test, temperature, copies),
        }
        if other is not None:
            found["NannyML CBPE"] = other(test)
        for name, (accuracy, score, *refused) in found.items():
            f1_error = abs(score - f1) if name != "ATC" else np.nan
            yield name, strength, abs(accuracy - truth), f1_error, sum(refused)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.perf_counter()
    rows = [row for seed in range(args.seeds) for row in run_seed(seed)]
    names = list(dict.fromkeys(row[0] for row in rows))
    heads = ["clean", *(f"strength {s}" for s in STRENGTHS), "F1, all", "refused"]
    print(f"{'mean |error| in points':26}" + "".join(f"{head:>12}" for head in heads))
    table = []
    for name in names:
        own = [row for row in rows if row[0] == name]
        errors = [np.mean([r[2] for r in own if r[1] == s]) for s in (0, *STRENGTHS)]
        f1, refused = np.mean([r[3] for r in own]), np.mean([r[4] for r in own])
        table.append({"estimator": name, "accuracy": errors, "f1": f1, "refused": refused})
        cells = "".join(f"{100 * error:12.1f}" for error in (*errors, f1))
        print(f"{name:26}{cells}{refused:12.0%}")
    if args.json is not None:
        about = {
            "calibrant": calibrant.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "seeds": args.seeds,
            "seconds": round(time.perf_counter() - began, 1),
        }
        content = {"about": about, "rows": table}
        args.json.write_text(json.dumps(content, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
