"""Entity F1 that ``watch`` estimates without labels under shift, and the true one.

    calibrant train -o RUN --data … --dtype bfloat16
    python benchmarks/watch_entity_f1.py RUN --data-dir DATA -o watch-entity-f1-cpu.jsonl

Predicts the splits of a finished run of named entities, damaged test sentences, WNUT17 and the
usual corrupted copies of validation, as ``calibrant train`` does (or reads them from the folder
``--keep``, where an earlier call left them). Fits the shift-aware calibrator of words and the
confidence of entities, with all copies (``run``) and without those of the tested kind (``unseen``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions, watch
from calibrant.calibrators import ShiftAware
from calibrant.comparison.span_calibrator import fit_entities
from calibrant.comparison.under_shift import with_corruption
from calibrant.corruptions import TEXT_COPIES
from calibrant.experiments.outcome import Job
from calibrant.experiments.record import circumstances, read_record
from calibrant.metrics import entity_f1
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.watching.pieces import unlabelled
from shift_runs import without

SHIFT = ("typos-1", "typos-3", "typos-5", "ocr-5", "dropped-characters-5", "wnut17")
PARTS = ("valid", "copies", "clean", *SHIFT)
CHUNK = 1000


def predictions(run: Path, directory: str | None, kept: Path | None) -> dict[str, Predictions]:
    """Return the predictions of all parts, kept or made now."""
    if kept is not None and (kept / f"{PARTS[-1]}.parquet").exists():
        return {name: Predictions.read(kept / f"{name}.parquet") for name in PARTS}
    recipe = read_record(run / "metrics.json").recipe
    recipe = replace(recipe, calibrator="auto", copies=TEXT_COPIES, shift=SHIFT)
    model, _ = load_model(run / "model")
    made = Job.of(recipe, directory).outcome(recipe, model.eval(), {"notes": ()})
    assert made.copies is not None
    parts = {"valid": made.valid, "copies": made.copies, "clean": made.test, **made.shift}
    if kept is not None:
        keep(parts, kept)
    return parts


def keep(parts: Mapping[str, Predictions], folder: Path) -> None:
    """Write the predictions of all parts, the last one last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        parts[name].write(folder / f"{name}.parquet", overwrite=True)


def study(parts: Mapping[str, Predictions]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of every setting and part."""
    valid, copies = parts["valid"], parts["copies"]
    kinds = sorted({name.rpartition("-")[0] for name in SHIFT} - {""})
    for setting in ("", *kinds):
        learned = without(copies, setting) if setting else copies
        whole = Predictions.concatenate([with_corruption(valid, ""), learned])
        words = ShiftAware().fit(whole)
        fitted = words, fit_entities(words, valid, learned)
        for name in ("clean", *SHIFT):
            if name.startswith(f"{setting}-") or not setting:
                found = numbers(parts[name], valid, *fitted)
                yield {"setting": "unseen" if setting else "run", "test": name, **found}


def numbers(part: Predictions, valid: Predictions, *fitted: Any) -> dict[str, Any]:
    """Compare the estimates for the whole part, and for its chunks, with the truth."""
    calibrator, entities = fitted
    found = watch(
        unlabelled(part), reference=valid, calibrator=calibrator, entities=entities, chunk=CHUNK
    )
    errors, inside, start = [], [], 0
    for chunk in found.chunks:
        true = float(entity_f1(part[start : start + chunk.rows]))
        value, low, high = chunk.expected_entity_f1
        errors.append(value - true)
        inside.append(low <= true <= high)
        start += chunk.rows
    value, low, high = found.total.expected_entity_f1
    true = float(entity_f1(part))
    return {
        "entity_f1": true, "estimate": value, "low": low, "high": high, "error": value - true,
        "inside": bool(low <= true <= high), "chunks": len(errors),
        "chunk_error": float(np.abs(errors).mean()), "chunks_inside": float(np.mean(inside)),
        "words": len(part),
    }  # fmt: skip


def show(records: list[dict[str, Any]]) -> None:
    """Print a table in points."""
    print("| copies | test | entity F1 | estimate | error | chunks: error | inside |")
    print("|---|---|---|---|---|---|---|")
    for r in records:
        interval = f"{100 * r['estimate']:.1f} [{100 * r['low']:.1f}, {100 * r['high']:.1f}]"
        cells = (100 * r["error"], 100 * r["chunk_error"], 100 * r["chunks_inside"])
        middle = " | ".join(f"{cell:.1f}" for cell in cells)
        print(
            f"| {r['setting']} | {r['test']} | {100 * r['entity_f1']:.1f} | {interval} | {middle} |"
        )


def main() -> None:
    """Measure a run, write the records and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data-dir", help="folder of the corpora")
    parser.add_argument("--keep", type=Path, help="folder of predictions, written or read again")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    record = read_record(options.run / "metrics.json")
    recipe = record.recipe
    about = {
        "data": Path(recipe.data).name, "model": Path(recipe.model).name, "seed": recipe.seed,
        "epochs": recipe.epochs, "learning_rate": recipe.learning_rate, "dtype": recipe.dtype,
        "fitted": circumstances(),
    }  # fmt: skip
    made = predictions(options.run, options.data_dir, options.keep)
    records = []
    with options.output.open("a") as output:
        for found in study(made):
            rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}
            output.write(json.dumps({**about, **rounded}, separators=(",", ":")) + "\n")
            output.flush()
            records.append(rounded)
    show(records)


if __name__ == "__main__":
    main()
