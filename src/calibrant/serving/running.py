"""Run an application until a signal, with its socket, token and log."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.serving.access import LOOPBACK
from calibrant.serving.server import server

__all__ = ["is_local", "listen", "read_token", "run_application"]


def is_local(host: str) -> bool:
    """Return whether only this machine can send requests to ``host``."""
    return host in LOOPBACK


def read_token(host: str, file: Path | None) -> str | None:
    """Return the token from the file or from CALIBRANT_TOKEN; other machines need one."""
    if file is None:
        token = os.environ.get("CALIBRANT_TOKEN") or None
    else:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {error}") from None
        if not token:
            raise InputError(f"{file} is empty: put the token into it.")
    if token is None and not is_local(host):
        raise InputError(
            f"--host {host} accepts requests from other machines: give a token by --token-file or "
            "the variable CALIBRANT_TOKEN."
        )
    return token


def run_application(
    application: Any,
    host: str,
    port: int,
    what: str,
    *,
    seconds: float = 30.0,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until a signal; running requests get ``seconds`` to finish.

    ``prepare`` is called first, as soon as the port is ours; requests wait meanwhile.
    """
    running = server(application, seconds)
    with listen(host, port) as listening:
        prepare()
        _log_as_json()
        shown = f"[{host}]" if ":" in host else host
        print(f"{what} at http://{shown}:{listening.getsockname()[1]}", flush=True)
        for stop in (signal.SIGINT, signal.SIGTERM):
            # uvicorn shuts down gracefully and then sends itself the signal again.
            signal.signal(stop, lambda *_: None)
        running.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; a port in use is an error of one line."""
    if not 0 <= port <= 65535:
        raise InputError(f"A port must be between 0 and 65535, got {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
        # asyncio does not set it on a socket that is made like this: answers would wait 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another --port."
        ) from None


class _Json(logging.Formatter):
    """Writes one JSON object per line, without texts unless the service adds them."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    for name in ("calibrant.serving", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
