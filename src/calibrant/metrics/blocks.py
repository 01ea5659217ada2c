"""Assign examples to bootstrap blocks: whole groups, and the same in every shard."""

from __future__ import annotations

import numpy as np

from calibrant.arguments import check_kind, check_whole
from calibrant.arrays import to_numpy
from calibrant.claims import Claims
from calibrant.errors import unknown_name
from calibrant.metrics.kernel_dispatch import claim_kernels
from calibrant.predictions import Predictions

__all__ = ["assign_blocks", "dependent_group", "effective_number", "hash_values"]

# Groups whose examples depend on each other; the first one present is used.
_DEPENDENT = ("sentence", "image", "example")
_ROWS = 1 << 16
_NUMBERS_START_WITH = [ord(character) for character in "-0123456789in"]
_CHARACTERS = 1 << 22  # Long texts hashed at once.


def assign_blocks(
    predictions: Predictions | Claims,
    by: str | None = "auto",
    blocks: int = 1000,
    *,
    start: int = 0,
) -> np.ndarray:
    """Return the block, 0..blocks−1, of each example, for :func:`bootstrap_interval`.

    ``by`` names the group that must stay together, because its examples are not independent: the
    tokens of one sentence, the pixels of one image. The block is a hash of the group's value,
    so the same group lands in the same block in every shard. ``by=None``: every
    example is independent and placed by its row number, each in its own block as long
    as they last; ``start`` is the row number of the first one, for parts of a whole. ``"auto"``:
    by sentence or image if there is such a group, else by row.

    >>> groups = {"sentence": [4, 4, 7]}
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 1, 0], groups=groups)
    >>> assign_blocks(p)
    array([978, 978, 487])
    >>> assign_blocks(p, by=None)
    array([0, 1, 2])
    """
    check_whole("assign_blocks", "a whole number of blocks ≥ 1", blocks)
    check_kind("assign_blocks", predictions, Predictions, Claims)
    by = dependent_group(predictions, by)
    if by is None:
        # Cycling through blocks would put the copies of a periodic file into the same blocks.
        if (module := claim_kernels(len(predictions), again=True)) is not None:
            block = np.empty(len(predictions), np.int64)
            module.place_rows(start, blocks, block)
            return block
        row = np.arange(start, start + len(predictions))
        return np.where(row < blocks, row, _block(row, blocks))
    if by not in predictions.groups:
        raise unknown_name("group", by, predictions.groups)
    return _block(predictions.groups[by], blocks)


def _block(values: np.ndarray, blocks: int) -> np.ndarray:
    return (hash_values(values) % np.uint64(blocks)).astype(np.int64)


def dependent_group(predictions: Predictions | Claims, by: str | None = "auto") -> str | None:
    """Return the group that ``by`` means: ``"auto"`` is sentence or image if there is one."""
    if by != "auto" or "auto" in predictions.groups:
        return by
    return next((name for name in _DEPENDENT if name in predictions.groups), None)


def effective_number(sizes: np.ndarray) -> np.ndarray:
    """Return the number of equal-sized groups with as much information as groups of these sizes.

    (Σ v_g)² / Σ v_g² of the variances v_g of the groups' sums (Satterthwaite 1946), over the first
    axis. They grow as n_g where examples of a group are independent and as n_g² where they are all
    alike; here as n_g^1.5, halfway. 0 where every size is 0.

    >>> effective_number(np.array([8, 1, 1])).round(2), effective_number(np.array([5, 5, 0]))
    (np.float64(1.18), np.float64(2.0))
    """
    variances = np.asarray(sizes, np.float64) ** 1.5
    squares = np.square(variances).sum(axis=0)
    number = np.square(variances.sum(axis=0)) / np.where(squares > 0, squares, 1.0)
    return np.asarray(number).round(9)[()]  # Equal sizes of any number of groups give that number.


def hash_values(values: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each number or text, the same on every machine and in every run.

    A number has the hash of its text, as Python writes it: in a column of a text file, some chunks
    may look like numbers and others not.

    >>> a, b = hash_values(np.array(["a", "7"])), hash_values(np.array(["a", "longer"]))
    >>> bool(a[0] == b[0]), bool(a[1] == hash_values(np.array([7]))[0])
    (True, True)
    """
    if isinstance(values, np.ndarray) and values.dtype == object:  # Text too long for NumPy.
        return _hash_long_text(values)
    values = to_numpy(values)
    if values.dtype.kind in "US":
        parts = [_hash_texts(values[i : i + _ROWS]) for i in range(0, len(values), _ROWS)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64) + 0.0  # −0 and 0 are one group.
        return _mix(wide.view(np.uint64))
    return _mix(values.astype(np.int64).view(np.uint64))


def _hash_texts(values: np.ndarray) -> np.ndarray:
    """Hash texts, with texts of numbers as numbers; few columns hold any, so check first."""
    hashed = _hash_text(values)
    if values.dtype.kind != "U" or not values.itemsize:
        return hashed
    first = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)[:, 0]
    maybe = np.flatnonzero(np.isin(first, _NUMBERS_START_WITH))
    distinct, where = np.unique(values[maybe], return_inverse=True)
    numbers = [_as_number(text) for text in distinct.tolist()]
    known = np.array([number is not None for number in numbers], bool)
    table = np.zeros(len(distinct), np.uint64)
    for kind in (int, float):
        places = [i for i, number in enumerate(numbers) if type(number) is kind]
        table[places] = hash_values(np.array([numbers[i] for i in places], kind))
    rows = known[where]
    hashed[maybe[rows]] = table[where[rows]]
    return hashed


def _as_number(text: str) -> int | float | None:
    """Return the number if the text is exactly how it is written."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and (kind is float or -(2**63) <= number < 2**63):
            return number
    return None


def _hash_text(values: np.ndarray) -> np.ndarray:
    """Hash characters with FNV-1a; NumPy's padding is skipped, so the width does not matter."""
    unit = np.uint32 if values.dtype.kind == "U" else np.uint8
    characters = np.ascontiguousarray(values).view(unit).reshape(len(values), -1)
    codes = characters.astype(np.uint64)
    hashed = np.full(len(values), 0xCBF29CE484222325, np.uint64)
    for column in codes.T:
        step = (hashed ^ column) * np.uint64(0x100000001B3)
        hashed = np.where(column != 0, step, hashed)
    return _mix(hashed)


def _hash_long_text(values: np.ndarray) -> np.ndarray:
    """Hash Python strings of any length: each distinct one once, similar lengths together."""
    distinct = sorted(set(values.tolist()), key=len)
    hashes: list[int] = []
    while len(hashes) < len(distinct):
        start = len(hashes)
        rows = max(1, _CHARACTERS // max(1, len(distinct[start])))
        part = distinct[start : start + rows]
        # One long string among short ones would make all of them wide.
        part = [text for text in part if len(text) <= 2 * len(part[0]) + 16]
        hashes += _hash_texts(np.array(part, dtype=str)).tolist()
    table = dict(zip(distinct, hashes, strict=True))
    return np.array([table[text] for text in values.tolist()], dtype=np.uint64)


def _mix(bits: np.ndarray) -> np.ndarray:
    """Mix with SplitMix64 (Steele, Lea & Flood 2014): neighbouring numbers land far apart."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
