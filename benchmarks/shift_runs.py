"""Runs of ``calibrant train`` under shift: what the rule chose, and what it does.

    calibrant train -o RUN --data … --shift typos-3 typos-5 … wnut17
    python benchmarks/shift_runs.py RUN … --data-dir DATA -o shift-runs-cpu.jsonl

Reads finished runs of named entities whose calibrators were chosen by the rule. Measures the test
split and everything that the recipe's ``shift`` names, over words, over words that are tagged as
entities, and over whole entities, with

- ``temperature`` and ``chosen on clean``, the calibrator that the rule chooses without copies;
- ``run``: the calibrators of the run, as ``calibrant evaluate`` uses them. Their copies have every
  kind of damage that is tested;
- ``unseen``: what the rule chooses if the run makes no copies of the tested kind, from the same
  copies otherwise.

``rule`` says what was chosen and why, and how long choosing and fitting took.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import Calibrator, ShiftAware, Temperature, load_calibrator
from calibrant.comparison import SpanCalibrator, select_calibrator
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.span_calibrator import entity_words, fit_entities
from calibrant.comparison.under_shift import judge_under_shift, with_corruption
from calibrant.experiments.outcome import CANDIDATES, Job, Outcome
from calibrant.experiments.record import circumstances, read_record
from calibrant.metrics import accumulate, ece, entity_f1
from calibrant.tasks.encoders.model_folder import load_model

BACKGROUND = "O"


def outcome_of(folder: Path, directory: str) -> Outcome:
    """Return the predictions of a finished run for all parts and copies."""
    recipe = read_record(folder / "metrics.json").recipe
    job = Job.of(recipe, directory)
    model, _ = load_model(folder / "model")
    return job.outcome(recipe, model.eval(), {"notes": ()})


def chosen(plain: Calibrator, valid: Predictions, copies: Predictions) -> tuple[Calibrator, str]:
    """Return what the rule of ``calibrant train`` chooses with copies, and why.

    ``plain`` is its choice without them.
    """
    folds = make_folds(valid, 5, seed=0)
    found = judge_under_shift(plain, with_corruption(valid, ""), copies, folds)
    return (plain if found.candidate is None else found.candidate.calibrator), found.reason


def without(copies: Predictions, kind: str) -> Predictions:
    """Return the copies without one kind of damage."""
    names = copies.groups["corruption"].astype(str)
    return copies[~np.char.startswith(names, f"{kind}-")]


def study(folder: Path, directory: str) -> Iterator[dict[str, Any]]:
    """Yield what the rule says and the numbers of every setting and part."""
    made = outcome_of(folder, directory)
    valid, copies = made.valid, made.copies
    assert copies is not None, f"{folder} made no copies"
    parts = {"clean": made.test, **made.shift}
    kinds = sorted({name.rpartition("-")[0] for name in copies.groups["corruption"]})

    start = time.process_time()
    plain = select_calibrator(valid, CANDIDATES)
    own, reason = chosen(plain.calibrator, valid, copies)
    rule_s = time.process_time() - start
    entities = fit_entities(own, valid, copies)
    start = time.process_time()
    ShiftAware().fit(Predictions.concatenate([with_corruption(valid, ""), copies]))
    yield {
        "setting": "rule", "chosen": own.name, "reason": f"{plain.reason} {reason}",
        "entities": entities.calibrator_.name, "entities_reason": entities.reason_,
        "rule_cpu_s": rule_s, "fit_cpu_s": time.process_time() - start,
        "validation_words": len(valid), "copied_words": len(copies),
    }  # fmt: skip

    saved = load_calibrator(folder / "calibrator.json")
    assert saved.name == own.name
    ordinary = {"temperature": Temperature().fit(valid), "chosen on clean": plain.calibrator}
    for setting, calibrator in ordinary.items():
        learned = fit_entities(calibrator, valid)
        for name, part in parts.items():
            yield {"test": name, **numbers(setting, calibrator, learned, part)}
    for name, part in parts.items():
        yield {"test": name, **numbers("run", saved, entities, part)}
    for kind in kinds:
        tested = {n: part for n, part in parts.items() if n.startswith(f"{kind}-")}
        if not tested:
            continue
        calibrator, reason = chosen(plain.calibrator, valid, without(copies, kind))
        learned = fit_entities(calibrator, valid, without(copies, kind))
        for name, part in tested.items():
            found = numbers("unseen", calibrator, learned, part)
            yield {"test": name, **found, "reason": reason, "entities_reason": learned.reason_}


def numbers(
    setting: str, calibrator: Calibrator, entities: SpanCalibrator, part: Predictions
) -> dict[str, Any]:
    """Measure words, words tagged as entities and whole entities of one part."""
    words = calibrator.transform(part)
    probabilities = words.probabilities()
    predicted = probabilities.argmax(1)
    inside = predicted != list(words.label_names or ()).index(BACKGROUND)
    tagged = Predictions.from_probabilities(probabilities[inside], words.labels[inside])
    found = entities.transform(entity_words(calibrator, part))
    return {
        "setting": setting,
        "calibrator": calibrator.name,
        "entity_calibrator": entities.calibrator_.name,
        "entity_f1": float(entity_f1(part)),
        "accuracy": float((predicted == words.labels).mean()),
        "confidence": float(probabilities.max(1).mean()),
        "ece": float(ece(accumulate(words))),
        "entity_words_ece": float(ece(accumulate(tagged))),
        "entity_ece": float(ece(found)),
        "words": len(part),
        "entities": len(found),
    }


def mean(values: list[float]) -> str:
    """Return the mean in points, nothing of nothing."""
    return f"{100 * np.mean(values):.1f}" if values else ""


def show(records: list[dict[str, Any]]) -> None:
    """Print the ECE in points, means over runs."""
    settings = ("temperature", "chosen on clean", "run", "unseen")
    for column in ("ece", "entity_words_ece", "entity_ece"):
        print(f"\n{column}\n\n| | {' | '.join(settings)} |\n|---|{'---|' * len(settings)}")
        for test in dict.fromkeys(r["test"] for r in records if "test" in r):
            same = [r for r in records if r.get("test") == test]
            cells = [mean([r[column] for r in same if r["setting"] == s]) for s in settings]
            print(f"| {test} | {' | '.join(cells)} |")
    for found in records:
        if found["setting"] == "rule":
            print(json.dumps(found, indent=1))


def main() -> None:
    """Measure each run, write the records and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--data-dir", help="folder of the corpora")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    for folder in options.runs:
        record = read_record(folder / "metrics.json")
        recipe = record.recipe
        about = {
            "data": recipe.data, "model": Path(recipe.model).name, "seed": recipe.seed,
            "epochs": recipe.epochs, "learning_rate": recipe.learning_rate, "dtype": recipe.dtype,
            "trained": record.circumstances,
            "fitted": {**circumstances(), "cpu": platform.machine()},
        }  # fmt: skip
        with options.output.open("a") as output:
            for found in study(folder, options.data_dir):
                rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}
                output.write(json.dumps({**about, **rounded}, separators=(",", ":")) + "\n")
                output.flush()
    show([json.loads(line) for line in options.output.read_text().splitlines()])


if __name__ == "__main__":
    main()
