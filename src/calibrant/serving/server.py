"""The HTTP server: uvicorn, with an end that loses no request and patience that has an end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from calibrant.extras import require

__all__ = ["server"]

_READING = 6  # Systems report what is read in large steps, so a slow reader needs more time.
_TWO_LENGTHS = b'{"error": "Give Content-Length or Transfer-Encoding, not both."}'
_LAST = 1.0  # Seconds at the end for requests that are already on their way.


def server(application: Any, seconds: float = 30.0, patience: float = 10.0) -> Any:
    """Return the server of an application, a ``uvicorn.Server``.

    At its end, running requests get ``seconds`` to finish. A connection is closed if no head of a
    request arrives for ``patience`` seconds, or nothing of an answer is read for six times as long:
    uvicorn alone waits forever.
    """
    require("uvicorn", "serve", "A service")
    from uvicorn import Config, Server

    class Graceful(Server):
        """Answers what clients have sent before they could know of the end.

        uvicorn alone resets connections that it has not accepted yet, and those whose next request
        it has not read yet.
        """

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Accept who has connected, then nobody else; close idle connections last."""
            loop = asyncio.get_running_loop()
            waiting = _accepted(sockets or ())
            for one in (*self.servers, *(sockets or ())):
                one.close()
            for connection in waiting:
                await loop.connect_accepted_socket(self._protocol, connection)
            end = loop.time() + _LAST
            while self.server_state.connections and loop.time() < end and not self.force_exit:
                await asyncio.sleep(0.02)
            await super().shutdown(sockets)

        def _protocol(self) -> Any:
            build: Any = self.config.http_protocol_class
            return build(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

    running: Any = Graceful(
        Config(
            lambda *given: _answer(application, running, *given),
            interface="asgi3",
            http=_impatient(patience),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(seconds) + 1,
        )
    )
    return running


async def _answer(application: Any, running: Any, scope: Any, receive: Any, send: Any) -> None:
    """Answer a request; at the end, tell the client to send no other one on its connection.

    A request with two lengths is refused (RFC 9112, 6.1): a proxy may have taken the other one, and
    a part of this request for the next.
    """
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
        kind = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": kind})
        await send({"type": "http.response.body", "body": _TWO_LENGTHS})
        return

    async def send_last(message: Any) -> None:
        if running.should_exit and message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    await application(scope, receive, send_last)


def _accepted(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Return the connections that wait to be accepted."""
    found = []
    for listening in sockets:
        listening.setblocking(False)
        with suppress(OSError):  # BlockingIOError: that was the last one.
            while True:
                found.append(listening.accept()[0])
    for connection in found:
        connection.setblocking(False)
    return found


def _impatient(seconds: float) -> Any:
    """Return uvicorn's protocol, for clients that stop to send or to read."""
    # Not the parser of httptools, which reads heads of any size.
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(seconds, self._look, (None, 0), 1)

        def _look(self, before: tuple[Any, int], times: int) -> None:
            """Close the connection if it waits for the client, as at the last looks."""
            if self not in self.connections:  # It is closed.
                return
            request, unread = now = self.cycle, self.transport.get_write_buffer_size()
            times = times + 1 if now == before else 1
            no_request = times > 1 and (request is None or request.response_complete)
            if (no_request and not unread) or (unread and times > _READING):
                self.transport.abort()
            else:
                self.loop.call_later(seconds, self._look, now, times)

    return Impatient
