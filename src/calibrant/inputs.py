"""Open input files in one place, which reports every problem in one line.

Every reader opens its file behind :func:`door`. Any exception of the library below becomes an
:class:`~calibrant.errors.InputError` that names the file, the cause and, where there is one, the
remedy. The limits are stated here, and in SECURITY.md.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from calibrant.errors import CalibrantError, InputError

__all__ = [
    "DEEPEST",
    "LONGEST_LINE",
    "check_file",
    "check_nesting",
    "check_unpacked",
    "door",
    "first_repeated",
    "has_half_a_character",
    "nearest_path",
    "parse_json",
    "read_json",
    "read_signed",
    "shortened",
]

DEEPEST = 100  # Levels of lists and objects in JSON.
LONGEST_LINE = 1 << 27  # Characters of a text file without a line break.
# What a compressed file may unpack to: this many times its size, and this many bytes in any case.
MOST_TIMES = 200
ALWAYS_ALLOWED = 1 << 30
_BRACKETS = re.compile(r"[\[\]{}]")


@contextmanager
def door(path: str | PathLike[str], damage: str) -> Iterator[None]:
    """Turn an error while ``path`` is read into one line; ``damage`` describes a damaged file.

    >>> with door("scores.npz", "not a complete npz file"):
    ...     raise EOFError("an array ends early")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: scores.npz: not a complete npz file (an array ends early).
    """
    try:
        yield
    except CalibrantError:
        raise
    except MemoryError as error:
        reason = _first_line(error) or "there is not enough"
        raise InputError(f"{path}: it does not fit into memory ({reason}).") from error
    except PermissionError as error:  # Without a number it says what a remote storage refuses.
        why = "" if error.errno or not str(error) else f" ({_first_line(error)})"
        raise InputError(f"{path}: no permission to read it{why}.") from error
    except FileNotFoundError as error:  # Of a remote storage, often without a number.
        raise InputError(f"{path}: there is no such file or folder.") from error
    except OSError as error:
        if error.errno is None:  # A library's own word for damage, such as BadGzipFile.
            raise _damaged(path, damage, error) from error
        raise InputError(f"{path}: it cannot be read ({error.strerror}).") from error
    except Exception as error:
        raise _damaged(path, damage, error) from error


def _damaged(path: str | PathLike[str], damage: str, error: Exception) -> InputError:
    reason = _first_line(error) or type(error).__name__
    if isinstance(error, RecursionError):
        reason = "it is nested too deeply"
    return InputError(f"{path}: {damage} ({reason}).")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return shortened(lines[0].strip().rstrip("."), 200) if lines else ""


def check_file(path: str | PathLike[str], expected: str = "") -> Path:
    """Return the path of a regular file; pipes and devices cannot be read twice, or never end."""
    file, hint = Path(path), f" Expected {expected}." if expected else ""
    try:
        if file.is_file():
            return file
        kind = "is a folder" if file.is_dir() else "is a pipe or a device, which may never end"
        there = file.exists()
    except OSError as error:  # A name that is too long, a folder that may not be looked into.
        raise InputError(f"{file}: it cannot be read ({error.strerror}).") from None
    if not there:
        raise InputError(f"There is no file {file}.{hint}")
    raise InputError(f"{file} {kind}: name a file.{hint}")


def nearest_path(path: Path) -> str:
    """Return a sentence, with a space before it, on what is there instead of a missing path."""
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} either."
    near = difflib.get_close_matches(path.name, sorted(p.name for p in path.parent.iterdir()), n=1)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def check_unpacked(path: Path, unpacked: int, remedy: str) -> None:
    """Refuse a file that unpacks to far more than its size: it would fill memory, or never end.

    Up to 1 GiB, or 200 times the size of the file, are always taken.
    """
    packed = path.stat().st_size
    if unpacked > max(ALWAYS_ALLOWED, MOST_TIMES * packed):
        raise InputError(
            f"{path}: its {packed:,} bytes unpack to more than {MOST_TIMES} times as many and to "
            f"over {ALWAYS_ALLOWED >> 30} GiB, so it is refused; if you trust the file, {remedy}."
        )


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raise a ValueError for anything wrong with it.

    Lists and objects may be nested 100 deep: what is deeper would end later in an endless
    recursion.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    opening: tuple[Any, ...] = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    if sum(text.count(sign) for sign in opening) > DEEPEST and _depth(value) > DEEPEST:
        raise ValueError("it is nested too deeply")
    return value


def check_nesting(text: str) -> None:
    """Raise a ValueError where brackets and braces are open more than 100 deep.

    >>> check_nesting("[" * 101)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    depth = 0
    for sign in _BRACKETS.findall(text):
        depth = max(0, depth + (1 if sign in "[{" else -1))
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")


def read_json(path: str | PathLike[str], damage: str) -> Any:
    """Return the value of a JSON file; ``damage`` describes a file that cannot be read."""
    with door(check_file(path), damage):
        return parse_json(Path(path).read_bytes())


def read_signed(
    path: str | PathLike[str], damage: str, signature: str, number: int, *older: int
) -> dict[str, Any]:
    """Return the object of a JSON file that must have this signature and number of format.

    ``older`` formats are taken too.
    """
    content = read_json(path, damage)
    if not isinstance(content, dict) or content.get("signature") != signature:
        raise InputError(f"{path}: {damage}.")
    if content.get("format") not in (number, *older):
        raise InputError(
            f"{path} has format {content.get('format')}, but this version reads format {number}: "
            "upgrade calibrant."
        )
    return content


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        below = [v.values() if isinstance(v, dict) else v for v in level if type(v) in (dict, list)]
        level = [child for children in below for child in children]
        depth += bool(below)
    return depth


def has_half_a_character(value: Any) -> bool:
    """Return whether a JSON value holds a lone surrogate, which no encoding can write.

    >>> has_half_a_character({"words": ["a", "\\ud800"]}), has_half_a_character("é")
    (True, False)
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that has occurred before, in linear time.

    >>> first_repeated(["a", "b", "b", "a"])
    'b'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def shortened(text: str, most: int = 60) -> str:
    """Return the text, or its beginning if it is too long for a message.

    >>> shortened("9" * 5000, 8)
    '99999999… (5,000 characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
