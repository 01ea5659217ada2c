"""The table of formats, and the files that a path, a folder of shards or a glob names."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

from calibrant.errors import InputError
from calibrant.files.arrow import ARROW
from calibrant.files.csv import CSV, TSV
from calibrant.files.format import Format, Source
from calibrant.files.jsonl import JSONL
from calibrant.files.lake_tables import check_plain
from calibrant.files.language_models import open_jsonl
from calibrant.files.npy import NPY, files_beside, without_partners
from calibrant.files.npz import NPZ
from calibrant.files.parquet import PARQUET
from calibrant.files.pt import PT
from calibrant.files.safetensors import SAFETENSORS
from calibrant.files.standard_input import STANDARD, standard_input
from calibrant.inputs import check_file, door, nearest_path

__all__ = [
    "FORMATS",
    "Fingerprint",
    "Paths",
    "expand",
    "fingerprint",
    "fingerprints",
    "format_of",
    "notes",
    "open_source",
    "suffixes",
]

# A folder is read as shards of the first format here that may be shards and has files in it.
FORMATS: dict[str, Format] = {
    "parquet": PARQUET,
    "npz": NPZ,
    "safetensors": SAFETENSORS,
    "pt": PT,
    "arrow": ARROW,
    "csv": CSV,
    "tsv": TSV,
    "jsonl": replace(JSONL, open=open_jsonl),
}

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

_READ = 1 << 20


_CORPORA = (".conll", ".conllu", ".bio", ".iob", ".iob2", ".bioes", ".bmes")  # Words and tags.


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of all formats of tables; npy, one array alone, is only read.

    >>> suffixes()[:3], ".tsv" in suffixes()
    (('.parquet', '.npz', '.safetensors'), True)
    """
    return tuple(suffix for known in FORMATS.values() for suffix in known.suffixes)


def format_of(path: Path) -> Format:
    """Return the format that the suffix of a name means.

    >>> format_of(Path("run.1/dev.CSV.gz")) is FORMATS["csv"]
    True
    """
    for known in (*FORMATS.values(), NPY):
        if path.name.lower().endswith(known.suffixes):
            return known
    if path.suffix.lower() in _CORPORA:
        raise InputError(
            f"{path} holds words and tags, and no predictions: 'calibrant train' learns from such "
            "a corpus, and 'calibrant evaluate RUN FILE' predicts and audits it."
        )
    if path.suffix.lower() == ".json":
        raise InputError(
            f"{path}: unknown kind of file '.json'; predictions in JSON are read from .jsonl "
            "files: write each element of the list on its own line."
        )
    raise InputError(
        f"{path}: unknown kind of file '{path.suffix}'; expected one of {', '.join(suffixes())} or "
        ".npy."
    )


def open_source(path: Path) -> Source:
    """Open one file, far enough to know its columns."""
    return format_of(path).open(path)


def notes(paths: Paths) -> list[str]:
    """Return what is to be known about the scores of files whose records were translated.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/dev.csv").write_text("probability,label\\n0.9,1\\n")
    ...     notes(f"{folder}/dev.csv")
    []
    """
    found = (getattr(open_source(path), "note", None) for path in expand(paths))
    return [note for note in found if note is not None]


class FoundFiles(list[Path]):
    """Files that :func:`expand` found: it returns them as they are and does not look again."""


def expand(paths: Paths) -> FoundFiles:
    """Return the files that ``paths`` names: a file, a folder of shards, a glob, or several.

    Shards and matches come in the order of their names. Shards are parquet files or, where a
    folder has none, npz files. Folders are read without hidden files, unfinished ones, and those
    that start with ``_``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv"):
    ...         _ = Path(f"{folder}/{name}").write_text("probability,label\\n0.9,1\\n")
    ...     [path.name for path in expand(f"{folder}/*.csv")]
    ['a.csv', 'b.csv']
    """
    if isinstance(paths, FoundFiles):
        return paths
    several = _named_paths(paths)
    if not several:
        raise InputError("No file was named.")
    named = (file for path in several for file in _expand(fspath(path)))
    found = FoundFiles(without_partners(named))
    kinds = [format_of(file) for file in found]
    check_plain(file.absolute() for file, kind in zip(found, kinds, strict=True) if kind is PARQUET)
    return found


def _named_paths(paths: Paths) -> list[str | PathLike[str]]:
    """Return one path or several as a list; tables are iterables of text too, and no paths."""
    if isinstance(paths, (str, PathLike)):
        return [paths]
    if isinstance(paths, Iterable) and not hasattr(paths, "columns"):
        several = list(paths)
        if all(isinstance(path, (str, PathLike)) for path in several):
            return several
    raise InputError(
        f"A file, a folder or a list of files is expected, got a {type(paths).__name__}; "
        "Predictions.from_frame takes tables, from_logits and from_probabilities take arrays."
    )


def _expand(name: str) -> Iterator[Path]:
    if not name:
        raise InputError("An empty file name was given; name a file.")
    if name == STANDARD:
        yield standard_input()
        return
    if "://" in name:
        raise InputError(
            f"{name}: an address needs an engine, which reads parquet files there: --engine ray or "
            "--engine spark, in Python calibrant.distributed. Copy other files to this machine."
        )
    path = Path(name)
    with door(path, "it cannot be read"):
        is_folder, is_there = path.is_dir(), path.exists()
    if is_folder:
        yield from _shards(path)
    elif is_there:
        yield check_file(path)
    elif glob.has_magic(name):
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise InputError(f"{name}: no file matches.")
        for match in matches:
            yield from _expand(match)
    else:
        raise InputError(f"{path}: no such file.{nearest_path(path)}")


def _shards(folder: Path) -> list[Path]:
    with door(folder, "it cannot be listed"):
        os.scandir(folder).close()  # A glob would say nothing of a refused folder.
    kinds = [suffix for known in FORMATS.values() if known.shards for suffix in known.suffixes]
    for kind in kinds:
        found = sorted(p for p in folder.glob(f"*{kind}") if p.name[0] not in "._")
        if found:
            return found
    raise InputError(f"{folder}: the folder has no {', '.join(kinds[:-1])} or {kinds[-1]} shards.")


@dataclass(frozen=True)
class Fingerprint:
    """The identity of a file: path as given, size in bytes, SHA-256 of the content.

    >>> Fingerprint("dev.npz", 1024, "9f86d081884c7d65…")
    Fingerprint(path='dev.npz', size=1024, sha256='9f86d081884c7d65…')
    """

    path: str
    size: int
    sha256: str


def fingerprints(paths: Paths) -> tuple[Fingerprint, ...]:
    """Return the fingerprint of each file that ``paths`` names, in bounded memory.

    The labels and weights of an npy file follow it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/dev.csv").write_text("probability,label\\n0.9,1\\n")
    ...     [found] = fingerprints(f"{folder}/dev.csv")
    >>> found.size, found.sha256[:8]
    (24, 'f9c938a7')
    """
    files = [file for path in expand(paths) for file in (path, *files_beside(path))]
    return tuple(map(fingerprint, files))


def fingerprint(path: Path) -> Fingerprint:
    """Return the fingerprint of one file."""
    digest = hashlib.sha256()
    with door(check_file(path), "not a whole file"), path.open("rb") as file:
        while piece := file.read(_READ):
            digest.update(piece)
    return Fingerprint(str(path), path.stat().st_size, digest.hexdigest())
