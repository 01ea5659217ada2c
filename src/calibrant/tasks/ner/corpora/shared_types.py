"""Entity types that two corpora share, so that a model of one can be tested on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.errors import InputError
from calibrant.tasks.label_matching import in_tags_of
from calibrant.tasks.language.sentences import Sentence

__all__ = ["ALIASES", "in_types_of", "shared_types"]

# Names of corpora for the same type, in lower case. Other types are compared by their own name.
ALIASES = {
    "person": "per",
    "location": "loc",
    "place": "loc",
    "organization": "org",
    "organisation": "org",
    "corporation": "org",
    "group": "org",
    "miscellaneous": "misc",
}


def shared_types(types: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Find the counterpart among ``types`` of each of the ``others`` that has one.

    It has the same name, ignoring case, or means the same by :data:`ALIASES`. If several of
    ``types`` do, none is chosen: ORG may be a corporation, or a group.

    >>> shared_types(["LOC", "MISC", "ORG", "PER"], ["person", "corporation", "group", "product"])
    {'person': 'PER', 'corporation': 'ORG', 'group': 'ORG'}
    >>> shared_types(["person", "corporation", "group"], ["PER", "ORG"])
    {'PER': 'person'}
    """
    found = {}
    for other in others:
        same = [kind for kind in types if kind.lower() == other.lower()]
        alike = same or [kind for kind in types if _meaning(kind) == _meaning(other)]
        if len(alike) == 1:
            found[other] = alike[0]
    return found


def in_types_of(
    labels: Sequence[str], sentences: Sequence[Sentence], where: str
) -> tuple[list[Sentence], list[list[bool]]]:
    """Return the sentences with tags of ``labels``, and whether each word can be judged.

    A word whose type has no counterpart is tagged O and marked as not to be judged: a model that
    knows no products is neither right nor wrong about one.

    >>> labels = ["O", "B-PER", "I-PER"]
    >>> post = Sentence(("Anna", "loves", "Nutella"), ("B-person", "O", "B-product"))
    >>> sentences, judged = in_types_of(labels, [post], "wnut17")
    >>> sentences[0].tags, judged
    (('B-PER', 'O', 'O'), [[True, True, False]])
    """
    known, ours = set(labels), sorted({tag[2:] for tag in labels} - {""})
    theirs = sorted({tag[2:] for sentence in sentences for tag in sentence.tags} - {""})
    types = shared_types(ours, theirs)
    if not types:
        raise InputError(
            f"{where} shares no entity type with the training corpus: it has "
            f"{', '.join(theirs) or 'none'}, training has {', '.join(ours) or 'none'}."
        )
    new = {
        f"{p}-{other}": in_tags_of(labels, [f"{p}-{kind}"])[0]
        for other, kind in types.items()
        for p in "BI"
    }
    # A tag that training never showed cannot be predicted either: an I- where there are only B-.
    new = {"O": "O", **{tag: mapped for tag, mapped in new.items() if mapped in known}}
    judged = [[tag in new for tag in s.tags] for s in sentences]
    mapped = [
        replace(
            s,
            tags=tuple(new.get(tag, "O") for tag in s.tags),
            unfit=tuple(n if judge else 0 for n, judge in zip(s.unfit, judges, strict=False)),
        )
        for s, judges in zip(sentences, judged, strict=True)
    ]
    return mapped, judged


def _meaning(kind: str) -> str:
    return ALIASES.get(kind.lower(), kind.lower())
