"""``calibrant serve``: answer requests with honest confidence over HTTP, with a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibrant.cli.options import add_address, add_device, add_run, add_trust
from calibrant.errors import InputError

__all__ = ["add_parser", "run"]

_LIMITS = {
    "body": "most bytes of a request",
    "inputs": "most texts or images of a request",
    "characters": "most characters of a text",
    "pixels": "most pixels of an image",
    "queue": "most inputs that may wait; above this the answer is 503",
    "batch": "most inputs that run together",
    "seconds": "most seconds for an answer; above this the answer is 503",
}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "serve",
        help="answer requests over HTTP, with a page that shows predictions",
        description="Serve a training run or an export: POST /predict, /healthz, /metrics for "
        "Prometheus, /openapi.json, and a page at /. It only accepts requests from this "
        "machine unless --host names an address, which needs a token. Ctrl+C or SIGTERM stops it "
        "after all waiting requests are answered.",
    )
    add_run(parser, " or of 'calibrant export'")
    add_address(parser)
    parser.add_argument(
        "--policy",
        metavar="FILE|NAME",
        help="accept by this policy of 'calibrant guarantee', or of the export, by name",
    )
    parser.add_argument("--log-texts", action="store_true", help="also write texts into the log")
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
    from calibrant.loading import load_run
    from calibrant.serving import app
    from calibrant.serving.access import LOOPBACK
    from calibrant.serving.running import is_local, read_token, run_application

    token = read_token(args.host, args.token_file)
    given = {name: getattr(args, f"max_{name}") for name in _LIMITS}
    limits = _limits({name: value for name, value in given.items() if value is not None})
    predictor = load_run(args.model, args.device, trust_remote_code=args.trust_remote_code)
    report = Path(args.model) / "report.html"
    application = app(
        predictor,
        policy=args.policy,
        limits=limits,
        token=token,
        hosts=LOOPBACK if is_local(args.host) else None,
        report=report if report.is_file() else None,
        log_texts=args.log_texts,
    )
    what = f"Serving {args.model}"
    run_application(application, args.host, args.port, what, seconds=limits.seconds)
    return 0
