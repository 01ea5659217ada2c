"""pt: a dict of tensors, as ``torch.save`` writes it; only tensors and plain values are loaded."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.arrays import ArraySource, Reader
from calibrant.files.format import Format, NewScores, joined, other_columns
from calibrant.inputs import check_unpacked, door
from calibrant.predictions import Predictions

__all__ = ["PT"]

_NAMES = "label_names"
_DAMAGE = "not a whole pt file"
_SAVE = "save a dict: torch.save({'logits': logits, 'labels': labels}, path)"


class PtSource(ArraySource):
    """One pt file, held in memory: the tensors are the columns, their first axis the rows."""

    def __init__(self, path: Path) -> None:
        self.content = _load(path)
        named = self.content.get(_NAMES)
        names = tuple(map(str, named)) if isinstance(named, (list, tuple)) else None
        with door(path, _DAMAGE):
            arrays = {key: _array(value) for key, value in self.content.items() if key != _NAMES}
        self.arrays = {key: array for key, array in arrays.items() if array is not None}
        super().__init__(path, {key: array.shape for key, array in self.arrays.items()}, names)

    @contextmanager
    def open(self, names: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        """Read from the arrays in memory."""
        yield {key: _Rows(self.arrays[key]) for key in names}

    def copy(self, target: Path, new: NewScores, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the other entries as they were."""
        torch = _torch()
        kept = {
            new.renamed.get(key, key): value
            for key, value in self.content.items()
            if new.keeps(key)
        }
        _save(kept | {key: torch.from_numpy(arrays[key]) for key in arrays}, target)


class _Rows:
    """Reads an array row by row."""

    def __init__(self, array: np.ndarray) -> None:
        self._left = array

    def take(self, rows: int) -> np.ndarray:
        """Return the next ``rows`` rows."""
        part, self._left = self._left[:rows], self._left[rows:]
        return part


def _torch() -> Any:
    return require("torch", "torch", "A .pt file")


def _load(path: Path) -> dict[str, Any]:
    torch = _torch()
    with door(path, _DAMAGE):
        _check_size(path)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise InputError(
                f"{path}: damaged, or it holds Python objects, which are never loaded; {_SAVE}."
            ) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path}: it holds a {type(content).__name__} without names; {_SAVE}.")
    return content


def _check_size(path: Path) -> None:
    if zipfile.is_zipfile(path):  # Not the format before torch 1.6, which is never compressed.
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        check_unpacked(path, size, "save it with torch.save, which does not compress")


def _array(value: Any) -> np.ndarray | None:
    """Return a tensor or a list of texts as an array; anything else is not a column."""
    torch = _torch()
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        return text_array(value)
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.is_sparse:
        return None
    value = value.detach()
    if value.nbytes > value.untyped_storage().nbytes():  # A few bytes may claim any number of rows.
        raise ValueError("a tensor repeats its values; save tensor.contiguous()")
    return np.asarray(value.float() if value.dtype == torch.bfloat16 else value)


def _write(parts: Iterator[Predictions | Claims], path: Path) -> None:
    """Write ``logits`` or ``probabilities``, ``labels``, each group and signal; texts as lists."""
    torch, whole = _torch(), joined(parts)
    columns: dict[str, Any] = {}
    if isinstance(whole, Predictions):
        columns = {whole.kind: whole.scores, "labels": whole.labels}
    columns |= other_columns(whole)
    content = {
        name: column.tolist() if column.dtype.kind in "OU" else torch.from_numpy(column)
        for name, column in columns.items()
    }
    if isinstance(whole, Predictions) and whole.label_names is not None:
        content[_NAMES] = list(whole.label_names)
    _save(content, path)


def _save(content: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:  # Given a path, torch would write its name into the file.
        _torch().save(content, file)


PT = Format((".pt", ".pth"), PtSource, _write)
