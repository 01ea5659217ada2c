"""``calibrant serve``: predictions with honest confidence over HTTP, and a page."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from calibrant.cli.options import add_device, add_run, add_trust
from calibrant.errors import InputError

__all__ = ["add_parser", "run"]

_LIMITS = {
    "body": "bytes of a request",
    "inputs": "texts or images of a request",
    "characters": "characters of a text",
    "pixels": "pixels of an image",
    "queue": "inputs that may wait; above it the answer is 503",
    "batch": "inputs that run together",
    "seconds": "seconds that an answer may take; above it the answer is 503",
}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "serve",
        help="answer requests over HTTP, with a page that shows predictions",
        description="Serve a training run or an export: POST /predict, /healthz, /metrics for "
        "Prometheus, /openapi.json, and a page at /. It listens on this machine alone unless "
        "--host names an address, which needs a token. Ctrl+C or SIGTERM stops it after the "
        "requests that it has are answered.",
    )
    add_run(parser, " or of 'calibrant export'")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (8000)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on, such as 0.0.0.0 for all; any but this machine's own needs a "
        "token (127.0.0.1)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that requests need (default: the variable CALIBRANT_TOKEN)",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE|NAME",
        help="accept by a policy that 'calibrant guarantee' made, or one that the export holds",
    )
    parser.add_argument(
        "--log-texts", action="store_true", help="write texts into the log, which has none without"
    )
    group = parser.add_argument_group("limits")
    defaults = _limits({})
    for name, words in _LIMITS.items():
        default = getattr(defaults, name)
        group.add_argument(
            f"--max-{name}", type=type(default), metavar="N", help=f"{words} ({default:,})"
        )
    add_device(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def _limits(given: dict[str, Any]) -> Any:
    from calibrant.serving.requests import Limits

    try:
        return Limits(**given)
    except ValueError as error:
        raise InputError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Serve until a signal."""
    from calibrant.extras import require
    from calibrant.loading import load_run
    from calibrant.serving import app
    from calibrant.serving.access import LOOPBACK

    uvicorn = require("uvicorn", "serve", "A service")
    token, local = _token(args), args.host in LOOPBACK
    if token is None and not local:
        raise InputError(
            f"--host {args.host} lets other machines ask: give a token by --token-file or the "
            "variable CALIBRANT_TOKEN."
        )
    given = {name: getattr(args, f"max_{name}") for name in _LIMITS}
    limits = _limits({name: value for name, value in given.items() if value is not None})
    predictor = load_run(args.model, args.device, trust_remote_code=args.trust_remote_code)
    report = Path(args.model) / "report.html"
    application = app(
        predictor,
        policy=args.policy,
        limits=limits,
        token=token,
        hosts=LOOPBACK if local else None,
        report=report if report.is_file() else None,
        log_texts=args.log_texts,
    )
    with _listen(args.host, args.port) as listening:
        _log_as_json()
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(limits.seconds) + 1,
        )
        shown = f"[{args.host}]" if ":" in args.host else args.host
        print(f"Serving {args.model} at http://{shown}:{listening.getsockname()[1]}", flush=True)
        for stop in (signal.SIGINT, signal.SIGTERM):
            # uvicorn ends in good order and then sends itself the signal again.
            signal.signal(stop, lambda *_: None)
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _token(args: argparse.Namespace) -> str | None:
    if args.token_file is None:
        return os.environ.get("CALIBRANT_TOKEN") or None
    try:
        token: str = args.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{args.token_file} cannot be read: {error}") from None
    if not token:
        raise InputError(f"{args.token_file} is empty: put the token into it.")
    return token


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port in use is one clear line."""
    if not 0 <= port <= 65535:
        raise InputError(f"A port lies in 0 to 65535, got {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another --port."
        ) from None


class _Json(logging.Formatter):
    """One JSON object per line, without texts unless the service adds them."""

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
    for name in ("calibrant.serving", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").handlers = []
    logging.getLogger("uvicorn.error").propagate = True
