"""Serve the page of a review: the next document, its decision, and the progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import has_half_a_character, shortened
from calibrant.json_values import FORMAT
from calibrant.reviewing.decisions import Decisions, Stale
from calibrant.reviewing.documents import Document, Span, by_gain, check_spans, expected_gain
from calibrant.serving.answers import Guard, error_handlers, json_answer, page_answer, static
from calibrant.serving.refusal import Refusal
from calibrant.serving.requests import Limits, media_type, read_body, read_object

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["review_app"]

_LEASE = 600.0  # Seconds for which a document is reserved for the reviewer who sees it.


def review_app(
    documents: Sequence[Document],
    decisions: Decisions,
    types: Sequence[str],
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    lease: float = _LEASE,
) -> Starlette:
    """Return the application; ``types`` are the allowed types of entities."""
    review = _Review(documents, decisions, types, lease)
    require("starlette", "serve", "A page")
    from starlette.applications import Starlette

    guard = Guard(token, hosts)
    routes = [
        guard("/next", review.next),
        guard("/decisions", review.decide, "POST"),
        guard("/about", review.about),
        guard("/healthz", review.health, open_to_all=True),
        guard("/", review.page, open_to_all=True),
        guard("/static/{name}", static, open_to_all=True),
    ]
    return Starlette(routes=routes, exception_handlers=error_handlers)


class _Review:
    def __init__(
        self,
        documents: Sequence[Document],
        decisions: Decisions,
        types: Sequence[str],
        lease: float,
    ) -> None:
        self.queue, self.decisions = by_gain(documents), decisions
        self.by_id = {one.id: one for one in documents}
        self.errors = {one.id: expected_gain(one) * len(one.entities) for one in documents}
        self.types, self.lease = tuple(types), lease
        self.leases: dict[str, tuple[str, float]] = {}
        self.later: dict[str, list[str]] = {}  # What each reviewer wants to see last.
        self.limits = Limits()
        self._lock = asyncio.Lock()

    async def next(self, request: Request) -> Response:
        """Answer GET /next?reviewer=NAME[&later=ID][&again=ID]: the document with most to gain.

        ``later`` is a document that the reviewer wants to see again after all others, ``again`` a
        decided one to decide once more.
        """
        reviewer = _reviewer(request.query_params.get("reviewer"))
        async with self._lock:
            try:
                await asyncio.to_thread(self.decisions.refresh)
            except InputError as error:
                raise Refusal(503, str(error)) from None
            self._postpone(reviewer, request.query_params.get("later"))
            again = request.query_params.get("again")
            found = self._next(reviewer) if again is None else self._again(again)
        content: dict[str, Any] = {"format": FORMAT, **self._progress()}
        if found is not None:
            content["document"] = {
                "id": found.id,
                "text": found.text,
                "entities": [span.to_dict() for span in found.entities],
                "seen": self.decisions.counts.get(found.id, 0),
            }
        return json_answer(content)

    def _postpone(self, reviewer: str, document: str | None) -> None:
        """Put a document behind all others, and let other reviewers have it."""
        if document not in self.by_id:
            return
        waiting = self.later.setdefault(reviewer, [])
        self.later[reviewer] = [one for one in waiting if one != document] + [document]
        if self.leases.get(document, ("",))[0] == reviewer:
            del self.leases[document]

    def _next(self, reviewer: str) -> Document | None:
        """Return the first open document that nobody else reviews, postponed ones last."""
        now = time.monotonic()
        later = dict.fromkeys(self.later.get(reviewer, ()))
        again = [self.by_id[name] for name in later]
        for one in (*(one for one in self.queue if one.id not in later), *again):
            decided = one.id in self.decisions.latest
            if not decided and not self._taken(one.id, reviewer, now):
                self.leases[one.id] = (reviewer, now + self.lease)
                return one
        return None

    def _again(self, name: str) -> Document:
        """Return a decided document with the entities of its decision."""
        decision = self.decisions.latest.get(name)
        if name not in self.by_id or decision is None:
            raise Refusal(404, "There is no decision about such a document.")
        shown = {(one.start, one.end, one.type): one for one in decision.predicted}
        kept = (shown.get((one.start, one.end, one.type), one) for one in decision.entities)
        return Document(name, decision.text, tuple(kept))

    def _taken(self, document: str, reviewer: str, now: float) -> bool:
        owner, until = self.leases.get(document, (reviewer, 0.0))
        return owner != reviewer and now < until

    def _progress(self) -> dict[str, Any]:
        done = sum(one.id in self.decisions.latest for one in self.queue)
        left = [one for one in self.queue if one.id not in self.decisions.latest]
        errors = sum(self.errors[one.id] for one in left)
        return {"done": done, "left": len(left), "errors_left": round(errors, 2)}

    async def decide(self, request: Request) -> Response:
        """Answer POST /decisions: save the decision to the disk, then answer."""
        if media_type(request.headers.get("content-type", "")) != "application/json":
            raise Refusal(415, "Send the decision as application/json.")
        content = read_object(await read_body(request, self.limits))
        document = self.by_id.get(str(content.get("document")))
        if document is None:
            raise Refusal(404, "There is no such document.")
        spans, seen = _spans(content.get("entities")), content.get("seen")
        if type(seen) is not int:
            raise Refusal(422, "'seen' must be the number that /next returned with the document.")
        reviewer = _reviewer(content.get("reviewer"))
        try:
            check_spans(document.text, spans, self.types)
        except InputError as error:
            raise Refusal(422, str(error)) from None
        async with self._lock:
            await self._save(document, spans, reviewer, seen)
        self.leases.pop(document.id, None)
        return json_answer({"format": FORMAT, "saved": document.id, **self._progress()})

    async def _save(self, document: Document, spans: list[Span], reviewer: str, seen: int) -> None:
        try:
            await asyncio.to_thread(
                self.decisions.add, document.id, spans, document.entities, reviewer, seen
            )
        except Stale:
            if self._has(document, spans, reviewer):
                return  # The answer to the first request got lost, and the page sent it again.
            raise Refusal(
                409,
                "Somebody else has reviewed this document in the meantime: go on with Later (n).",
            ) from None
        except InputError as error:
            raise Refusal(507, f"The decision is not saved. {error}") from None

    def _has(self, document: Document, spans: list[Span], reviewer: str) -> bool:
        """Return whether the last decision about a document is this one of this reviewer."""
        last = self.decisions.latest.get(document.id)
        return last is not None and (last.reviewer, last.entities) == (
            reviewer,
            tuple(sorted(spans)),
        )

    async def about(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /about."""
        return json_answer({"format": FORMAT, "types": list(self.types), **self._progress()})

    async def health(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /healthz."""
        return json_answer({"status": "ok"})

    async def page(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /."""
        return page_answer("review.html")


def _spans(given: Any) -> list[Span]:
    """Return the entities of a decision."""
    if not isinstance(given, list):
        raise Refusal(422, "'entities' must be a list.")
    found = []
    for one in given:
        known = isinstance(one, dict) and set(one) == {"start", "end", "type"}
        if not known or not isinstance(one["type"], str):
            raise Refusal(422, "An entity must be an object with start, end and type.")
        if not all(type(one[name]) is int for name in ("start", "end")):
            raise Refusal(422, "The start and end of an entity must be whole numbers.")
        found.append(Span(one["start"], one["end"], one["type"]))
    return found


def _reviewer(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 80:
        shown = shortened(repr(name), 40)
        raise Refusal(422, f"'reviewer' must be a name of at most 80 characters, got {shown}.")
    if has_half_a_character(name):
        raise Refusal(422, "'reviewer' has half of a surrogate pair, which is not a character.")
    return name.strip()
