"""Label names of sequence taggers: prefix and entity type of each tag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.errors import InputError

__all__ = ["BEGIN", "END", "INSIDE", "OUTSIDE", "SINGLE", "TagSet", "is_bio"]

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
# BIOES and BILOU are equivalent: L(ast) is E(nd), U(nit) is S(ingle).
_PREFIXES = {"B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE, "L": END, "U": SINGLE}
_NO_TYPE = "_"  # seqeval's name for the type of a bare "B" or "I".


@dataclass(frozen=True, eq=False)
class TagSet:
    """The prefix (one of OUTSIDE … SINGLE) and the type number of each of K tags; O has type −1.

    ``types`` are the entity types in alphabetical order, as seqeval lists them. IOB1 and IOB2 use
    the same tags, so label names cannot distinguish them; the default reading accepts both.

    >>> tags = TagSet.of(["O", "B-PER", "I-PER", "B-LOC"])
    >>> tags.types, tags.type.tolist(), tags.prefix.tolist()
    (('LOC', 'PER'), [-1, 1, 1, 0], [0, 1, 2, 1])
    """

    types: tuple[str, ...]
    prefix: np.ndarray
    type: np.ndarray

    @classmethod
    def of(cls, label_names: Sequence[str] | None) -> TagSet:
        """Parse ``label_names``, or raise an error that names the first that is not a tag."""
        if not label_names:
            raise InputError(
                "Entity metrics need label names such as O, B-PER, I-PER; these predictions have "
                "none: pass label_names."
            )
        parsed = [_parse(str(name)) for name in label_names]
        wrong = [n for n, tag in zip(label_names, parsed, strict=True) if tag is None]
        if wrong or "O" not in label_names:
            what = f"'{wrong[0]}' is not a tag" if wrong else "there is no 'O'"
            raise InputError(
                f"Entity metrics need tags in the scheme BIO (IOB1, IOB2), BIOES or BILOU; {what}."
            )
        tags = [tag for tag in parsed if tag is not None]
        types = sorted({kind for prefix, kind in tags if prefix != OUTSIDE})
        number = {kind: i for i, kind in enumerate(types)}
        return cls(
            tuple(types),
            np.array([prefix for prefix, _ in tags], np.int8),
            np.array([number.get(k, -1) if p != OUTSIDE else -1 for p, k in tags], np.int64),
        )

    @property
    def bioes(self) -> bool:
        """Whether ends are marked: BIOES or BILOU rather than BIO."""
        return bool(np.isin(self.prefix, (END, SINGLE)).any())


def is_bio(label_names: Sequence[str] | None) -> bool:
    """Whether the label names are tags: an O, and every other name B-, I- (or E-, S-, L-, U-).

    >>> is_bio(["O", "B-PER", "I-PER"]), is_bio(["cat", "dog"]), is_bio(None)
    (True, False, False)
    """
    if label_names is None:
        return False
    check_kind("is_bio", label_names, list, tuple)
    if "O" not in label_names:
        return False
    tags: list[Any] = [_parse(str(name)) for name in label_names]
    return None not in tags and any(prefix in (BEGIN, INSIDE) for prefix, _ in tags)


def _parse(name: str) -> tuple[int, str] | None:
    if name == "O":
        return OUTSIDE, ""
    prefix = _PREFIXES.get(name[:1])
    if prefix is None or (len(name) > 1 and name[1] != "-"):
        return None
    return prefix, name[2:] or _NO_TYPE
