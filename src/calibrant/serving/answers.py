"""Answer in JSON, send the files of a page, and guard each address, for both applications."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from calibrant.serving.access import check_access, check_site, check_token
from calibrant.serving.refusal import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["Guard", "error_handlers", "json_answer", "page_answer", "static"]

LOGGER = logging.getLogger("calibrant.serving")
_STATIC = ("common.js", "masks.js", "page.js", "page.css", "review.js", "review.css")
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; frame-src blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
Answer = Callable[["Request"], Awaitable["Response"]]


class Guard:
    """Checks who sends a request, and turns every failure into one line.

    ``token``, ``hosts`` and ``origins`` are those of :func:`calibrant.serving.app`. ``answered`` is
    called with the path, status and seconds of each answer.
    """

    def __init__(
        self,
        token: str | None,
        hosts: Collection[str] | None,
        origins: Collection[str] = (),
        answered: Callable[[str, int, float], None] = lambda path, status, seconds: None,  # noqa: ARG005
    ) -> None:
        check_token(token)
        self.token, self.hosts, self.origins = token, hosts, origins
        self.answered = answered

    def __call__(
        self, path: str, answer: Answer, method: str = "GET", *, open_to_all: bool = False
    ) -> Route:
        """Return the address ``path`` with its guard; ``open_to_all`` needs no token."""
        from starlette.routing import Route

        async def guarded(request: Request) -> Response:
            start = time.perf_counter()
            try:
                if request.method != "GET" or not open_to_all:
                    check_site(request, self.hosts, self.origins)
                    check_access(request, None if open_to_all else self.token)
                response = await answer(request)
            except Refusal as refusal:
                response = _error(refusal.status, str(refusal), refusal.headers)
            except Exception as error:
                LOGGER.exception("defect", extra={"fields": {"error": type(error).__name__}})
                response = _error(500, "This is an error in the service; see its log.")
            self._note(request, path, response.status_code, time.perf_counter() - start)
            return response

        return Route(path, guarded, methods=[method])

    def _note(self, request: Request, path: str, status: int, seconds: float) -> None:
        self.answered(path, status, seconds)
        found = {
            "method": request.method,
            "path": path,
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            **getattr(request.state, "noted", {}),
        }
        LOGGER.info("request", extra={"fields": found})


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    from starlette.responses import Response

    # Half of a surrogate pair, which a client may have sent, is no character of an answer.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    more = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **(headers or {})}
    return Response(text, status, more, media_type="application/json")


async def static(request: Request) -> Response:
    """Answer GET /static/NAME: only scripts and styles of the pages."""
    name = request.path_params["name"]
    if name not in _STATIC:
        raise Refusal(404, "There is no such address.")
    return page_answer(name)


def page_answer(name: str) -> Response:
    """Return a file of the pages, which load nothing from other sites."""
    from starlette.responses import Response

    headers = {
        "Content-Security-Policy": _PAGE_POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",  # Without any, a form would come from the origin "null".
    }
    kind = _KINDS["." + name.rpartition(".")[2]]
    return Response(_page_file(name), headers=headers, media_type=kind)


@lru_cache
def _page_file(name: str) -> str:
    return (files("calibrant.serving") / "page" / name).read_text(encoding="utf-8")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return json_answer({"error": message}, status, headers)


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return _error(404, "There is no such address.")


async def _not_allowed(request: Request, error: Any) -> Response:  # noqa: ARG001
    from starlette.routing import Match

    # An address may have several routes, of which Starlette names the first one's methods.
    routes = [one for one in request.app.routes if one.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for one in routes for method in one.methods}))
    return _error(405, "This address does not support the method.", {"Allow": allowed})


error_handlers: dict[Any, Any] = {404: _not_found, 405: _not_allowed}
