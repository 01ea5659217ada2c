"""Named entity recognition: a corpus and its tags, from files, a catalogue or the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.tasks.annotations import TAGS, WORDS, read_jsonl, tagged
from calibrant.tasks.catalogue import CORPORA, find_folder
from calibrant.tasks.conll import read_conll
from calibrant.tasks.hub import check_name, column, is_saved, load_hub, load_saved, names_of
from calibrant.tasks.sentences import Sentence, to_bio
from calibrant.tasks.splits import complete, split_files
from calibrant.tasks.synthetic import generate_splits

__all__ = ["SYNTHETIC", "NerCorpus", "find_corpus", "label_set", "load_corpus", "load_test"]

SYNTHETIC = "synthetic"  # The embedded corpus.
_READERS: dict[str, Callable[[Path], list[Sentence]]] = {
    **dict.fromkeys((".conll", ".txt", ".tsv", ".bio", ".iob", ".conll.gz"), read_conll),
    **dict.fromkeys((".jsonl", ".jsonl.gz"), read_jsonl),
}


@dataclass(frozen=True, eq=False)
class NerCorpus:
    """The sentences of each split. ``notes`` says aloud what was done to the files.

    ``ood`` is an out-of-domain part to test on, where there is one. ``given`` is a label set that
    takes the place of the tags found in training.
    """

    name: str
    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    test: Sequence[Sentence]
    notes: tuple[str, ...] = ()
    ood: Sequence[Sentence] = ()
    given: tuple[str, ...] = field(default=(), repr=False)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The tags of the training split, O first, unless a label set was given."""
        return self.given or label_set(self.train, (self.dev, self.test, self.ood))


def label_set(
    train: Sequence[Sentence], others: Iterable[Sequence[Sentence]] = ()
) -> tuple[str, ...]:
    """The tags of ``train``, O first, with the B- or I- of its types that only ``others`` have.

    >>> train = [Sentence(("Anna", "sings"), ("B-PER", "O"))]
    >>> label_set(train, [[Sentence(("Anna", "Lund"), ("B-PER", "I-PER"))]])
    ('O', 'B-PER', 'I-PER')
    """
    seen = {tag for sentence in train for tag in sentence.tags} - {"O"}
    types = {tag[2:] for tag in seen}
    elsewhere = {tag for part in others for sentence in part for tag in sentence.tags} - {"O"}
    seen |= {tag for tag in elsewhere if tag[2:] in types}
    return ("O", *sorted(seen, key=lambda tag: (tag[2:], tag[0])))


def load_corpus(
    name: str,
    directory: str | Path | None = None,
    seed: int = 0,
    labels: Sequence[str] | None = None,
) -> NerCorpus:
    """A corpus by name: a folder, a name of the catalogue, ``synthetic``, or a name on the hub.

    A folder holds train, (dev) and test files, as CoNLL, jsonl or saved by the ``datasets``
    library. A name is looked up in ``directory`` (or CALIBRANT_DATA), then on the hub. A missing
    validation split is carved from the training split, seeded, and noted. ``labels`` is the label
    set where the training split does not have all tags.
    """
    parts, where = _parts(name, directory, seed)
    notes = []
    for split, sentences in parts.items():
        kept = [sentence for sentence in sentences if len(sentence)]
        if len(kept) < len(sentences):
            notes.append(f"{len(sentences) - len(kept):,} empty sentences of {split} left out.")
        parts[split] = kept
    if labels is None:  # Before carving: what is carved holds no tag that training has not.
        labels = label_set(parts.get("train", ()), parts.values())
    full, carved = complete(parts, where, seed)
    corpus = NerCorpus(
        name,
        full["train"],
        full["dev"],
        full["test"],
        notes=(*notes, *carved),
        ood=full.get("ood", ()),
        given=tuple(labels),
    )
    _check_tags(corpus, where)
    return corpus


