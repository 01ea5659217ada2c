"""Save fitted calibrators as one small JSON file, or as safetensors for large arrays; no pickle."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators.backend import FLOOR
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.correction import CORRECTIONS, check_correction
from calibrant.calibrators.matrix import Vector, WeightMatrix
from calibrant.calibrators.scalar import OneVsRest
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import door, nearest_path, parse_json
from calibrant.outputs import check_writable, new_file

__all__ = ["FORMAT", "check_suffix", "from_dict", "load_calibrator", "save", "to_dict"]

FORMAT = 4  # Readers know every format up to this one.
_UNCORRECTED = 3  # The format without a correction, which older versions can read.
# The implicit setting of calibrators of format 1, which did not store it.
_TOP_LABEL = ("spline", "histogram-top-label", "isotonic-top-label")
_IN_FORMAT_1 = {name: {"keep_prediction": False} for name in _TOP_LABEL}
_LARGE = 1 << 20  # From this many bytes of arrays on, the file must be safetensors.
_SIGNATURE = "calibrant calibrator"
_TYPES = ("float64", "float32", "int64", "int32", "bool")
_MOST_CLASSES = 10_000_000
_TOO_MUCH = 1e100
_ROUNDING = 1e-6


def save(calibrator: Calibrator, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a fitted calibrator; floats round-trip exactly.

    A path that ends in ``.safetensors`` holds the arrays in binary and the rest in its header
    (extra ``files``), one that ends in ``.json`` is JSON, for calibrators of up to 1 MB of arrays.
    The write is atomic. An existing file is kept unless ``overwrite`` is set.
    """
    path = check_writable(check_suffix(path), overwrite=overwrite)
    learned = {name: np.asarray(value) for name, value in calibrator.learned().items()}
    header = _header(calibrator)
    size = sum(value.nbytes for value in learned.values())
    if path.suffix == ".safetensors":
        content = _safetensors(header, learned)
    elif size > _LARGE:
        raise InputError(
            f"This {calibrator.name} calibrator holds {size / 1e6:.1f} MB of numbers, too much for "
            f"JSON; save it as {path.with_suffix('.safetensors').name}."
        )
    else:
        content = (json.dumps(to_dict(calibrator), indent=1) + "\n").encode()
    with new_file(path, overwrite=overwrite) as unfinished:
        unfinished.write_bytes(content)


def to_dict(calibrator: Calibrator) -> dict[str, Any]:
    """Return a fitted calibrator as data for JSON, for files that hold several parts."""
    learned = {name: _plain(np.asarray(value)) for name, value in calibrator.learned().items()}
    return {**_header(calibrator), "learned": learned}


def from_dict(content: Mapping[str, Any], where: str | Path) -> Calibrator:
    """Read what :func:`to_dict` returned; ``where`` names the file in errors."""
    with door(where, "this is not a calibrator saved by calibrant"):
        learned = {name: _array(value) for name, value in content["learned"].items()}
        header = {name: value for name, value in content.items() if name != "learned"}
    return _checked(header, learned, where)


def check_suffix(path: str | Path, known: Sequence[str] = (".json", ".safetensors")) -> Path:
    """Return the path if its suffix names a format of saved calibrators."""
    path = Path(path)
    if path.suffix not in known:
        expected = " or ".join(known)
        raise InputError(f"{path}: a calibrator is saved as {expected}, got '{path.suffix}'.")
    return path


def load_calibrator(path: str | Path) -> Calibrator:
    """Read a calibrator that :func:`save` wrote, in this or an earlier version.

    >>> import tempfile
    >>> from calibrant import Predictions, Temperature
    >>> valid = Predictions.from_logits([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]], [0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Temperature().fit(valid).save(f"{folder}/calibrator.json")
    ...     load_calibrator(f"{folder}/calibrator.json")
    <Temperature(), fitted on 3 examples: temperature_=...>
    """
    path = Path(path)
    _check_source(path)
    return _checked(*_read(path), path)


