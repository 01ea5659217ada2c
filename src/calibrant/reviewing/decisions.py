"""Save the decisions of reviewers, one line of JSON each, before the next document is shown.

The file only grows. Several processes may write to it: each line is written under a lock, and a
process reads what others have added before it answers. A later decision about a document replaces
an earlier one, and both stay in the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.reviewing.documents import Document, Span

__all__ = ["Decision", "Decisions", "Stale"]

_SIGNATURE, _FORMAT = "calibrant review", 1


class Stale(Exception):  # noqa: N818 — not a defect: the reviewer decides again.
    """Somebody else has reviewed the document since it was shown."""


@dataclass(frozen=True)
class Decision:
    """A reviewer's decision about a document: all of its entities.

    ``predicted`` are the entities that were shown, with their confidences.
    """

    document: str
    entities: tuple[Span, ...]
    predicted: tuple[Span, ...]
    reviewer: str
    time: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the file."""
        return {
            "document": self.document,
            "reviewer": self.reviewer,
            "time": self.time,
            "entities": [span.to_dict() for span in self.entities],
            "predicted": [span.to_dict() for span in self.predicted],
            "text": self.text,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Decision:
        """Return the decision of a line."""
        return cls(
            document=str(content["document"]),
            entities=tuple(Span(**span) for span in content["entities"]),
            predicted=tuple(Span(**span) for span in content["predicted"]),
            reviewer=str(content["reviewer"]),
            time=str(content["time"]),
            text=str(content["text"]),
        )


class Decisions:
    """The decisions in a file; ``latest`` has the valid one of each document.

    A file of decisions about other documents is refused. Without documents it is only read.
    """

    def __init__(self, path: str | Path, documents: Sequence[Document] | None = None) -> None:
        self.path = Path(path)
        if documents is None and not self.path.is_file():
            raise InputError(f"There is no file {self.path}.")
        self._only_read = documents is None
        documents = documents or ()
        self._texts = {one.id: one.text for one in documents}
        self._about = _fingerprint(documents)
        self._read_to = 0
        self.latest: dict[str, Decision] = {}
        self.counts: dict[str, int] = {}
        with self._locked() as file:
            self._catch_up(file)
            if not self._read_to and not self._only_read:
                self._append(
                    file, {"signature": _SIGNATURE, "format": _FORMAT, "texts": self._about}
                )
                self._read_to = file.seek(0, os.SEEK_END)

    def add(
        self, document: str, entities: Sequence[Span], predicted: Sequence[Span], reviewer: str,
        seen: int,
    ) -> Decision:  # fmt: skip
        """Write a decision to the disk, and return it.

        ``seen`` is the number of decisions about the document when it was shown; if there are more
        by now, nothing is written and :class:`Stale` is raised.
        """
        time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        decision = Decision(
            document, tuple(sorted(entities)), tuple(predicted), reviewer, time,
            self._texts[document],
        )  # fmt: skip
        with self._locked() as file:
            self._catch_up(file)
            if self.counts.get(document, 0) != seen:
                raise Stale
            self._append(file, decision.to_dict())
            self._catch_up(file)
        return decision

    def refresh(self) -> None:
        """Read what other processes have written."""
        with self._locked() as file:
            self._catch_up(file)

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        try:
            file = self.path.open("a+b")
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}.") from None
        with file, _lock(file):
            yield file

    def _catch_up(self, file: Any) -> None:
        """Read new complete lines; a killed process may have left half of one."""
        file.seek(self._read_to)
        *whole, _ = file.read().split(b"\n")
        for line in whole:
            self._take(line)
            self._read_to += len(line) + 1

    def _take(self, line: bytes) -> None:
        try:
            content = json.loads(line)
            if self._read_to == 0:
                self._check_head(content)
                return
            decision = Decision.from_dict(content)
        except InputError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError):
            if self._read_to == 0:
                raise InputError(f"{self.path} is not a file of decisions.") from None
            return  # A killed process left half of a line, which the next line ended.
        self.latest[decision.document] = decision
        self.counts[decision.document] = self.counts.get(decision.document, 0) + 1

    def _check_head(self, content: Any) -> None:
        if not isinstance(content, dict) or content.get("signature") != _SIGNATURE:
            raise InputError(f"{self.path} is not a file of decisions.")
        if content.get("format") != _FORMAT:
            raise InputError(f"{self.path} was written by a newer calibrant.")
        if not self._only_read and content.get("texts") != self._about:
            raise InputError(
                f"{self.path} has decisions about other texts: name another file with -o."
            )

    def _append(self, file: Any, content: Mapping[str, Any]) -> None:
        """Write one line to the disk, or nothing if that fails."""
        end = file.seek(0, os.SEEK_END)
        line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
        if end and end != self._read_to:  # The file ends in half of a line: begin a new one.
            line = b"\n" + line
        try:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(end)
            raise InputError(f"{self.path} cannot be written: {error.strerror}.") from None


@contextmanager
def _lock(file: Any) -> Iterator[None]:
    """Keep other processes out; systems without such locks support only one process."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _fingerprint(documents: Sequence[Document]) -> str:
    digest = sha256()
    for document in sorted(documents, key=lambda one: one.id):
        digest.update(json.dumps([document.id, document.text]).encode())
    return digest.hexdigest()