def find_corpus(name: str, directory: str | Path | None = None) -> Path | None:
    """The folder of a corpus; None for what is embedded or may be on the hub. Nothing is read.

    >>> find_corpus("synthetic") is None
    True
    """
    if name == SYNTHETIC:
        return None
    folder = find_folder(name, "ner", directory)
    entry = CORPORA.get(name)
    if folder is None and entry is not None and entry.hub is None:
        raise InputError(
            f"Corpus '{name}' is not under a data directory: pass one, or set CALIBRANT_DATA. "
            + entry.hint
        )
    if folder is None and entry is None and "/" not in name:
        raise unknown_name(
            "corpus",
            name,
            (*CORPORA, SYNTHETIC),
            "A folder with train and test files, or owner/name on the hub, works too.",
        )
    if folder is None and entry is None:
        check_name(name)
    return folder


def load_test(name: str, directory: str | Path | None = None) -> list[Sentence]:
    """The test split alone of a corpus, whatever its tags, or the sentences of one file."""
    path = Path(name)
    if path.is_file():
        sentences: Sequence[Sentence] = _read_file(path)
    else:
        parts, where = _parts(name, directory, 0)
        if "test" not in parts:
            raise InputError(f"{where} has no test split; found: {', '.join(parts) or 'none'}.")
        sentences = parts["test"]
    return [sentence for sentence in sentences if len(sentence)]


def _parts(
    name: str, directory: str | Path | None, seed: int
) -> tuple[dict[str, Sequence[Sentence]], str]:
    """The sentences of each split that there is, and where they come from."""
    if name == SYNTHETIC:
        return dict(generate_splits(seed)), name
    folder = find_corpus(name, directory)
    if folder is not None:
        return _read_folder(folder), str(folder)
    entry = CORPORA.get(name)
    return _from_tables(load_hub(name if entry is None or entry.hub is None else entry.hub)), name


def _read_file(path: Path) -> list[Sentence]:
    for suffix, read in _READERS.items():
        if path.name.lower().endswith(suffix):
            return read(path)
    raise InputError(f"{path} is no file of sentences: expected {', '.join(_READERS)}.")


def _read_folder(folder: Path) -> dict[str, Sequence[Sentence]]:
    files = split_files(folder, _READERS)
    if files:
        return {split: _read_file(path) for split, path in files.items()}
    if is_saved(folder):
        return _from_tables(load_saved(folder))
    raise InputError(
        f"{folder} has no train and test files: expected train.conll, train.jsonl, or a data set "
        "that the datasets library saved."
    )


def _from_tables(tables: dict[str, Any]) -> dict[str, Sequence[Sentence]]:
    return {split: _from_table(table, split) for split, table in tables.items()}


def _from_table(table: Any, split: str) -> list[Sentence]:
    """The sentences of a table with a column of words and one of tags, as numbers or text."""
    words, tags = column(table, WORDS, split), column(table, TAGS, split)
    names = names_of(table, tags)
    sentences = []
    for number, (row, marks) in enumerate(zip(table[words], table[tags], strict=True), start=1):
        if names is not None:
            marks = [names[mark] for mark in marks]
        elif any(isinstance(mark, int) for mark in marks):
            raise InputError(
                f"{split}: '{tags}' holds numbers without names; save them as text, or as a "
                "ClassLabel of the datasets library."
            )
        sentences.append(tagged(row, marks, f"{split}, sentence {number}"))
    return to_bio(sentences)


def _check_tags(corpus: NerCorpus, where: str) -> None:
    known = set(corpus.labels)
    for split in ("train", "dev", "test", "ood"):
        for number, sentence in enumerate(getattr(corpus, split), start=1):
            unknown = next((t for t in sentence.tags if t not in known), None)
            if unknown is not None:
                place = sentence.tags.index(unknown)
                raise InputError(
                    f"{where}, {split} split, sentence {number}, word {place + 1} "
                    f"('{sentence.words[place]}'): tag '{unknown}' does not occur in the training "
                    f"split, whose tags are {', '.join(corpus.labels)}; add it there, or pass "
                    "the label set."
                )
