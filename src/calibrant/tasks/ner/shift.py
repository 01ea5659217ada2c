"""What a run is tested on besides its own test split: corrupted text, and other corpora."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant.corruptions import STRENGTHS, TEXT, parse_corruption
from calibrant.errors import InputError, unknown_name
from calibrant.predictions import IGNORED
from calibrant.tasks.ner.corpora import CORPORA
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences
from calibrant.tasks.ner.corpora.shared_types import in_types_of
from calibrant.tasks.ner.corpus import SYNTHETIC, find_corpus, load_test
from calibrant.tasks.ner.data import NerData
from calibrant.tasks.ner.subword_windows import Pieces
from calibrant.tasks.reading.fingerprint import data_state

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["check_shift", "ignoring", "shifted_tests"]

_SEED = 0  # For corruptions: every run is tested on the same ones.


def shifted_tests(recipe: Recipe, data: NerData, directory: str | None = None) -> dict[str, Pieces]:
    """Return the word pieces of everything that ``recipe.shift`` names, by name.

    ``typos-3`` is the test split with typos of strength 3, the same in every run. Any other name is
    a corpus, a folder or a file, whose test split is judged on the entity types that it shares with
    the training corpus (:mod:`~calibrant.tasks.ner.corpora.shared_types`). Words of other types are
    ignored; a prediction of a type that it does not have (MISC) counts as a false entity.
    """
    return {name: _shifted(name, data, directory, _state(name, directory)) for name in recipe.shift}


def _state(name: str, directory: str | None) -> str:
    """Return the state of the files behind a name, so that changed files are read again."""
    if parse_corruption(name, TEXT) is not None:
        return ""
    check_shift(name, directory)
    return data_state(name, "ner", directory)


def check_shift(name: str, directory: str | None = None) -> None:
    """Raise an error unless a name is a corruption, a corpus or a file; read nothing."""
    if parse_corruption(name, TEXT) is not None or Path(name).is_file():
        return
    try:
        find_corpus(name, directory)
    except InputError as error:
        if not str(error).startswith("Unknown corpus"):
            raise
        known = (*(f"{kind}-{s}" for kind in TEXT for s in STRENGTHS), *CORPORA, SYNTHETIC)
        hint = "Expected KIND-STRENGTH ('calibrant list corruptions' shows all), or a corpus."
        raise unknown_name("shift", name, known, hint) from None


@functools.lru_cache(maxsize=256)
def _shifted(
    name: str,
    data: NerData,
    directory: str | None,
    state: str,  # noqa: ARG001
) -> Pieces:
    corruption = parse_corruption(name, TEXT)
    if corruption is not None:
        return data.encode(list(corrupt_sentences(data.corpus.test, *corruption, seed=_SEED)))
    found = load_test(name, directory, data.corpus.cutting)
    mapped, judged = in_types_of(data.labels, found, name)
    return ignoring(data.encode(mapped), judged)


def ignoring(pieces: Pieces, judged: Sequence[Sequence[bool]]) -> Pieces:
    """Remove the labels of words that are not judged.

    ``judged`` says it for each word of each sentence that the windows were made from.
    """
    flat = np.array([keep for sentence in judged for keep in sentence], bool)
    first = np.cumsum([0, *(len(sentence) for sentence in judged)])
    owner = np.repeat(pieces.sentences, pieces.lengths)
    labels = pieces.labels.copy()
    labelled = np.flatnonzero(labels != IGNORED)
    kept = flat[first[owner[labelled]] + pieces.words[labelled]]
    labels[labelled[~kept]] = IGNORED
    return dataclasses.replace(pieces, labels=labels)