def _checked(
    header: dict[str, Any], learned: dict[str, np.ndarray], path: str | Path
) -> Calibrator:
    if header.get("signature") != _SIGNATURE:
        raise InputError(f"{path} is not a calibrator saved by calibrant.")
    try:
        if not 1 <= int(header["format"]) <= FORMAT:
            raise InputError(
                f"{path} has format {header['format']}, written by calibrant {header['version']}; "
                f"this version reads up to format {FORMAT}: upgrade calibrant."
            )
        return _rebuilt(header, learned)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}.") from error


def _check_source(path: Path) -> None:
    """Require an existing file that calibrant can read."""
    if path.is_dir():
        own = path / "calibrator.json"
        if own.exists():
            raise InputError(
                f'{path} is the folder of a run: calibrant.load_run("{path}") loads its predictor, '
                f'calibrant.load_calibrator("{own}") its calibrator.'
            )
        raise InputError(f"{path} is a folder; load_calibrator takes the file of a calibrator.")
    if not path.is_file():
        raise InputError(f"There is no calibrator at {path}.{nearest_path(path)}")
    if path.suffix in (".parquet", ".npz", ".csv", ".jsonl", ".gz"):
        raise InputError(
            f"{path} is not a calibrator saved by calibrant, which is .json or .safetensors; "
            f'calibrant.read("{path}") reads predictions.'
        )
    if path.suffix == ".onnx":
        raise InputError(
            f"{path} is an export for onnxruntime, which calibrant does not read; give the .json "
            "or .safetensors file that 'calibrant fit -o' or Calibrator.save wrote."
        )


def _header(calibrator: Calibrator) -> dict[str, Any]:
    from calibrant import __version__

    return {
        "signature": _SIGNATURE,
        "format": FORMAT if CORRECTIONS & calibrator.learned().keys() else _UNCORRECTED,
        "version": __version__,
        "method": calibrator.name,
        "hyperparameters": calibrator.get_params(),
        "classes": calibrator.n_classes_,
        "label_names": calibrator.label_names_ and list(calibrator.label_names_),
        "fell_back": calibrator.fell_back_,
        **({"signals": list(calibrator.signals_)} if calibrator.signals_ else {}),
        "fitted_on": calibrator.fitted_on_,
    }


def _rebuilt(header: dict[str, Any], learned: dict[str, np.ndarray]) -> Calibrator:
    from calibrant.calibrators import calibrator_class

    arguments = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in header["hyperparameters"].items()
    }
    if int(header["format"]) == 1:
        arguments = {**_IN_FORMAT_1.get(header["method"], {}), **arguments}
    calibrator = calibrator_class(header["method"])(**arguments)
    classes, names = _classes(header)
    learned = {**calibrator.added_later, **learned}
    _check_learned(type(calibrator), learned)
    _check_shapes(calibrator, learned, classes)
    values = {k: v.item() if v.ndim == 0 else v for k, v in learned.items()}
    if calibrator.changes_scores:
        values.setdefault("floor_", FLOOR)  # The floor of every calibrator before format 3.
    signals = tuple(str(name) for name in header.get("signals", ()))
    calibrator._restore(values, classes, names, signals)
    calibrator.fell_back_ = bool(header["fell_back"])
    calibrator.fitted_on_ = dict(header["fitted_on"])
    # Find arrays of the wrong shape now, not in the middle of a user's data.
    zeros = {name: np.zeros(1, np.int64) for name in calibrator.groups_}
    one_row = np.zeros((1, calibrator.n_classes_))
    some = {name: [0.0] for name in signals}
    mapped = calibrator.transform_scores(one_row, "logits", zeros, some)
    if not np.isfinite(mapped).all():
        raise InputError(
            f"The file is damaged: its {calibrator.name} calibrator gives no finite scores."
        )
    return calibrator


def _check_learned(kind: type[Calibrator], learned: dict[str, np.ndarray]) -> None:
    """Require every declared value to be present, finite, and above 0 if a temperature."""
    declared = {
        name
        for parent in kind.__mro__
        if parent not in Calibrator.__mro__
        for name in inspect.get_annotations(parent)
        if name.endswith("_")
    }
    if missing := sorted(declared - learned.keys()):
        raise InputError(f"The file is damaged: {', '.join(missing)} of {kind.name} is missing.")
    for name, value in learned.items():
        if wrong := _wrong(name, value):
            raise InputError(f"The file is damaged: {name} of {kind.name} is {wrong}.")


