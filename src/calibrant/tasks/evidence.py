"""What predicting keeps of the validation split: confidence and correctness, and no logits.

A threshold with a guarantee is chosen from them, for any target risk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from calibrant.errors import InputError
from calibrant.files.npz import array_names, opened_npz, read_array
from calibrant.inputs import check_file
from calibrant.metrics import Confidences
from calibrant.outputs import new_file

__all__ = ["EVIDENCE", "read_evidence", "write_evidence"]

EVIDENCE = "evidence.npz"  # In the folder of a run.
_COLUMNS = ("confidence", "correct", "block")


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
