"""Fingerprints of what a policy was learned for: a calibrator, or the files of a model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["calibrator_fingerprint", "model_fingerprint"]

_WEIGHTS = (".safetensors", ".bin", ".pt", ".onnx")


def calibrator_fingerprint(calibrator: Any) -> str:
    """Return a hash of the name, settings and learned values of a fitted calibrator.

    >>> from calibrant import Predictions, Temperature
    >>> valid = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> one, again = Temperature().fit(valid), Temperature().fit(valid)
    >>> calibrator_fingerprint(one) == calibrator_fingerprint(again)
    True
    >>> again.temperature_ += 0.1
    >>> calibrator_fingerprint(one) == calibrator_fingerprint(again)
    False
    """
    digest = hashlib.sha256(calibrator.name.encode())
    settings = {"params": calibrator.get_params(), "names": calibrator.label_names_}
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, value in sorted(calibrator.learned().items()):
        array = np.asarray(value)
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def model_fingerprint(folder: Path) -> str | None:
    """Return a hash of the weights in a model's folder, or None where it has none.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     print(model_fingerprint(Path(folder)))
    ...     _ = (Path(folder) / "model.safetensors").write_bytes(b"weights")
    ...     len(model_fingerprint(Path(folder)))
    None
    32
    """
    digest, found = hashlib.sha256(), False
    for path in sorted(folder.glob("*")):
        if path.suffix in _WEIGHTS:
            found = True
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    return digest.hexdigest()[:32] if found else None