def _wrong(name: str, value: np.ndarray) -> str | None:
    """Describe a value that no fit produces: it would fail later, in the middle of the data."""
    if not np.isfinite(value).all():
        return "not finite"
    if (np.abs(value) > _TOO_MUCH).any():
        return "larger than any that is learned"
    if (name.startswith("temperature") or name == "floor_") and not (value > 0).all():
        return "not above 0"
    if name == "share_exponents_" and not (value >= 0).all():
        return "below 0"
    if name == "values_" and not ((value > -_ROUNDING) & (value < 1 + _ROUNDING)).all():
        return "no probability"
    if name in ("edges_", "nodes_") and (np.diff(value) < 0).any():
        return "not in ascending order"
    return None


def _classes(header: dict[str, Any]) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of classes, and their names if they have any."""
    classes, names = int(header["classes"]), header["label_names"]
    if not 2 <= classes <= _MOST_CLASSES:
        raise InputError(f"The file is damaged: a calibrator cannot have {classes} classes.")
    if names is not None and (not isinstance(names, list) or len(names) != classes):
        raise InputError(f"The file is damaged: it has no list of {classes} label names.")
    return classes, None if names is None else tuple(map(str, names))


def _check_shapes(calibrator: Calibrator, learned: dict[str, np.ndarray], classes: int) -> None:
    """Require one value per class: NumPy would broadcast a single one to all."""
    per_class = isinstance(calibrator, (OneVsRest, Vector, WeightMatrix))
    curves = 1 if isinstance(calibrator, OneVsRest) and classes == 2 else classes
    check_correction(learned, classes)
    fitted = {name: value for name, value in learned.items() if name not in CORRECTIONS}
    for name, value in fitted.items() if per_class else ():
        axes = value.shape if isinstance(calibrator, WeightMatrix) else value.shape[:1]
        if value.ndim and set(axes) != {curves}:
            raise InputError(
                f"The file is damaged: {name} of {calibrator.name} has the shape {value.shape}, "
                f"for {classes} classes."
            )


def _plain(value: np.ndarray) -> dict[str, Any]:
    return {"dtype": value.dtype.name, "shape": list(value.shape), "values": value.ravel().tolist()}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    with door(path, "this is not a calibrator saved by calibrant"):
        header = parse_json(path.read_text(encoding="utf-8"))
        _check_signature(header, path)
        learned = {name: _array(value) for name, value in header.pop("learned").items()}
    return header, learned


def _check_signature(header: Any, path: Path) -> None:
    """Refuse the other files that calibrant saves as JSON, and say what takes them."""
    kind = header.get("signature") if isinstance(header, dict) else None
    takers = {
        "calibrant entity calibrator": "'audit --entities … --calibrator' and 'apply' take it",
        "calibrant policy": "'apply --policy' and calibrant.load take it",
    }
    if kind in takers:
        raise InputError(f"{path} is a {kind}, not a calibrator of scores; {takers[kind]}.")


def _array(value: dict[str, Any]) -> np.ndarray:
    if value["dtype"] not in _TYPES:  # NumPy has other types that take any amount of memory.
        raise ValueError(f"numbers of type {value['dtype']!r}")
    return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])


def _safetensors(header: dict[str, Any], learned: dict[str, np.ndarray]) -> bytes:
    library = require("safetensors.numpy", "files", "A calibrator saved as safetensors")
    arrays = {name: np.asarray(value, order="C") for name, value in learned.items()}
    content: bytes = library.save(arrays, metadata={"calibrant": json.dumps(header)})
    return content


def _read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    library = require("safetensors", "files", "A calibrator saved as safetensors")
    with door(path, "this is not a calibrator saved by calibrant"):
        with library.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            learned = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return dict(parse_json(metadata.get("calibrant", "{}"))), learned
