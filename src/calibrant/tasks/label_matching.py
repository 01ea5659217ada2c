"""Match the classes of a fine-tuned model with those of a corpus.

A model may have other names for its classes (PERSON for PER), split them further (GPE and LOC for
LOC) or tag in another scheme (BILOU for BIO). ``mapping`` names the counterparts. A class of the
corpus without a counterpart is an error that lists both sides; nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from calibrant.errors import InputError
from calibrant.inputs import shortened
from calibrant.predictions import IGNORED

__all__ = [
    "in_tags_of",
    "match_classes",
    "match_tags",
    "parse_labels",
    "renumbered",
    "usual_spelling",
]

# How a word is tagged in BIO: L(ast), E(nd) and M(iddle) are inside, U(nit), S(ingle) and W(hole)
# begin.
_PREFIXES = {"B": "B", "I": "I", "L": "I", "E": "I", "M": "I", "U": "B", "S": "B", "W": "B"}
_SPELLINGS = (  # B_PER and b-PER; PER-B and PER_B. Some taggers and old scripts write these.
    re.compile(r"(?P<letter>[BILEMUSW])[-_](?P<kind>.+)", re.IGNORECASE),
    re.compile(r"(?P<kind>.+)[-_](?P<letter>[BILEMUSW])", re.IGNORECASE),
)
_SHOWN = 400  # Characters of a list of labels in an error.


def parse_labels(pairs: str) -> dict[str, str]:
    """Read ``MODEL=CORPUS,MODEL=CORPUS``.

    >>> parse_labels("PERSON=PER,GPE=LOC")
    {'PERSON': 'PER', 'GPE': 'LOC'}
    """
    found: dict[str, str] = {}
    for pair in pairs.split(","):
        own, equals, name = (part.strip() for part in pair.partition("="))
        if not own or not equals or not name:
            raise InputError(f"Labels must have the form MODEL=CORPUS,…, got '{pair}'.")
        if found.get(own, name) != name:
            raise InputError(f"The label '{own}' has two names: '{found[own]}' and '{name}'.")
        found[own] = name
    return found


def match_classes(
    own: Sequence[str], corpus: Sequence[str], mapping: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the corpus' name of each class of a model.

    A model with one output has two classes, the negative and the positive one.

    >>> match_classes(["spam"], ["ham", "spam"], {})
    ('ham', 'spam')
    >>> match_classes(["NEGATIVE", "POSITIVE"], ["neg", "pos"], {"NEGATIVE": "neg"})
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: The model has no class 'pos' of the corpus. The model has ...
    """
    _check_known(mapping, own)
    names = tuple(mapping.get(name, name) for name in own)
    if len(own) == 1:
        return _match_positive(own[0], names[0], corpus)
    _check_covered(names, own, corpus, mapping, "class")
    return names


def _match_positive(own: str, name: str, corpus: Sequence[str]) -> tuple[str, ...]:
    """Return the negative and the positive class of a model with one output."""
    if name == "LABEL_0" and set(corpus) == {"0", "1"}:  # transformers' name of a nameless output.
        name = "1"
    if name in corpus and len(corpus) == 2:
        return tuple(sorted(corpus, key=name.__eq__))
    known = f"The model has one output, '{own}': the probability of one class against another."
    if len(corpus) != 2:
        raise InputError(f"{known} The corpus has {len(corpus)} classes: {_listed(corpus)}.")
    raise InputError(
        f"{known} Name that class of the corpus, which has {_listed(corpus)}: "
        f"--labels {own}={corpus[-1]}."
    )


