"""npy: one array of scores; its labels are in a second file with a similar name.

``logits.npy`` belongs to ``labels.npy``, ``test_probs.npy`` to ``test_labels.npy`` or
``test_y_true.npy``, and ``probs-dev.npy`` to ``labels-dev.npy``. Sample weights may be in a third
file: ``test_weights.npy`` or ``test_sample_weight.npy``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from calibrant.errors import InputError
from calibrant.files.arrays import ArraySource, Reader
from calibrant.files.columns import LABEL_NAMES, SCORE_NAMES, WEIGHT_NAMES
from calibrant.files.format import Format, NewScores
from calibrant.files.npz import ArrayRows, array_shape
from calibrant.inputs import check_file, door

__all__ = ["NPY", "files_beside", "partner_names", "without_partners"]

_DAMAGE = "not a whole npy file"
_MARKS = "_-."  # What may separate the word from the rest of a name.


class NpySource(ArraySource):
    """An npy file and its file of labels: columns with the words of their names."""

    def __init__(self, path: Path) -> None:
        beside = {_column(place): place for place in files_beside(path)}
        self.files = {_column(path): path, **beside}
        super().__init__(path, {name: _shape(p) for name, p in self.files.items()}, None)

    @contextmanager
    def open(self, names: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        """Open the files of some columns."""
        with ExitStack() as stack:
            readers = {}
            for name in names:
                stack.enter_context(door(self.files[name], _DAMAGE))
                readers[name] = ArrayRows(stack.enter_context(self.files[name].open("rb")))
            yield readers

    def copy(self, target: Path, new: NewScores, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the new scores; the labels stay in their own file."""
        [scores] = (arrays[name] for name in new.names)
        with target.open("wb") as file:
            np.save(file, scores, allow_pickle=False)


def without_partners(paths: Iterable[Path]) -> list[Path]:
    """Leave out npy files of labels and weights whose scores are named too: all are one table.

    >>> [path.name for path in without_partners([Path("probs.npy"), Path("labels.npy")])]
    ['probs.npy']
    """
    paths = list(paths)
    arrays = [path for path in paths if path.suffix.lower() == ".npy"]
    beside = {place for path in arrays for place in _partners(path)}
    return [path for path in paths if path not in beside]


def _shape(path: Path) -> tuple[int, ...]:
    with door(check_file(path), _DAMAGE), path.open("rb") as file:
        shape = array_shape(path, path.stem, file, path.stat().st_size)
    if not shape:
        raise InputError(f"{path}: it holds a single number; expected one row per example.")
    return shape


def _column(path: Path) -> str:
    return _parts(path.stem)[1]


def files_beside(path: Path) -> list[Path]:
    """Return the files with the labels and weights of an npy file of scores, if it is one."""
    if path.suffix.lower() != ".npy":
        return []
    return [place for place in _partners(path) if place.is_file()]


def _partners(path: Path) -> list[Path]:
    """Return where the labels and weights of an array of scores may be."""
    names = partner_names(path.stem, (*LABEL_NAMES, *WEIGHT_NAMES))
    return [path.with_name(f"{name}{path.suffix}") for name in names]


def partner_names(stem: str, words: Sequence[str] = LABEL_NAMES) -> list[str]:
    """Return the names that the labels of a file of scores may have, without suffix.

    >>> partner_names("test_probs")[:2]
    ['test_label', 'test_labels']
    """
    before, word, after = _parts(stem)
    if word in (*LABEL_NAMES, *WEIGHT_NAMES):
        return []
    own = [f"{stem}_{name}" for name in words] if word == stem not in SCORE_NAMES else []
    return [*own, *(f"{before}{name}{after}" for name in words)]


def _parts(stem: str) -> tuple[str, str, str]:
    """Return what precedes the word that says what the array is, the word, and what follows it.

    >>> _parts("test_probs"), _parts("labels-dev"), _parts("P")
    (('test_', 'probs', ''), ('', 'labels', '-dev'), ('', 'P', ''))
    """
    for word in sorted((*SCORE_NAMES, *LABEL_NAMES, *WEIGHT_NAMES), key=len, reverse=True):
        rest = stem.removesuffix(word)
        if rest != stem and (not rest or rest[-1] in _MARKS):
            return rest, word, ""
        rest = stem.removeprefix(word)
        if rest != stem and rest[0] in _MARKS:
            return "", word, rest
    return "", stem, ""


def _refuse(_: Iterator[Any], path: Path) -> NoReturn:
    raise InputError(
        f"{path}: npy holds one array, so the labels would be lost; write .npz instead."
    )


NPY = Format((".npy",), NpySource, _refuse)
