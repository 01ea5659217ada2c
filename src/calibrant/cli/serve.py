"""``calibrant serve``: answer requests with honest confidence over HTTP, with a page."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import add_address, add_device, add_run, add_trust
from calibrant.errors import CalibrantError, InputError, printable
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Predictor

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
    parser.add_argument(
        "--runtime",
        choices=("auto", "torch", "onnxruntime"),
        default="auto",
        help="what runs the model of a run on the processor: onnxruntime, which prepares it for "
        "some seconds and then predicts single inputs several times as fast as torch; auto: "
        "onnxruntime where 'calibrant[onnx]' is installed and gives the same probabilities, "
        "otherwise torch (auto)",
    )
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
    _check_predicts(predictor, args.model)
    application = app(
        predictor,
        policy=args.policy,
        limits=limits,
        token=token,
        hosts=LOOPBACK if is_local(args.host) else None,
        report=_report(Path(args.model)),
        log_texts=args.log_texts,
    )
    what = f"Serving {printable(str(args.model))}"
    run_application(
        application,
        args.host,
        args.port,
        what,
        seconds=limits.seconds,
        prepare=lambda: _choose_runtime(predictor, args.runtime),
    )
    return 0


def _check_predicts(predictor: Predictor, model: str) -> None:
    """Predict once before the first request: a damaged model is one line at the start."""
    import numpy as np

    given = np.zeros((64, 64), np.uint8) if predictor.unit == "images" else "Anna met Bob in Rome."
    try:
        list(predictor.stream([given]))
    except Exception as error:
        raise InputError(f"The model of {model} cannot predict: {_one_line(error)}") from None


def _choose_runtime(predictor: Predictor, wanted: str) -> None:
    """Let onnxruntime run a model that torch runs on the processor, if it can.

    docs/decisions/0023-the-runtime-of-the-service.md has the reasons.
    """
    from calibrant.tasks.scoring import TorchScorer

    scorer = predictor.scorer
    if not isinstance(scorer, TorchScorer):
        if wanted == "torch":
            raise InputError("An export is run by onnxruntime, not by torch: name its run.")
        return
    if wanted == "torch" or (wanted == "auto" and not scorer.on_processor):
        return
    if wanted == "auto" and not _can_export():
        print(
            "The model runs by torch; onnxruntime is faster for single inputs: "
            "pip install 'calibrant[onnx]'",
            file=sys.stderr,
        )
        return
    print("Preparing the model for onnxruntime; '--runtime torch' does not.", file=sys.stderr)
    try:
        _run_by_onnxruntime(predictor)
    except CalibrantError as error:
        if wanted != "auto":
            raise
        print(f"The model runs by torch. {error}", file=sys.stderr)


def _can_export() -> bool:
    from calibrant.export.tracing import NEEDED

    return all(find_spec(name) is not None for name in NEEDED)


def _run_by_onnxruntime(predictor: Predictor) -> None:
    """Change the runtime; each of the many errors of exporters becomes one line."""
    from calibrant.export import run_by_onnxruntime

    try:
        run_by_onnxruntime(predictor)
    except CalibrantError:
        raise
    except Exception as error:
        raise InputError(f"onnxruntime cannot run this model: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return shortened(str(error).replace("\n", " "), 200) or type(error).__name__


def _report(folder: Path) -> Path | None:
    """Return the report of a run; a link that leads out of the folder is none."""
    path = folder / "report.html"
    inside = path.resolve().is_relative_to(folder.resolve())
    return path if inside and path.is_file() else None
