"""Read the input of ``calibrant predict``: a text, lines of text, JSON or CSV, or images."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.files.lines import csv_delimiter, table_records
from calibrant.files.npz import array_names, opened_npz, read_array
from calibrant.inputs import check_file, door, first_repeated, has_half_a_character, parse_json
from calibrant.tasks.image.picture_files import SUFFIXES

__all__ = ["IMAGE", "PREDICTED", "Input", "Row", "file_of", "read_images", "read_rows", "words_of"]

Row = dict[str, Any]
IMAGE = ""  # The key of an image that comes from an array; it is not written.
# Fields that are added to a line.
PREDICTED = (
    "format", "entities", "abstained", "review", "label", "confidence", "accepted", "alternatives",
    "labels", "empty", "height", "width", "classes", "guarantee",
)  # fmt: skip
_WORDS = ("tokens", "words")
_CHECK = Callable[[Any, str], None]
_TABLES = (".csv", ".tsv")
_FILES = (".txt", ".jsonl", *_TABLES)
# Files that are not lines of text.
_OTHER_FILES = (".json", ".parquet", ".conll", ".gz", ".zip", ".pdf", ".docx")


class Input(NamedTuple):
    """The rows to predict, their number if it is known, and the files that they come from."""

    rows: Iterator[Row]
    total: int | None
    files: Sequence[Path]


def words_of(row: Row) -> Any:
    """Return the words of a line, or the text in which spaces separate them."""
    return next((row[name] for name in _WORDS if name in row), row.get("text"))


def read_rows(given: str | None, tokens: bool, taken: Sequence[str]) -> Input:
    """Return texts with the other fields of their lines; ``taken`` may be none of these."""
    check = partial(_check_row, tokens=tokens, taken=taken)
    if given is None or given == "-":
        if sys.stdin.isatty():
            print("Reading texts, one per line; Ctrl-D ends them.", file=sys.stderr)
        return Input(_parsed_rows(sys.stdin.buffer, "standard input", None), None, ())
    path = file_of(given)
    if path is None:
        if Path(given).suffix.lower() in (*_FILES, *_OTHER_FILES) and " " not in given:
            raise InputError(f"There is no file {given}.")
        if _names_folder(given):
            raise InputError(f"{given} is a folder: name a .txt, .jsonl or .csv file of texts.")
        _check_text(given, "The text that was given")
        return Input(iter([{"text": given}]), 1, ())
    if path.suffix.lower() in _OTHER_FILES:
        raise InputError(
            f"{path}: expected a .txt file with a text on each line, .jsonl, or .csv with a column "
            "'text'."
        )
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    if path.suffix.lower() in _TABLES:
        return Input(_table_rows(path, check), total - 1, (path,))
    return Input(_file_rows(path, check), total, (path,))


def read_images(given: str | None) -> Input:
    """Return images: a file, those of a folder and of the folders in it, or an array of bytes."""
    if given is None:
        raise InputError("Name an image, a folder of images, or a .npy or .npz file.")
    path = Path(given)
    if path.is_dir():
        files = [f for f in sorted(path.rglob("*")) if f.suffix.lower() in SUFFIXES]
        files = [file for file in files if file.name[0] != "."]
        if not files:
            raise InputError(f"{path} holds no images ({', '.join(SUFFIXES)}).")
        return Input(({"file": str(file)} for file in files), len(files), files)
    check_file(path)
    if path.suffix.lower() in (".npy", ".npz"):
        images = _image_array(path)
        rows = ({"number": number, IMAGE: image} for number, image in enumerate(images))
        return Input(rows, len(images), (path,))
    return Input(iter([{"file": str(path)}]), 1, (path,))


def _image_array(path: Path) -> np.ndarray:
    """Return the array of a .npy file, or ``images`` (or the only array) of an .npz."""
    if path.suffix.lower() == ".npy":
        with door(path, "not an array of NumPy"):
            images: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        with opened_npz(path) as archive:
            names = array_names(archive)
            if "images" not in names and len(names) != 1:
                found = ", ".join(names) or "none"
                raise InputError(
                    f"{path}: expected an array 'images', or a single array; got {found}."
                )
            images = read_array(archive, "images" if "images" in names else names[0])
    if images.ndim not in (3, 4) or images.dtype != np.uint8 or not images.size:
        raise InputError(
            f"{path}: expected bytes (n, height, width[, channels]), got {images.dtype} "
            f"{images.shape}."
        )
    return images


def file_of(given: str | None) -> Path | None:
    """Return the file that the argument names, or None if it is a text."""
    return Path(given) if given is not None and _may_name(given) and Path(given).is_file() else None


def _names_folder(given: str) -> bool:
    """Return whether the argument names a folder; an empty text and a full stop are texts."""
    return bool(given.strip(" .")) and _may_name(given) and Path(given).is_dir()


def _may_name(given: str) -> bool:
    return len(given) < 4096 and "\n" not in given and "\0" not in given


def _file_rows(path: Path, check: _CHECK) -> Iterator[Row]:
    with path.open("rb") as file:
        lines = path.suffix.lower() == ".jsonl"
        yield from _parsed_rows(file, str(path), check if lines else None)


def _table_rows(path: Path, check: _CHECK) -> Iterator[Row]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else csv_delimiter(path)
    records = table_records(path, delimiter, exact=True)
    header = _column_names(next(records, (1, []))[1], path)
    for line, cells in records:
        where = f"{path}, line {line}"
        if len(cells) != len(header):
            raise InputError(f"{where} has a different number of columns from the first.")
        row = dict(zip(header, cells, strict=True))
        check(row, where)
        yield row


def _column_names(header: list[str], path: Path) -> list[str]:
    """Return the names of the columns, which are the fields of each row."""
    if "" in header:
        raise InputError(
            f"{path}, line 1: column {header.index('') + 1} has no name; give it one (pandas: "
            "to_csv(index=False))."
        )
    if (twice := first_repeated(header)) is not None:
        raise InputError(
            f"{path}, line 1: two columns are called '{twice}'; give them different names."
        )
    return header


def _parsed_rows(file: Iterable[bytes], name: str, check: _CHECK | None) -> Iterator[Row]:
    """Yield one row per line; skip blank lines of jsonl; those of plain text are empty texts."""
    for number, raw in enumerate(file, start=1):
        where = f"{name}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(f"{where} is not UTF-8; convert it with 'iconv'.") from None
        if check is None:
            yield {"text": line}
        elif line.strip():
            yield _parsed(line, where, check)


def _parsed(line: str, where: str, check: _CHECK) -> Row:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from None
    if "\\ud" in line.lower():
        _check_text(row, where)
    check(row, where)
    found: Row = row
    return found


def _check_row(row: Any, where: str, *, tokens: bool, taken: Sequence[str]) -> None:
    """Require a text or words, and no field that the predictions would replace."""
    words = words_of(row) if isinstance(row, dict) and tokens else None
    listed = isinstance(words, list) and all(isinstance(word, str) for word in words)
    text = words if tokens else row.get("text") if isinstance(row, dict) else None
    if not listed and not isinstance(text, str):
        what = "'tokens', a list of words," if tokens else "a 'text'"
        raise InputError(f"{where}: expected an object with {what}, got {str(row)[:60]!r}.")
    there = next((name for name in taken if name in row), None)
    if tokens and taken == PREDICTED and _has_other_text(row, words):
        there = "text"  # Places are those in the joined words, which would replace another text.
    if there is not None:
        raise InputError(
            f"{where} already has a field '{there}': name another for the predictions with "
            "--field NAME."
        )


def _has_other_text(row: Row, words: Any) -> bool:
    return "text" in row and row["text"] != (words if isinstance(words, str) else " ".join(words))


def _check_text(content: Any, where: str) -> None:
    if has_half_a_character(content):
        raise InputError(f"{where}: the text contains half of a character; is it UTF-8?")
