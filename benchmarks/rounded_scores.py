"""Temperature scaling of probabilities that were rounded, against the logits they come from.

python benchmarks/encoder_scores.py -o SCORES --only cifar10-wide_resnet50_2 cifar10-resnet18
python benchmarks/rounded_scores.py SCORES/cifar10-* --json results/rounded-scores.json

Each row fits a temperature on the validation scores, rounded to this many digits, and applies it to
the test scores, rounded alike. "half" is the temperature with 0 read as half of the last digit.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import Temperature
from calibrant.calibrators.likelihood import probability_floor
from calibrant.metrics import accuracy, ece, nll


def rounded(predictions, digits):
    p = predictions.probabilities().astype(np.float64).round(digits)
    return predictions.with_scores(p / p.sum(axis=1, keepdims=True), "probabilities")


def floored(predictions, floor):
    logits = np.log(np.maximum(predictions.scores, floor))
    return predictions.with_scores(logits, "logits")


def fitted(valid, test):
    one = Temperature().fit(valid)
    after = one.transform(test)
    return {
        "temperature": round(one.temperature_, 3),
        "ece": round(float(ece(after)), 4),
        "nll": round(float(nll(after)), 4),
        "floor": float(f"{one.floor_:.2g}"),
    }


def rows(folder):
    valid, test = (Predictions.read(folder / f"{split}.npz") for split in ("valid", "test"))
    start = {"scores": folder.name, "accuracy": round(float(accuracy(test)), 4)}
    yield {**start, "digits": None, "ece_before": round(float(ece(test)), 4), **fitted(valid, test)}
    for digits in (6, 5, 4, 3, 2):
        few, new = rounded(valid, digits), rounded(test, digits)
        half = fitted(*(floored(p, probability_floor(few)) for p in (few, new)))
        row = {"digits": digits, "ece_before": round(float(ece(new)), 4), **fitted(few, new)}
        zeros = round(float((few.scores == 0).mean()), 3)
        yield {**start, **row, "zeros": zeros, "half": {k: half[k] for k in half if k != "floor"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", nargs="+", type=Path, help="folders with valid.npz and test.npz")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    made = [row for folder in args.scores for row in rows(folder)]
    print(
        "| scores | digits | zeros | ECE before | T | ECE | NLL | T, ECE, NLL with half a digit |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in made:
        half = row.get("half", {})
        cells = [row["scores"], row["digits"] or "all", row.get("zeros", 0), row["ece_before"]]
        cells += [row["temperature"], row["ece"], row["nll"], ", ".join(map(str, half.values()))]
        print("| " + " | ".join(map(str, cells)) + " |")
    if args.json:
        args.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
