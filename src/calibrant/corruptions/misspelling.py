"""Misspell one word: keyboard neighbours, OCR, casing, dropped and swapped letters.

Each function takes a word, which of its characters are hit, and a uniform draw in [0, 1) for each;
it returns the misspelled word. Characters are code points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

__all__ = ["case", "drop", "lower", "misread", "mistype", "swap", "upper"]

T = TypeVar("T")

_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
# Characters that OCR confuses, in one direction or in both.
_MISREAD = {
    "0": ("O", "o"), "O": ("0", "Q", "D"), "o": ("0", "c"), "Q": ("O",), "D": ("O",),
    "1": ("l", "I"), "l": ("1", "I", "i"), "I": ("l", "1"), "i": ("l", "j"), "j": ("i",),
    "5": ("S",), "S": ("5",), "s": ("5",), "8": ("B",), "B": ("8", "R"), "6": ("b",),
    "b": ("6", "h"),
    "9": ("g",), "g": ("9", "q"), "q": ("g",), "2": ("Z",), "Z": ("2",), "z": ("2",),
    "e": ("c",), "c": ("e", "o"), "h": ("b",), "n": ("r", "u"), "u": ("n", "v"), "v": ("u", "y"),
    "f": ("t",), "t": ("f", "l"), "a": ("o",), "E": ("F",), "F": ("P",), "P": ("F",), "G": ("C",),
    "C": ("G",), "U": ("V",), "V": ("U",), "R": ("B",), "y": ("v",),
    "m": ("rn", "nn"), "rn": ("m",), "nn": ("m",), "d": ("cl",), "cl": ("d",), "w": ("vv",),
    "vv": ("w",), "ri": ("n",), "W": ("VV",), ",": (".",), ".": (",",),
}  # fmt: skip


def _neighbours() -> dict[str, str]:
    """Return the keys that touch each key of a QWERTY keyboard, whose rows shift by half a key."""
    found: dict[str, str] = {}
    for number, row in enumerate(_ROWS):
        for place, key in enumerate(row):
            near = [row[place - 1 : place], row[place + 1 : place + 2]]
            if number > 0:
                near.append(_ROWS[number - 1][place : place + 2])
            if number + 1 < len(_ROWS):
                near.append(_ROWS[number + 1][max(0, place - 1) : place + 1])
            found[key] = "".join(near)
    return found


_NEIGHBOURS = _neighbours()


def mistype(word: str, hit: np.ndarray, draws: np.ndarray) -> str:
    """Replace each hit letter or digit by a neighbouring key; the case stays.

    >>> mistype("Anna", np.array([False, True, False, False]), np.full(4, 0.0))
    'Abna'
    """
    letters = list(word)
    for place in np.flatnonzero(hit).tolist():
        near = _NEIGHBOURS.get(letters[place].lower())
        if near:
            new = _choose(near, draws[place])
            letters[place] = new.upper() if letters[place].isupper() else new
    return "".join(letters)


def misread(word: str, hit: np.ndarray, draws: np.ndarray) -> str:
    """Replace each hit character, or pair, by a common misreading: O for 0, rn for m.

    >>> misread("modern", np.array([True, False, False, False, True, False]), np.zeros(6))
    'rnodem'
    """
    made, place = [], 0
    while place < len(word):
        seen = dict.fromkeys((word[place : place + 2], word[place])) if hit[place] else ()
        options = [(old, new) for old in seen for new in _MISREAD.get(old, ())]
        old, new = _choose(options, draws[place]) if options else (word[place],) * 2
        made.append(new)
        place += len(old)
    return "".join(made)


def drop(word: str, hit: np.ndarray, draws: np.ndarray) -> str:  # noqa: ARG001
    """Remove the hit characters; keep the first if none would be left.

    >>> drop("Paris", np.array([False, True, False, False, True]), np.zeros(5))
    'Pri'
    """
    return "".join(c for c, gone in zip(word, hit.tolist(), strict=True) if not gone) or word[:1]


def swap(word: str, hit: np.ndarray, draws: np.ndarray) -> str:  # noqa: ARG001
    """Move each hit character behind the next one; a moved character does not move again.

    >>> swap("Paris", np.array([False, True, True, False, True]), np.zeros(5))
    'Prais'
    """
    letters, place = list(word), 0
    while place + 1 < len(letters):
        if hit[place]:
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
            place += 1
        place += 1
    return "".join(letters)


def lower(word: str, hit: np.ndarray, draws: np.ndarray) -> str:  # noqa: ARG001
    """Make all letters lower case.

    >>> lower("Łódź", np.ones(4, bool), np.zeros(4))
    'łódź'
    """
    return word.lower()


def upper(word: str, hit: np.ndarray, draws: np.ndarray) -> str:  # noqa: ARG001
    """Make all letters upper case.

    >>> upper("Łódź", np.ones(4, bool), np.zeros(4))
    'ŁÓDŹ'
    """
    return word.upper()


def case(word: str, hit: np.ndarray, draws: np.ndarray) -> str:
    """Make all letters lower case, all upper case, or each at random: a third each.

    >>> [case("Paris", np.ones(5, bool), np.full(5, draw)) for draw in (0.1, 0.4)]
    ['paris', 'PARIS']
    >>> case("Paris", np.ones(5, bool), np.array([0.7, 0.1, 0.3, 0.2, 0.0]))
    'PAriS'
    """
    which = int(3 * draws[0])
    if which < 2:
        return (lower, upper)[which](word, hit, draws)
    capital = (3 * draws % 1 < 0.5).tolist()  # Uniform and independent of the first draw's outcome.
    return "".join(c.upper() if up else c.lower() for c, up in zip(word, capital, strict=True))


def _choose(options: Sequence[T], draw: float) -> T:
    return options[int(draw * len(options))]
