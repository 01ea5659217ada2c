"""Files of documents with entities: read, checked and written again with other scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from calibrant.entities.dialects import Parsed, parse_document
from calibrant.entities.document import Document, check_document
from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines, text_file
from calibrant.inputs import check_file, has_half_a_character, parse_json, read_json
from calibrant.outputs import new_file

__all__ = ["EntityFile", "read_entities", "write_entities"]

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json")


@dataclass(frozen=True)
class EntityFile:
    """One file: the values of its documents, and what they say.

    >>> from tempfile import TemporaryDirectory
    >>> line = '{"text": "Ada", "entities": [{"start": 0, "end": 3, "label": "PER", "score": 0.9}]}'
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/found.jsonl").write_text(line)
    ...     file = read_entities(f"{folder}/found.jsonl")
    ...     file.write([[0.7]], f"{folder}/honest.jsonl", overwrite=False)
    ...     print(Path(f"{folder}/honest.jsonl").read_text().strip())
    {"text": "Ada", "entities": [{"start": 0, "end": 3, "label": "PER", "score": 0.7}]}
    """

    path: Path
    values: list[Any]
    parsed: list[Parsed]
    whole: Any = None  # The content of a .json file, which holds the values

    @property
    def documents(self) -> list[Document]:
        """The documents in the order of the file."""
        return [each.document for each in self.parsed]

    def check_target(self, target: str | PathLike[str]) -> None:
        """Refuse a name that belongs to another form of file."""
        new = Path(target)
        known = new.name.lower().endswith(_SUFFIXES)
        if not known or _is_one_value(new) != _is_one_value(self.path):
            expected = ".json" if _is_one_value(self.path) else ".jsonl or .jsonl.gz"
            raise InputError(f"{new}: the copy keeps the form of {self.path.name}, so {expected}.")

    def write(
        self, scores: Sequence[Sequence[float]], target: str | PathLike[str], *, overwrite: bool
    ) -> None:
        """Write the file again, in its own form, with other scores."""
        self.check_target(target)
        for parsed, each in zip(self.parsed, scores, strict=True):
            parsed.write(each)
        one = _is_one_value(self.path)
        lines = [json.dumps(value, ensure_ascii=False) + "\n" for value in self.values]
        if one:
            lines = [json.dumps(self.whole, ensure_ascii=False, indent=1) + "\n"]
        new = new_file(target, overwrite=overwrite, inputs=[self.path])
        with new as unfinished, text_file(unfinished) as file:
            file.writelines(lines)


def _is_one_value(path: Path) -> bool:
    """Return whether the file holds one JSON value, and not one per line."""
    return path.name.lower().endswith(".json")


def read_entities(
    path: str | PathLike[str], spans: str | None = None, *, gold: bool = False
) -> EntityFile:
    """Read the documents of a file: a JSON value per line, or a .json file with a list of them.

    Each document is an object with its entities or a list of entities, in the form of any known
    tool (:mod:`calibrant.entities.dialects`). Spans, scores and duplicates are checked. In a file
    of true entities (``gold``) those that a model was not sure enough of are left out.

    >>> from tempfile import TemporaryDirectory
    >>> line = '[{"entity_group": "PER", "score": 0.99, "word": "Ada", "start": 0, "end": 3}]'
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/found.jsonl").write_text(line)  # Of a pipeline of transformers.
    ...     file = read_entities(f"{folder}/found.jsonl")
    >>> file.documents[0].entities
    (Entity(start=0, end=3, type='PER', score=0.99),)
    """
    file = Path(path)
    if not file.name.lower().endswith(_SUFFIXES):
        raise InputError(f"{file}: entities are read from {', '.join(_SUFFIXES)} files.")
    whole, numbered = None, _lines(file)
    if _is_one_value(file):
        whole = read_json(file, "not valid JSON")
        if not isinstance(whole, list):
            raise InputError(f"{file}: expected a list of documents.")
        one = bool(whole) and isinstance(whole[0], dict) and _is_entity(whole[0])
        numbered = (
            (f"{file}, document {i}", value) for i, value in enumerate([whole] if one else whole, 1)
        )
    values, parsed = [], []
    with closing(numbered):  # Also where a document is refused.
        for where, value in numbered:
            each = parse_document(value, where, spans, gold=gold)
            check_document(each.document, where)
            values.append(value)
            parsed.append(each)
    if not values:
        raise InputError(f"{file}: there are no documents.")
    return EntityFile(file, values, parsed, whole)


def _is_entity(value: dict[str, Any]) -> bool:
    """Return whether an object of a list is an entity and not a document of several."""
    try:
        parse_document([value], "")
    except InputError:
        return False
    return True


def _lines(path: Path) -> Generator[tuple[str, Any], None, None]:
    for number, line in numbered_lines(check_file(path)):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = parse_json(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON ({error}).") from None
        if "\\ud" in line.lower() and has_half_a_character(value):
            raise InputError(f"{where}: it contains half of a character.")
        yield where, value


def write_entities(
    records: Sequence[Any] | Callable[[], Iterator[Any]],
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write documents as a tool gives them, one JSON value per line; NumPy numbers are numbers.

    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> found = [[{"entity_group": "PER", "score": np.float32(0.5), "start": 0, "end": 3}]]
    >>> with TemporaryDirectory() as folder:
    ...     write_entities(found, f"{folder}/found.jsonl")
    ...     print(Path(f"{folder}/found.jsonl").read_text().strip())
    [{"entity_group": "PER", "score": 0.5, "start": 0, "end": 3}]
    """
    values = records() if callable(records) else records
    with new_file(path, overwrite=overwrite) as unfinished, text_file(unfinished) as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Return the Python number of a NumPy one, which json does not know."""
    if hasattr(value, "item"):
        return value.item()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise InputError(f"{type(value).__name__} cannot be written as JSON.")
