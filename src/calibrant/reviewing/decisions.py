"""Save the decisions of reviewers, one line of JSON each, before the next document is shown.

The file only grows, and several processes may write to it. A later decision about a document
replaces an earlier one, and both stay in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.reviewing.documents import Document, Span
from calibrant.reviewing.journal import Journal

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
        """Return the decision of a line; what a line never has raises a ValueError or the like."""
        names = ("document", "reviewer", "time", "text")
        document, reviewer, time, text = (content[name] for name in names)
        if not all(isinstance(value, str) for value in (document, reviewer, time, text)):
            raise ValueError("expected texts")
        entities, predicted = (
            tuple(Span.from_dict(span, len(text)) for span in content[name])
            for name in ("entities", "predicted")
        )
        return cls(document, entities, predicted, reviewer, time, text)


class Decisions:
    """The decisions in a file; ``latest`` has the valid one of each document.

    ``size`` is the number of documents in the review, ``run`` the fingerprints of the model and the
    calibrator that predicted them, and ``damaged`` the number of lines that a killed process left
    unfinished. A file of decisions about other documents, or about predictions of another run, is
    refused. Without documents it is only read.
    """

    def __init__(
        self,
        path: str | Path,
        documents: Sequence[Document] | None = None,
        run: Mapping[str, str | None] | None = None,
    ) -> None:
        self.path = Path(path)
        if documents is None and not self.path.is_file():
            raise InputError(f"There is no file {self.path}.")
        if documents is not None and self.path.resolve().parent != self.path.parent.resolve():
            raise InputError(
                f"{self.path} is a link to a file in another folder: name that file with -o."
            )
        self._texts = {one.id: one.text for one in documents or ()}
        self._head = None if documents is None else _head(documents, run)
        self._journal = Journal(self.path, self._head)
        self.size: int | None = None
        self.run: Mapping[str, str | None] | None = None
        self.damaged = 0
        self.latest: dict[str, Decision] = {}
        self.counts: dict[str, int] = {}
        self._has_head = False
        self.refresh()
        if not self._has_head:
            raise self._foreign()

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
        with self._journal.locked():
            self._catch_up()
            if self.counts.get(document, 0) != seen:
                raise Stale
            self._journal.append(decision.to_dict())
            self._catch_up()
        return decision

    def refresh(self) -> None:
        """Read what other processes have written."""
        with self._journal.locked():
            self._catch_up()

    def _catch_up(self) -> None:
        for number, line in self._journal.new_lines():
            try:
                content = json.loads(line)
            except ValueError:
                if number == 1:
                    raise self._foreign() from None
                self.damaged += 1  # Half of a line, which the next one ended.
                continue
            if number == 1:
                self._take_head(content)
            else:
                self._take(content, number)

    def _take(self, content: Any, number: int) -> None:
        try:
            decision = Decision.from_dict(content)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise InputError(f"{self.path}, line {number}: this is not a decision.") from None
        self.latest[decision.document] = decision
        self.counts[decision.document] = self.counts.get(decision.document, 0) + 1

    def _take_head(self, content: Any) -> None:
        if not isinstance(content, dict) or content.get("signature") != _SIGNATURE:
            raise self._foreign()
        if content.get("format") != _FORMAT:
            raise InputError(f"{self.path} was written by a newer calibrant.")
        if self._head is not None and content.get("texts") != self._head["texts"]:
            raise InputError(
                f"{self.path} has decisions about other texts: name another file with -o, or give "
                "the same --sample as before."
            )
        size = content.get("documents")
        if type(size) is not int or size < 1:  # A promise needs to know how many are open.
            raise self._foreign()
        self._has_head, self.size, self.run = True, size, content.get("run")
        if self._head is not None and self.run != self._head["run"]:
            raise InputError(
                f"{self.path} has decisions about predictions of another model: name another file "
                "with -o."
            )

    def _foreign(self) -> InputError:
        return InputError(f"{self.path} is not a file of decisions.")


def _head(documents: Sequence[Document], run: Mapping[str, str | None] | None) -> dict[str, Any]:
    digest = sha256()
    for document in sorted(documents, key=lambda one: one.id):
        digest.update(json.dumps([document.id, document.text]).encode())
    known = {"texts": digest.hexdigest(), "documents": len(documents)}
    return {"signature": _SIGNATURE, "format": _FORMAT, **known, "run": run}
