"""Named entity recognition: a corpus and its tags, from files, a catalogue or the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.inputs import nearest_path
from calibrant.tasks.language.detokenise import Detokeniser
from calibrant.tasks.language.marked_text import ends_note, recut, without_blanks
from calibrant.tasks.language.sentences import Sentence, to_bio
from calibrant.tasks.language.splitter_choice import Cutting, choose_cutting, restored
from calibrant.tasks.language.synthetic import generate_splits
from calibrant.tasks.ner.corpora import CORPORA
from calibrant.tasks.ner.corpora.annotations import TAGS, WORDS, tagged
from calibrant.tasks.ner.corpora.label_sets import all_labels, check_tags, label_set
from calibrant.tasks.ner.corpora.sentence_files import corpus_files, read_sentences
from calibrant.tasks.reading.catalogue import find_folder
from calibrant.tasks.reading.hub import (
    check_name,
    class_name,
    column,
    is_saved,
    load_hub,
    load_saved,
    names_of,
)
from calibrant.tasks.reading.splits import complete, for_wrapping, pairs_of

__all__ = [
    "SYNTHETIC",
    "NerCorpus",
    "cut_as",
    "find_corpus",
    "given_corpus",
    "label_set",
    "load_corpus",
    "load_test",
]

SYNTHETIC = "synthetic"  # The embedded corpus.


@dataclass(frozen=True, eq=False)
class NerCorpus:
    """The sentences of each split. ``notes`` says what was done to the files.

    ``ood`` is an out-of-domain part to test on, where there is one. ``given`` is a label set that
    takes the place of the tags found in training. ``marked`` is how texts with marked entities were
    cut into words, where the corpus has some.
    """

    name: str
    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    test: Sequence[Sentence]
    notes: tuple[str, ...] = ()
    ood: Sequence[Sentence] = ()
    given: tuple[str, ...] = field(default=(), repr=False)
    marked: Cutting | None = field(default=None, repr=False)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The tags of the training split, O first, unless a label set was given."""
        return self.given or label_set(self.train, (self.dev, self.test, self.ood))

    @cached_property
    def detokeniser(self) -> Detokeniser:
        """The detokeniser of the corpus, learned from the training split."""
        return Detokeniser.learn(sentence.words for sentence in self.train)

    @cached_property
    def cutting(self) -> Cutting:
        """How raw text is cut as the corpus is."""
        return self.marked or choose_cutting(self.train, self.detokeniser)

    def as_raw_text(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Join the words of sentences to texts, and cut these as raw texts are cut."""
        marked = [restored(sentence, self.detokeniser)[0] for sentence in sentences]
        return cut_as(marked, self.cutting)


def load_corpus(
    name: str,
    directory: str | Path | None = None,
    seed: int = 0,
    labels: Sequence[str] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    unseen: str = "keep",
    trained: bool = False,
) -> NerCorpus:
    """Load a corpus by name: a folder, a known name, ``synthetic``, or a name on the hub.

    A folder holds train, (dev) and test files, as CoNLL, jsonl or saved by the ``datasets``
    library; or ``files`` names the file of each split. A name is looked up in ``directory`` (or
    CALIBRANT_DATA), then on the hub. A missing validation split is carved from the training split,
    seeded, and noted. ``labels`` is the label set where the training split does not have all tags.
    Without it, entity types that training does not have are kept, as entities that cannot be found;
    or dropped, so that their words are O; or an error. A model that is ``trained`` already needs
    validation and test data, and nothing is carved for it.
    """
    parts, where = _named_files(files) if files else _parts(name, directory, seed)
    if trained:
        parts = for_wrapping(parts, where)
    notes: list[str] = []
    parts = _with_words(parts, notes)
    for split, sentences in parts.items():
        kept = [sentence for sentence in sentences if len(sentence)]
        if len(kept) < len(sentences):
            notes.append(f"{len(sentences) - len(kept):,} empty sentences of {split} left out.")
        parts[split] = kept
    parts, marked = _cut(parts, notes)
    if labels is None and trained:
        labels = label_set([sentence for part in parts.values() for sentence in part])
    elif labels is None:  # Before carving: the carved part has no tag that training lacks.
        labels = all_labels(parts, unseen, notes)
    full, carved = complete(parts, where, seed, hint="; name the files: --train FILE --test FILE")
    corpus = NerCorpus(
        name,
        full["train"],
        full["dev"],
        full["test"],
        notes=(*notes, *carved),
        ood=full.get("ood", ()),
        given=tuple(labels),
        marked=marked,
    )
    check_tags(full, corpus.labels, where)
    return corpus


def given_corpus(parts: Mapping[str, Any]) -> NerCorpus:
    """Return pairs of words and tags, or tables of the datasets library, as a corpus."""
    found = {
        split: _from_table(part, split)
        if hasattr(part, "column_names")
        else to_bio([tagged(*pair, where) for pair, where in pairs_of(part, split)])
        for split, part in parts.items()
    }
    found = {split: list(map(without_blanks, part)) for split, part in found.items()}
    known = label_set([sentence for part in found.values() for sentence in part])
    return NerCorpus("given", found["dev"], found["dev"], found["test"], given=known)


def _named_files(files: Mapping[str, str]) -> tuple[dict[str, Sequence[Sentence]], str]:
    return {split: read_sentences(Path(path)) for split, path in files.items()}, "The corpus"


def _with_words(
    parts: Mapping[str, Sequence[Sentence]], notes: list[str]
) -> dict[str, Sequence[Sentence]]:
    """Leave out words of spaces."""
    found = {split: list(map(without_blanks, part)) for split, part in parts.items()}
    before, after = (sum(len(s) for part in p.values() for s in part) for p in (parts, found))
    if after < before:
        notes.append(f"{before - after:,} words are spaces, which raw text has none of; left out.")
    return {**found}


def _cut(
    parts: dict[str, Sequence[Sentence]], notes: list[str]
) -> tuple[dict[str, Sequence[Sentence]], Cutting | None]:
    """Cut texts with marked entities as suits the entities of the training split."""
    empty = sum(word == "" for part in parts.values() for s in part for word in s.words)
    if empty:
        notes.append(f"{empty:,} words are empty; each is read as an unknown one.")
    train = [sentence for sentence in parts.get("train", ()) if sentence.text is not None]
    if not train:
        return parts, None
    notes.extend(ends_note([sentence for part in parts.values() for sentence in part]))
    marked = choose_cutting(train, Detokeniser(""))
    cut: dict[str, Sequence[Sentence]] = {
        split: cut_as(part, marked) for split, part in parts.items()
    }
    for split, sentences in cut.items():
        unfit = sum(sum(sentence.unfit) for sentence in sentences)
        if unfit:
            notes.append(_widened(unfit, split))
    return cut, marked


def _widened(unfit: int, split: str) -> str:
    """Say that entities do not fit the words.

    >>> _widened(1, "train")[:53], _widened(2, "test")[:49]
    ('1 entity of train begins or ends inside of a word, or', '2 entities of test begin or end inside of a word,')
    """  # noqa: E501
    if unfit == 1:
        return (
            f"1 entity of {split} begins or ends inside of a word, or shares it: it is widened to "
            "whole words for training, and counts as missed."
        )
    return (
        f"{unfit:,} entities of {split} begin or end inside of a word, or share it: they are "
        "widened to whole words for training, and count as missed."
    )


def cut_as(sentences: Sequence[Sentence], cutting: Cutting) -> list[Sentence]:
    """Cut texts with marked entities; sentences of words stay as they are."""
    found = recut(sentences, cutting.splitter, whole=not cutting.sentences)
    return [sentence for sentence in found if len(sentence)]


def find_corpus(name: str, directory: str | Path | None = None) -> Path | None:
    """Return the folder of a corpus; None if it is embedded or on the hub. Reads nothing.

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
            "A folder with train and test files, or owner/name on the hub, works too."
            + nearest_path(Path(name)),
        )
    if folder is None and entry is None:
        check_name(name)
    return folder


