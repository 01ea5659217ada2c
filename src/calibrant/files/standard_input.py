"""Predictions on standard input: kept in a file while the command runs."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["STANDARD", "standard_input"]

STANDARD = "-"  # The name of standard input and output.

# The first bytes of a file, and the suffix that they mean; anything else is text.
_BEGINNINGS = {b"PAR1": ".parquet", b"PK": ".npz", b"ARROW1": ".arrow"}
_NPY = b"\x93NUMPY"
_GZIPPED = b"\x1f\x8b"


@cache
def standard_input() -> Path:
    """Return the file that holds all of standard input; its first bytes say what it is."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("'-' reads standard input, but nothing is sent to it; name a file.")
    folder = Path(tempfile.mkdtemp(prefix="calibrant-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    raw = folder / "input"
    with raw.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with raw.open("rb") as file:
        suffix = suffix_of(file.read(4096))
    named = folder / f"standard-input{suffix}"
    raw.rename(named)
    return named


def suffix_of(start: bytes) -> str:
    """Return the suffix that the first bytes of a file mean.

    >>> suffix_of(b'{"logits": [1, 2]}'), suffix_of(b"a\\tb\\n1\\t2"), suffix_of(b"a,b")
    ('.jsonl', '.tsv', '.csv')
    """
    if not start:
        raise InputError("standard input: no rows; it is empty.")
    if start.startswith(_GZIPPED):
        raise InputError("standard input is gzipped; unpack it first (gunzip -c).")
    if start.startswith(_NPY):
        raise InputError("standard input is one npy array, without labels; name its file.")
    if start.startswith(b"PK") and b"/data.pkl" in start[:256]:  # The first file of torch.save.
        return ".pt"
    for beginning, suffix in _BEGINNINGS.items():
        if start.startswith(beginning):
            return suffix
    line = start.lstrip(b"\xef\xbb\xbf").lstrip().split(b"\n")[0]
    if line.startswith(b"{"):
        return ".jsonl"
    return ".tsv" if b"\t" in line and b"," not in line else ".csv"
