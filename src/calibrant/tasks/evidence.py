"""What predicting keeps of the validation split: confidence and correctness, and no logits.

A threshold with a guarantee is chosen from them, for any target risk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from calibrant.calibrators import Calibrator, load_calibrator
from calibrant.comparison.cross_validation import make_folds, out_of_fold
from calibrant.comparison.under_shift import out_of_fold_with_copies
from calibrant.errors import InputError
from calibrant.files.npz import array_names, opened_npz, read_array
from calibrant.inputs import check_file
from calibrant.metrics import Confidences, confidences
from calibrant.metrics.blocks import dependent_group
from calibrant.outputs import new_file
from calibrant.predictions import Predictions
from calibrant.tasks.run_files import check_classes, find_file, write_labels

__all__ = [
    "EVIDENCE",
    "ROWS",
    "read_calibration",
    "read_evidence",
    "row_evidence",
    "write_calibration",
    "write_evidence",
]

EVIDENCE = "evidence.npz"  # In the folder of a run.
_COLUMNS = ("confidence", "correct", "block")
ROWS = "rows"  # The evidence of texts, images and pixels.
_FOLDS = 5
# Above this many examples (pixels) a seeded sample is kept, and the calibrator that was fitted on
# all of them is not fitted again: a single example hardly changes it.
_MOST = 100_000


def row_evidence(
    calibrator: Calibrator, valid: Predictions, copies: Predictions | None = None
) -> Confidences:
    """Return the calibrated confidence of each validation row, and whether its class is right.

    The calibrator of each row is fitted without it, because a flexible calibrator makes the data
    that it was fitted on look better than new data. A calibrator that learns from corrupted copies
    is also fitted on ``copies`` of the other rows.
    """
    if len(valid) > _MOST:
        chosen = np.sort(np.random.default_rng(0).choice(len(valid), _MOST, replace=False))
        if calibrator.signals_:  # They are means over groups, which must not be cut.
            return _with_groups(calibrator.transform(valid)[chosen])
        return _with_groups(calibrator.transform(valid[chosen]))
    try:
        folds = make_folds(valid, _FOLDS, seed=0)
    except InputError:  # One example alone.
        return _with_groups(calibrator.transform(valid))
    if calibrator.needs_copies and copies is not None:
        return _with_groups(out_of_fold_with_copies(calibrator, valid, copies, folds))
    return _with_groups(out_of_fold(calibrator, valid, folds))


def _with_groups(predictions: Predictions) -> Confidences:
    """Return confidences whose blocks are images or the like, if rows depend on each other."""
    group = dependent_group(predictions)
    return confidences(predictions, None if group is None else predictions.groups[group])


def read_calibration(folder: Path, labels: tuple[str, ...]) -> tuple[Calibrator, Confidences]:
    """Read the calibrator of a run and the evidence of its rows.

    A run of an earlier version takes the evidence from its validation predictions.
    """
    # The first version had one calibrator.
    calibrator = load_calibrator(find_file(folder, "calibrator.json", "temperature.json"))
    check_classes(folder, labels, "its calibrator", calibrator.n_classes_)
    if not (folder / EVIDENCE).exists():
        valid = Predictions.read(find_file(folder, "valid.parquet", "valid.npz"))
        check_classes(folder, labels, "its validation predictions", valid.classes)
        return calibrator, row_evidence(calibrator, valid)
    found = read_evidence(folder / EVIDENCE)
    if ROWS not in found:
        raise InputError(f"{folder / EVIDENCE}: no confidences of rows.")
    return calibrator, found[ROWS]


def write_calibration(
    folder: Path, labels: tuple[str, ...], calibrator: Calibrator, evidence: Confidences
) -> None:
    """Write what :func:`read_calibration` reads, and the labels."""
    write_labels(folder, labels)
    calibrator.save(folder / "calibrator.json")
    write_evidence(folder / EVIDENCE, {ROWS: evidence})


def write_evidence(path: Path, evidence: Mapping[str, Confidences]) -> None:
    """Write the confidences of each name as arrays ``NAME.confidence`` and so on."""
    arrays = {
        f"{name}.{column}": values
        for name, found in evidence.items()
        for column in _COLUMNS
        if (values := getattr(found, column)) is not None
    }
    with new_file(path, overwrite=True) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_evidence(path: Path) -> dict[str, Confidences]:
    """Read what :func:`write_evidence` wrote."""
    with opened_npz(check_file(path)) as archive:
        arrays = {key: read_array(archive, key) for key in array_names(archive)}
    try:
        return {
            name: Confidences(
                arrays[f"{name}.confidence"], arrays[f"{name}.correct"], arrays.get(f"{name}.block")
            )
            for name in dict.fromkeys(key.rpartition(".")[0] for key in arrays)
        }
    except (InputError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path}: no confidences of a validation split ({error}).") from None