def usual_spelling(own: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a model as ``B-PER``, if all are ``B_PER``, ``b-PER`` or ``PER-B``.

    Other names stay as they are. A type that has two letters shows that they are tags, not types.

    >>> usual_spelling(["O", "B_PER", "I_PER"]), usual_spelling(["LOC-B", "LOC-I", "o"])
    (('O', 'B-PER', 'I-PER'), ('B-LOC', 'I-LOC', 'O'))
    >>> usual_spelling(["O", "B_cell", "T_cell"])
    ('O', 'B_cell', 'T_cell')
    """
    for spelling in _SPELLINGS:
        found = [spelling.fullmatch(name) for name in own]
        tags = [f"{m['letter'].upper()}-{m['kind']}" if m else "" for m in found]
        kinds = Counter(tag[2:] for tag in {*tags} - {""})
        if max(kinds.values(), default=0) > 1 and all(
            tag or name in ("O", "o") for tag, name in zip(tags, own, strict=True)
        ):
            return tuple(tag or "O" for tag in tags)
    return tuple(own)


def match_tags(
    own: Sequence[str],
    corpus: Sequence[str],
    mapping: Mapping[str, str],
    *,
    drop: bool = False,
    join: bool = False,
) -> tuple[str, ...]:
    """Return the tag of each class of a model in BIO, or in IO if the model has no B-.

    ``mapping`` names types or whole tags. ``corpus`` are the tags of the corpus. Types that the
    model lacks are an error, unless ``drop``. ``join`` makes B- and I- one, for models whose B-
    only separates entities that touch (IOB1).

    >>> match_tags(["O", "U-PERSON", "L-GPE"], ["O", "B-PER"], {"PERSON": "PER", "GPE": "O"})
    ('O', 'B-PER', 'O')
    >>> match_tags(["O", "PER"], ["O", "B-PER", "I-PER"], {})
    ('O', 'I-PER')
    """
    usual = dict(zip(own, usual_spelling(own), strict=True))
    own = tuple(usual.values())
    mapping = {usual.get(name, name): given for name, given in mapping.items()}
    bare = not any(name[:2] in {f"{letter}-" for letter in _PREFIXES} for name in own)
    _check_known(mapping, (*own, *(_parted(name, bare)[1] for name in own)))
    tags = [_tag(name, mapping, bare) for name in own]
    if join:
        tags = [tag if tag == "O" else f"I-{tag[2:]}" for tag in tags]
    if "O" not in tags:
        raise InputError(
            f"The model has no class O for words outside of entities; it has {_listed(own)}. Name "
            "the class that means it: --labels MODEL=O."
        )
    types = sorted({tag[2:] for tag in tags} - {""})
    wanted = sorted({tag[2:] for tag in corpus} - {""})
    if not drop or not set(types) & set(wanted):
        own_types = tuple(dict.fromkeys(_parted(name, bare)[1] for name in own if name != "O"))
        _check_covered(types, own_types, wanted, mapping, "entity type")
    _check_inside(set(tags), corpus, types)
    return tuple(tags)


def in_tags_of(labels: Iterable[str], tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a sentence, with I- for B- where the labels have no B-.

    >>> in_tags_of(("O", "I-PER"), ("B-PER", "I-PER", "O", "B-LOC"))
    ('I-PER', 'I-PER', 'O', 'B-LOC')
    """
    known = set(labels)
    joined = {f"B-{t[2:]}": t for t in known if t[:2] == "I-" and f"B-{t[2:]}" not in known}
    return tuple(joined.get(tag, tag) for tag in tags)


def renumbered(
    classes: Mapping[str, Sequence[int]], before: Sequence[str], labels: Sequence[str]
) -> dict[str, list[int]]:
    """Return the classes of each split as numbers of other ``labels``; −100 stays.

    >>> renumbered({"test": [0, 1, -100]}, ("a", "b"), ("b", "c", "a"))
    {'test': [2, 0, -100]}
    """
    number = {old: list(labels).index(name) for old, name in enumerate(before)}
    return {s: [number.get(int(c), IGNORED) for c in part] for s, part in classes.items()}


def _tag(name: str, mapping: Mapping[str, str], bare: bool) -> str:
    given = mapping.get(name, "")
    if given[:2] in ("B-", "I-"):
        return given
    prefix, kind = _parted(name, bare)
    kind = given or mapping.get(kind, kind)
    return "O" if kind == "O" else f"{prefix}-{kind}"


def _parted(name: str, bare: bool) -> tuple[str, str]:
    """Return prefix and type of a class; a model without prefixes has only I-."""
    prefix = _PREFIXES.get(name[:1])
    if bare or prefix is None or name[1:2] != "-":
        return "I", name
    return prefix, name[2:]


def _check_known(mapping: Mapping[str, str], own: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(own))
    unknown = next((name for name in mapping if name not in known), None)
    if unknown is not None:
        raise InputError(
            f"--labels names '{unknown}', which is not a class of the model: it has "
            f"{_listed(known)}."
        )


def _check_covered(
    names: Sequence[str],
    own: Sequence[str],
    corpus: Sequence[str],
    mapping: Mapping[str, str],
    what: str,
) -> None:
    """Raise an error for a name of the corpus that no class of the model has."""
    missing = [name for name in corpus if name not in names]
    if not missing:
        return
    free = [name for name in own if mapping.get(name, name) not in corpus]
    example = _likely(free, missing) or f"{free[0] if free else 'MODEL'}={missing[0]}"
    shown = ", ".join(f"'{name}'" for name in missing[:3]) + ", …" * (len(missing) > 3)
    raise InputError(
        f"The model has no {what} {shown} of the corpus. The model has {_listed(own)}; the corpus "
        f"has {_listed(corpus)}. Name the pairs: --labels {example}."
    )


def _check_inside(tags: set[str], corpus: Sequence[str], types: Sequence[str]) -> None:
    """Refuse a model that cannot continue an entity if the corpus has longer ones."""
    lacking = next((t for t in corpus if t[:2] == "I-" and t[2:] in types and t not in tags), None)
    if lacking is not None:
        raise InputError(
            f"The model has no tag {lacking} for the further words of an entity: it has "
            f"{_listed(sorted(tags))}. Name the class that means it: --labels MODEL={lacking}."
        )


def _likely(free: Sequence[str], missing: Sequence[str]) -> str:
    """Propose pairs whose names begin alike, or end in the same number."""
    pairs = {}
    for name in missing:
        alike = [own for own in free if own not in pairs and _alike(own.lower(), name.lower())]
        if len(alike) == 1:
            pairs[alike[0]] = name
    return ",".join(f"{own}={name}" for own, name in list(pairs.items())[:8])


def _alike(own: str, name: str) -> bool:
    return own.startswith(name) or name.startswith(own) or own == f"label_{name}"


def _listed(names: Iterable[str]) -> str:
    return shortened(", ".join(names), _SHOWN) or "none"
