"""The label set of a corpus: the tags of training, and types that only other splits have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from calibrant.errors import InputError, unknown_name
from calibrant.tasks.language.sentences import Sentence

__all__ = ["UNSEEN", "all_labels", "check_tags", "label_set", "without_tags"]

UNSEEN = ("keep", "drop", "error")  # What happens to types that training does not have.


def label_set(
    train: Sequence[Sentence], others: Iterable[Sequence[Sentence]] = ()
) -> tuple[str, ...]:
    """Return the tags of ``train``, O first, and tags of its types that only ``others`` have.

    >>> train = [Sentence(("Anna", "sings"), ("B-PER", "O"))]
    >>> label_set(train, [[Sentence(("Anna", "Lund"), ("B-PER", "I-PER"))]])
    ('O', 'B-PER', 'I-PER')
    """
    seen = {tag for sentence in train for tag in sentence.tags} - {"O"}
    types = {tag[2:] for tag in seen}
    elsewhere = {tag for part in others for sentence in part for tag in sentence.tags} - {"O"}
    seen |= {tag for tag in elsewhere if tag[2:] in types}
    return ("O", *sorted(seen, key=lambda tag: (tag[2:], tag[0])))


def all_labels(
    parts: dict[str, Sequence[Sentence]], unseen: str, notes: list[str]
) -> tuple[str, ...]:
    """Return the label set; types that training does not have are kept, or dropped."""
    if unseen not in UNSEEN:
        raise unknown_name("treatment of unseen types", unseen, UNSEEN)
    known = label_set(parts.get("train", ()), parts.values())
    types = {tag[2:] for tag in known}
    more = {
        tag
        for split in ("dev", "test")
        for sentence in parts.get(split, ())
        for tag in sentence.tags
        if tag != "O" and tag[2:] not in types
    }
    if not more or unseen == "error":
        return known
    names = ", ".join(sorted({tag[2:] for tag in more}))
    if unseen == "drop":
        for split in {"dev", "test"} & set(parts):
            parts[split] = [without_tags(sentence, more) for sentence in parts[split]]
        notes.append(f"Types that training does not have became O: {names}.")
        return known
    notes.append(
        f"Types that training does not have cannot be found, and count as missed: {names}."
    )
    return (*known, *sorted(more, key=lambda tag: (tag[2:], tag[0])))


def without_tags(sentence: Sentence, tags: set[str]) -> Sentence:
    """Return a sentence whose entities of these tags are no entities."""
    types = {tag[2:] for tag in tags}
    pairs = zip(sentence.tags, sentence.unfit, strict=False)
    return replace(
        sentence,
        tags=tuple("O" if tag in tags else tag for tag in sentence.tags),
        spans=tuple(span for span in sentence.spans if span[2] not in types),
        unfit=tuple(0 if tag in tags else count for tag, count in pairs),
    )


def check_tags(parts: Mapping[str, Sequence[Sentence]], labels: Sequence[str], where: str) -> None:
    """Raise an error that names the first word whose tag is not in the label set."""
    known = set(labels)
    for split, sentences in parts.items():
        for number, sentence in enumerate(sentences, start=1):
            unknown = next((t for t in sentence.tags if t not in known), None)
            if unknown is not None:
                place = sentence.tags.index(unknown)
                raise InputError(
                    f"{where}, {split} split, sentence {number}, word {place + 1} "
                    f"('{sentence.words[place]}'): tag '{unknown}' does not occur in the training "
                    f"split, whose tags are {', '.join(labels)}; add it there, pass the "
                    "label set, or keep or drop such types."
                )
