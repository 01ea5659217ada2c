"""What was left out because it cannot be read, carried with each result."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.distributed.engine import Part
from calibrant.metrics.state_bytes import pack_state, unpack_state

__all__ = ["LeftOut", "in_words"]

_KIND = "LeftOut"
_LENGTH = struct.Struct("<I")
_SHOWN = 20  # Messages that are kept: thousands of damaged files are counted, not listed.


@dataclass(frozen=True)
class LeftOut:
    """The row groups that were left out: how many, their rows, and the first messages."""

    groups: int = 0
    rows: int = 0
    messages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # Whose rows are not even known.

    @classmethod
    def of(cls, part: Part) -> LeftOut:
        """Return what a part left out while it was read."""
        found = getattr(part, "left_out", [])
        messages = tuple(message for message, _ in found[:_SHOWN])
        return cls(len(found), sum(rows for _, rows in found), messages)

    def __add__(self, other: LeftOut) -> LeftOut:
        messages = sorted({*self.messages, *other.messages})[:_SHOWN]
        return LeftOut(self.groups + other.groups, self.rows + other.rows, tuple(messages))

    def before(self, data: bytes) -> bytes:
        """Return this and the bytes of a state, for :meth:`split`."""
        counted = {"groups": self.groups, "rows": self.rows, "messages": self.messages}
        head = pack_state(_KIND, counted, {})
        return _LENGTH.pack(len(head)) + head + data

    @classmethod
    def split(cls, data: bytes) -> tuple[LeftOut, bytes]:
        """Return both again."""
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        counted, _ = unpack_state(_KIND, data[_LENGTH.size : end])
        messages = tuple(counted["messages"])
        return cls(counted["groups"], counted["rows"], messages), data[end:]

    @classmethod
    def joined(cls, results: Sequence[bytes], merge: Callable[[Sequence[bytes]], bytes]) -> bytes:
        """Return the merged states of some results, with all that they left out."""
        pairs = [cls.split(result) for result in results]
        return sum((pair[0] for pair in pairs), cls()).before(merge([pair[1] for pair in pairs]))

    def described(self) -> dict[str, Any]:
        """Return what the provenance says; nothing where all was read."""
        if not self.groups and not self.files:
            return {}
        return {
            "left_out": {
                "row_groups": self.groups,
                "rows": self.rows,
                "files": len(self.files),
                "messages": [*self.files[:_SHOWN], *self.messages],
            }
        }


def in_words(provenance: Mapping[str, Any]) -> list[str]:
    """Return sentences about what was left out; none where all was read.

    >>> LeftOut(1, 500, ("a.parquet: row group 3 is damaged.",)).described()["left_out"]["rows"]
    500
    """
    found = provenance.get("left_out")
    if not found:
        return []
    files = f" and {found['files']:,} whole files" if found["files"] else ""
    counted = f"{found['row_groups']:,} row groups ({found['rows']:,} rows){files} were left out"
    return [f"{counted}, as they cannot be read:", *found["messages"]]
