"""Text classification: texts with one label each, from files, class folders or the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.inputs import check_file, nearest_path, parse_json
from calibrant.tasks.language.synthetic import generate_splits
from calibrant.tasks.reading.catalogue import find_folder
from calibrant.tasks.reading.class_labels import (
    class_folders,
    has_splits,
    label_names,
    lost_classes,
    number_labels,
    training_labels,
)
from calibrant.tasks.reading.hub import (
    check_name,
    class_name,
    column,
    is_saved,
    load_hub,
    load_saved,
    names_of,
)
from calibrant.tasks.reading.records import SUFFIXES, TEXTS, field, read_records
from calibrant.tasks.reading.splits import (
    complete,
    for_wrapping,
    only_one,
    pairs_of,
    split_files,
    split_of,
)

__all__ = [
    "INTENTS",
    "TextCorpus",
    "find_texts",
    "generated_texts",
    "given_texts",
    "load_test_texts",
    "load_texts",
    "read_intents",
]

SYNTHETIC = "synthetic"
# Known by name; found under the data directory.
CORPORA = ("20newsgroups", "clinc150")
_LABEL = ("label", "labels", "category")
Example = tuple[str, str]  # text and label
_PAIR = ("text", "label")
INTENTS = "data_full.json"
_OUTSIDE = "oos_test"  # Only to test on; a model is trained on texts in scope.


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """Texts and their classes by split; ``notes`` says what was done to them."""

    name: str
    texts: Mapping[str, Sequence[str]]
    classes: Mapping[str, Sequence[int]]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_texts(
    name: str, directory: str | Path | None = None, seed: int = 0, *, trained: bool = False
) -> TextCorpus:
    """Load a corpus by name: a folder, a file, ``synthetic``, or a name on the hub.

    A folder holds train, (dev), (test) files as csv, tsv or jsonl with ``text`` and ``label``, or
    a folder for each class with a .txt file for each text. One such file is all training split.
    Missing splits are carved from the training split, seeded, and noted. Empty texts stay, and are
    noted. A model that is ``trained`` already needs validation and test data, and nothing is carved
    for it.
    """
    parts, where = _parts(name, directory, seed)
    return (_trained if trained else _corpus)(name, parts, where, seed)


def given_texts(parts: Mapping[str, Any]) -> TextCorpus:
    """Return pairs of a text and its label, or tables of the datasets library, as a corpus."""
    found: dict[str, Sequence[Example]] = {
        split: _from_table(part, split)
        if hasattr(part, "column_names")
        else [_example(dict(zip(_PAIR, pair, strict=True)), w) for pair, w in pairs_of(part, split)]
        for split, part in parts.items()
    }
    return _trained("given", found, "The data", 0)


def _trained(name: str, parts: dict[str, Sequence[Example]], where: str, seed: int) -> TextCorpus:
    """Return the corpus for a model that is trained already, with the labels of all its splits."""
    parts = for_wrapping(parts, where)
    known = label_names(y for split, part in parts.items() if split != "ood" for _, y in part)
    return _corpus(name, parts, where, seed, known)


def find_texts(name: str, directory: str | Path | None = None) -> Path | None:
    """Return the folder of a corpus; None for embedded texts, a file, or the hub. Reads nothing.

    >>> find_texts("synthetic") is None
    True
    """
    if name == SYNTHETIC or name.lower().endswith((*SUFFIXES, ".json")):
        return None
    folder = find_folder(name, "text", directory)
    if folder is None and name in CORPORA:
        raise InputError(
            f"'{name}' is not under the data directory (--data-dir, CALIBRANT_DATA): put its "
            f"train and test .jsonl files into text/{name} there."
        )
    if folder is None and "/" not in name:
        hint = "A folder with train.csv or train.jsonl, or owner/name on the hub, works too."
        hint += nearest_path(Path(name))
        raise unknown_name("text corpus", name, (SYNTHETIC, *CORPORA), hint)
    if folder is None:
        check_name(name)
    return folder


def load_test_texts(
    name: str, directory: str | Path | None = None, *, whole: bool = False
) -> list[Example]:
    """Load the test split alone, with labels as they are written.

    Without a test split it is the one that :func:`load_texts` takes from training; with
    ``whole``, one file, or a folder of class folders without splits, is all to test on, and what
    has splits but no test split is an error.
    """
    if whole and Path(name).is_file() and not name.lower().endswith(".json"):
        return _read_file(Path(name))
    parts, where = _parts(name, directory, 0)
    if "test" in parts:
        return list(parts["test"])
    folder = find_folder(name, "text", directory)
    files = folder is not None and (split_files(folder, SUFFIXES) or is_saved(folder))
    if whole and folder is not None and not files and not has_splits(folder):
        return list(parts["train"])
    if whole:
        raise InputError(f"{where} has no test split; found: {', '.join(parts)}.")
    corpus = load_texts(name, directory)
    labels = (corpus.labels[number] for number in corpus.classes["test"])
    return list(zip(corpus.texts["test"], labels, strict=True))


def _corpus(
    name: str,
    parts: dict[str, Sequence[Example]],
    where: str,
    seed: int,
    known: tuple[str, ...] | None = None,
) -> TextCorpus:
    labels = known or training_labels(parts.get("train", ()), where, "texts")
    given = parts.get("train", ())
    full, notes = complete(parts, where, seed, test=True)
    notes = (*notes, *lost_classes(given, full["train"]))
    texts = {split: [text for text, _ in part] for split, part in full.items()}
    classes = number_labels({s: [label for _, label in p] for s, p in full.items()}, labels, where)
    empty = sum(not text.strip() for part in texts.values() for text in part)
    if empty:
        notes = (*notes, f"{empty:,} texts are empty.")
    return TextCorpus(name, texts, classes, labels, notes)


def _parts(
    name: str, directory: str | Path | None, seed: int
) -> tuple[dict[str, Sequence[Example]], str]:
    if name == SYNTHETIC:
        return _synthetic(seed), name
    if name.lower().endswith(SUFFIXES):
        return {"train": _read_file(Path(name))}, name
    if name.lower().endswith(".json"):
        return dict(read_intents(Path(name))), name
    folder = find_texts(name, directory)
    if folder is None:
        return {s: _from_table(table, s) for s, table in load_hub(name).items()}, name
    return _read_folder(folder), str(folder)


def _read_folder(folder: Path) -> dict[str, Sequence[Example]]:
    files = split_files(folder, SUFFIXES)
    if files:
        return {split: _read_file(path) for split, path in files.items()}
    if (folder / INTENTS).is_file():
        return dict(read_intents(folder / INTENTS))
    if is_saved(folder):
        return {s: _from_table(table, s) for s, table in load_saved(folder).items()}
    if next(folder.rglob("*.txt"), None) is None:
        raise InputError(
            f"{folder} has no texts: expected train.csv, .tsv or .jsonl, or a folder for each "
            "class with .txt files."
        )
    parts = class_folders(folder, (".txt",))
    return {s: [(_read(path), label) for path, label in part] for s, part in parts.items()}


def _read_file(path: Path) -> list[Example]:
    records = read_records(path, columns=(TEXTS, _LABEL))
    return [_example(record, f"{path}, line {line}") for line, record in records]


def _example(record: dict[str, Any], where: str) -> Example:
    text, label = field(record, TEXTS, where), field(record, _LABEL, where)
    name = str(label).strip()  # "a text, dog" of a csv is of the class of "a text,dog".
    if not isinstance(text, str) or not isinstance(label, (str, int)) or not name:
        raise InputError(f"{where}: expected a text and a label, got {text!r:.40} and {label!r}.")
    return text, name


def _from_table(table: Any, split: str) -> list[Example]:
    text, label = column(table, TEXTS, split), column(table, _LABEL, split)
    names = names_of(table, label)
    found = []
    for row, (written, y) in enumerate(zip(table[text], table[label], strict=True), start=1):
        where = f"{split}, row {row}"
        name = class_name(names, y, where, outside=split == "ood")
        found.append(_example({"text": written, "label": name}, where))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text.") from None


def generated_texts(seed: int = 0, **sizes: int) -> TextCorpus:
    """Return the generated corpus, with this many sentences in each split."""
    return _corpus(SYNTHETIC, _synthetic(seed, **sizes), SYNTHETIC, seed)


def _synthetic(seed: int, **sizes: int) -> dict[str, Sequence[Example]]:
    """Label sentences of the generated corpus with the type of their first name."""
    parts = generate_splits(seed, **sizes)
    return {
        split: [(" ".join(s.words), next(t[2:] for t in s.tags if t != "O")) for s in sentences
                if set(s.tags) != {"O"}]
        for split, sentences in parts.items()
    }  # fmt: skip


def read_intents(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Read texts and intents of each split; queries out of scope are the split ``ood``."""
    check_file(path)
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except ValueError:  # Not UTF-8, or not JSON.
        raise InputError(f"{path}: not a JSON file that can be read.") from None
    if not isinstance(content, dict) or "train" not in content:
        raise InputError(f'{path}: expected {{"train": [[text, intent], …], "val": …}}.')
    parts: dict[str, list[tuple[str, str]]] = {}
    read: dict[str, str] = {}
    for key, rows in content.items():
        split = "ood" if key == _OUTSIDE else split_of(key)
        if split is not None and not isinstance(rows, list):
            raise InputError(f"{path}, {key}: expected [[text, intent], …], got {rows!r:.60}.")
        if split is not None:
            only_one(read, split, key, f"{path} has two parts for one split")
            read[split] = key
            parts[split] = [_pair(row, f"{path}, {key}, row {n}") for n, row in enumerate(rows, 1)]
    return parts


def _pair(row: Any, where: str) -> tuple[str, str]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(v, str) for v in row):
        raise InputError(f"{where}: expected [text, intent], got {row!r:.60}.")
    return row[0], row[1]
