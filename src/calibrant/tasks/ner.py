"""Named entity recognition: a corpus, its tags, and a token classifier to train on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calibrant.errors import InputError, unknown_name
from calibrant.tasks.catalogue import CORPORA, data_directory
from calibrant.tasks.conll import Sentence, read_conll

__all__ = ["NerCorpus", "load_corpus"]

SPLITS = ("train", "dev", "test")
# Share of the training sentences that becomes the validation split where a corpus has none.
CARVED = 0.1


@dataclass(frozen=True, eq=False)
class NerCorpus:
    """The sentences of each split. ``notes`` says aloud what was done to the files."""

    name: str
    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    test: Sequence[Sentence]
    notes: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The tags of the training split, O first."""
        seen = {tag for sentence in self.train for tag in sentence.tags}
        return ("O", *sorted(seen - {"O"}, key=lambda tag: (tag[2:], tag[0])))


def load_corpus(name: str, directory: str | Path | None = None, seed: int = 0) -> NerCorpus:
    """A corpus of the catalogue by name, or a folder with train, (dev) and test ``.conll`` files.

    A missing validation split is carved from the training split, seeded, and noted.
    """
    folder = _folder(name, directory)
    parts = {s: read_conll(p) for s in SPLITS if (p := folder / f"{s}.conll").exists()}
    for needed in ("train", "test"):
        if needed not in parts:
            raise InputError(f"{folder} has no {needed}.conll.")
    notes: tuple[str, ...] = ()
    if "dev" not in parts:
        parts["train"], parts["dev"] = _carve(parts["train"], seed)
        notes = (
            f"No validation split: {len(parts['dev']):,} training sentences taken (seed {seed}).",
        )
    return NerCorpus(name, parts["train"], parts["dev"], parts["test"], notes)


def _folder(name: str, directory: str | Path | None) -> Path:
    if Path(name).is_dir():
        return Path(name)
    root = data_directory(directory)
    if root is not None:
        for folder in (root / "ner" / name, root / name):
            if folder.is_dir():
                return folder
    if name not in CORPORA:
        raise unknown_name("corpus", name, CORPORA, "A folder with train.conll works too.")
    raise InputError(
        f"Corpus '{name}' is not under a data directory: pass one, or set CALIBRANT_DATA."
    )


def _carve(train: Sequence[Sentence], seed: int) -> tuple[list[Sentence], list[Sentence]]:
    order = np.random.default_rng(seed).permutation(len(train))
    size = max(1, round(CARVED * len(train)))
    held = set(order[:size].tolist())
    kept = [s for i, s in enumerate(train) if i not in held]
    return kept, [s for i, s in enumerate(train) if i in held]
