"""The corpora of the ∇Acc paper by name, found in a data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["CORPORA", "Corpus", "data_directory"]


@dataclass(frozen=True)
class Corpus:
    """Where a corpus comes from: the folder under the data directory and its name on the hub."""

    name: str
    hub: str
    config: str | None = None


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus("conll2003", "eriktks/conll2003"),
        Corpus("ncbi-disease", "ncbi/ncbi_disease"),
        Corpus("wikiann-en", "unimelb-nlp/wikiann", "en"),
        Corpus("gum", "DFKI-SLT/gum"),
        Corpus("wnut17", "leondz/wnut_17"),
    )
}


def data_directory(given: str | Path | None = None) -> Path | None:
    """The directory given, or that of the environment variable CALIBRANT_DATA, or none."""
    named = given or os.environ.get("CALIBRANT_DATA")
    if named is None:
        return None
    path = Path(named)
    if not path.is_dir():
        raise InputError(f"The data directory {path} does not exist.")
    return path
