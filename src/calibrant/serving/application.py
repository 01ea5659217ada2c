"""Build the ASGI application: predictions, health, measurements, the schema and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.json_values import FORMAT, json_values
from calibrant.serving.access import check_form
from calibrant.serving.answers import Guard, error_handlers, json_answer, page_answer, static
from calibrant.serving.batching import Batcher, QueueFull
from calibrant.serving.measurements import Measurements
from calibrant.serving.openapi import describe
from calibrant.serving.pictures import with_maps
from calibrant.serving.refusal import Refusal
from calibrant.serving.requests import Asked, Limits, Options, read_body, read_request

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response

    from calibrant.policies import Policy
    from calibrant.tasks.predictor import Acceptance, Predictor

__all__ = ["app"]

_RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)  # Steps of the page's slider.
_REMEMBERED = 256  # How many different options keep their thresholds.
_INLINE = 100_000  # Bytes; a longer body is read in a thread, so that it does not block others.


def app(
    predictor: Predictor,
    *,
    policy: Policy | str | Path | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
    report: str | Path | None = None,
    log_texts: bool = False,
) -> Starlette:
    """Return a service of ``predictor`` as an ASGI application, to run or to mount.

    ``policy`` decides what is accepted. With a ``token``, each request needs it, except
    ``/healthz`` and the page itself. ``hosts`` are the names that the service answers to (None:
    any). ``origins`` are other sites whose pages may send requests. ``report`` is an HTML file for
    ``/report``.
    """
    return _Service(
        predictor, policy, limits or Limits(), token, hosts, origins, report, log_texts
    ).application()


class _Service:
    def __init__(
        self,
        predictor: Predictor,
        policy: Policy | str | Path | None,
        limits: Limits,
        token: str | None,
        hosts: Collection[str] | None,
        origins: Collection[str],
        report: str | Path | None,
        log_texts: bool,
    ) -> None:
        self.predictor, self.limits, self.token = predictor, limits, token
        self.hosts, self.origins, self.log_texts = hosts, origins, log_texts
        self.report = None if report is None else Path(report)
        self.policy = None if policy is None else predictor.checked_policy(policy)
        self._accepting: dict[Options, Acceptance] = {}
        self._accept(Options())  # A policy that does not fit fails here, not in a request.
        self.batcher = Batcher(
            self._predict, most=limits.batch, limit=limits.queue, observe=self._observe
        )
        self.measured = Measurements(predictor.expected_confidence(), self.batcher.__len__)

    def _observe(self, size: int) -> None:
        self.measured.batch(size)

    def _accept(self, options: Options) -> Acceptance:
        """Return what is accepted, cached by options because it reads all evidence."""
        if options not in self._accepting:
            found = self.predictor.acceptance(
                min_confidence=options.min_confidence,
                target_risk=options.target_risk,
                level=options.level,
                policy=self.policy,
            )
            if len(self._accepting) >= _REMEMBERED:
                self._accepting.clear()
            self._accepting[options] = found
            return found
        return self._accepting[options]

    def _predict(self, inputs: Sequence[Any], options: Any) -> list[Any]:
        accept = self._accept(options)
        return list(self.predictor.stream(inputs, top_k=options.top_k, accept=accept))

    def application(self) -> Starlette:
        """Return the routes."""
        require("starlette", "serve", "A service")
        from starlette.applications import Starlette

        guard = Guard(self.token, self.hosts, self.origins, self.measured.answered)
        routes = [
            guard("/predict", self.predict, "POST"),
            guard("/healthz", self.health, open_to_all=True),
            guard("/metrics", self.metrics),
            guard("/openapi.json", self.schema),
            guard("/about", self.about),
            guard("/report", self.show_report),
            guard("/report", self.open_report, "POST", open_to_all=True),
            guard("/", self.page, open_to_all=True),
            guard("/static/{name}", static, open_to_all=True),
        ]
        return Starlette(
            routes=routes, exception_handlers=error_handlers, middleware=self._for_other_sites()
        )

    def _for_other_sites(self) -> list[Middleware]:
        """Let browsers show the answers to pages of the other sites that may ask."""
        from starlette.middleware import Middleware
        from starlette.middleware.cors import CORSMiddleware

        if not self.origins:
            return []
        return [
            Middleware(
                CORSMiddleware,
                allow_origins=list(self.origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
            )
        ]

    async def predict(self, request: Request) -> Response:
        """Answer POST /predict."""
        body = await read_body(request, self.limits)
        kind = request.headers.get("content-type", "")
        given = (kind, body, self.predictor, self.limits)
        if len(body) > _INLINE or self.predictor.unit == "images":
            asked = await asyncio.to_thread(read_request, *given)
        else:
            asked = read_request(*given)
        request.state.noted = {"inputs": len(asked.inputs)}
        if self.log_texts and self.predictor.unit == "texts":
            request.state.noted["texts"] = asked.inputs
        accept = await self._checked(asked.options)
        found = await self._run(asked)
        self.measured.predicted(found)
        shown = [prediction.to_dict() for prediction in found]
        if asked.options.maps:
            shown = await asyncio.to_thread(with_maps, shown, found)
        content: dict[str, Any] = {"format": FORMAT, "predictions": shown}
        if (meaning := accept.meaning()) is not None:
            content["guarantee"] = json_values(meaning)
        return json_answer(content)

    async def _checked(self, options: Options) -> Acceptance:
        from calibrant.tasks.predictor import check_top_k

        try:
            check_top_k(options.top_k)
            if options in self._accepting:
                return self._accepting[options]
            return await asyncio.to_thread(self._accept, options)
        except InputError as error:
            raise Refusal(422, str(error)) from None

    async def _run(self, asked: Asked) -> list[Any]:
        """Predict within the time limit, or refuse."""
        try:
            return await asyncio.wait_for(
                self.batcher.submit(asked.inputs, asked.options), self.limits.seconds
            )
        except QueueFull:
            raise Refusal(
                503, "Too many inputs are waiting: try again soon.", {"Retry-After": "1"}
            ) from None
        except (TimeoutError, asyncio.TimeoutError):  # Two names before Python 3.11.
            raise Refusal(
                503,
                f"The prediction took longer than {self.limits.seconds:g} seconds.",
                {"Retry-After": "5"},
            ) from None
        except InputError as error:
            raise Refusal(422, str(error)) from None

    async def health(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /healthz."""
        return json_answer({"status": "ok", "waiting": len(self.batcher)})

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /metrics."""
        from starlette.responses import Response

        return Response(self.measured.text(), media_type=self.measured.content_type)

    async def schema(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /openapi.json."""
        return json_answer(describe(self.predictor, self.limits, token=self.token is not None))

    async def about(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /about: what the page needs to know."""
        return json_answer(json_values(await asyncio.to_thread(self._about)))

    def _about(self) -> dict[str, Any]:
        predictor = self.predictor
        return {
            "format": FORMAT,
            "unit": predictor.unit,
            "entities": predictor.finds_entities,
            "masks": predictor.makes_masks,
            "labels": list(predictor.labels),
            "calibrator": predictor.calibrator.name,
            "policy": None if self.policy is None else str(self.policy),
            "sets": self.policy is not None and self.policy.kind == "coverage",
            "report": self.report is not None,
            "risks": [] if self.policy is not None else self._risks(),
        }

    def _risks(self) -> list[dict[str, Any]]:
        """Return what each target risk of the slider means on validation data."""
        found = [self._accept(Options(target_risk=risk)).guarantee for risk in _RISKS]
        return [{**vars(one), "meaning": str(one)} for one in found if one is not None]

    async def show_report(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /report."""
        from starlette.responses import FileResponse

        if self.report is None or not self.report.is_file():
            raise Refusal(404, "There is no report.")
        sandbox = "sandbox allow-scripts; default-src 'none'; img-src data:; "
        sandbox += "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
        return FileResponse(
            self.report, headers={"Content-Security-Policy": sandbox}, media_type="text/html"
        )

    async def open_report(self, request: Request) -> Response:
        """Answer POST /report: a form with the token, because no link has a header."""
        check_form(await read_body(request, self.limits), self.token)
        return await self.show_report(request)

    async def page(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /."""
        return page_answer("page.html")