def load_test(
    name: str, directory: str | Path | None = None, cutting: Cutting | None = None
) -> list[Sentence]:
    """Load only the test split of a corpus, with any tags, or the sentences of one file.

    Texts with marked entities are cut as ``cutting`` says.
    """
    path = Path(name)
    if path.is_file():
        sentences: Sequence[Sentence] = read_sentences(path)
    else:
        parts, where = _parts(name, directory, 0)
        if "test" not in parts:
            raise InputError(f"{where} has no test split; found: {', '.join(parts) or 'none'}.")
        sentences = parts["test"]
    if cutting is not None:
        sentences = cut_as(sentences, cutting)
    return [found for sentence in sentences if len(found := without_blanks(sentence))]


def _parts(
    name: str, directory: str | Path | None, seed: int
) -> tuple[dict[str, Sequence[Sentence]], str]:
    """Read the sentences of each split, and return where they come from."""
    if name == SYNTHETIC:
        return dict(generate_splits(seed)), name
    folder = find_corpus(name, directory)
    if folder is not None:
        return _read_folder(folder), str(folder)
    entry = CORPORA.get(name)
    return _from_tables(load_hub(name if entry is None or entry.hub is None else entry.hub)), name


def _read_folder(folder: Path) -> dict[str, Sequence[Sentence]]:
    files = corpus_files(folder)
    if files:
        return {split: read_sentences(path) for split, path in files.items()}
    if is_saved(folder):
        return _from_tables(load_saved(folder))
    raise InputError(
        f"{folder} has no train and test files: expected train.conll, train.jsonl, or a data set "
        "that the datasets library saved; or name the files: --train FILE --test FILE."
    )


def _from_tables(tables: dict[str, Any]) -> dict[str, Sequence[Sentence]]:
    return {split: _from_table(table, split) for split, table in tables.items()}


def _from_table(table: Any, split: str) -> list[Sentence]:
    """Read a table with a column of words and one of tags, as numbers or text."""
    words, tags = column(table, WORDS, split), column(table, TAGS, split)
    names = names_of(table, tags)
    sentences = []
    for number, (row, marks) in enumerate(zip(table[words], table[tags], strict=True), start=1):
        where = f"{split}, sentence {number}"
        if names is not None:
            marks = [class_name(names, mark, where) for mark in marks or ()]
        elif any(isinstance(mark, int) for mark in marks or ()):
            raise InputError(
                f"{split}: '{tags}' holds numbers without names; save them as text, or as a "
                "ClassLabel of the datasets library."
            )
        sentences.append(tagged(row, marks, where))
    return to_bio(sentences)
