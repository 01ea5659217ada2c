"""From audits to one HTML file: the page around the sections."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, cast

import calibrant
from calibrant.auditing import Audit
from calibrant.charts.numbers import count, counted
from calibrant.errors import InputError
from calibrant.old_names import warn_renamed
from calibrant.outputs import new_file
from calibrant.report.markup import Markup, join
from calibrant.report.sections import sections

__all__ = ["render_page", "render_report", "write_report"]


def write_report(
    audits: Mapping[str, Audit] | Audit,
    path: str | Path,
    overwrite: bool = False,
    opening: Markup | None = None,
) -> Path:
    """Write the report of one audit, or of several by name side by side, such as before and after.

    ``opening`` is a section of your own that comes first. The file is self-contained: no
    request leaves the page, and a content security policy with the hashes of its own style and
    script enforces it. Return the path.

    >>> import tempfile
    >>> from calibrant import Predictions, audit
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]] * 20, [0, 1] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(audit(p, bootstrap=0), f"{folder}/audit.html").name
    'audit.html'
    """
    if isinstance(audits, (str, Path)):
        warn_renamed("write_report(path, audits)", "write_report(audits, path)")
        audits, path = cast(Any, path), cast(Any, audits)
    # File names may hold lone surrogates.
    content = render_report(audits, opening).encode("utf-8", "replace")
    with new_file(path, overwrite=overwrite) as unfinished:
        unfinished.write_bytes(content)
    return Path(path)


def render_report(audits: Mapping[str, Audit] | Audit, opening: Markup | None = None) -> str:
    """Return the report as text.

    >>> from calibrant import Predictions, audit
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]] * 20, [0, 1] * 20)
    >>> page = render_report(audit(p, bootstrap=0))
    >>> page.startswith("<!doctype html>"), "http://" in page.replace("http://www.w3.org", "")
    (True, False)
    """
    named = {"audit": audits} if isinstance(audits, Audit) else audits
    if not isinstance(named, Mapping) or not all(isinstance(a, Audit) for a in named.values()):
        raise InputError(
            f"A report takes an audit, or a dict of audits by name, got a {type(audits).__name__}; "
            "audit(predictions) makes one."
        )
    if not named:
        raise InputError("A report needs at least one audit, got none.")
    return render_page(
        "Calibration audit" if len(named) == 1 else _title(named),
        _summary(next(iter(named.values()))),
        join([opening, sections(named)]),
    )


def render_page(title: str, summary: str, body: Markup, style: str = "") -> str:
    """Return a whole page around ``body``; ``style`` follows the style that all reports share."""
    style, script = _asset("style.css") + style, _asset("script.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=calibrant.__version__,
        title=html.escape(title),
        summary=html.escape(summary),
        style=style,
        sections=body,
        script=script,
    )


def _title(audits: Mapping[str, Audit]) -> str:
    names = [name if len(name) <= 60 else name[:59] + "…" for name in audits]
    return "Calibration audit: " + " and ".join(names)


def _summary(audit: Audit) -> str:
    state = audit.state
    kind = str(audit.provenance.get("kind"))
    entities = kind == "entities"  # Their state knows right and wrong alone.
    item = {"entities": "entity", "multi-label": "label"}.get(kind, "example")
    classes = len(audit.label_names) if entities else state.classes
    parts = [
        counted(round(float(state.n)), item),
        *([counted(classes, "type" if entities else "class")] if classes else []),
        counted(state.bins.count, "bin"),
    ]
    if state.ignored:
        missing = int(audit.provenance.get("unlabelled", 0))
        if state.ignored - missing:
            why = "label −100 or weight 0" if state.weighted else "label −100"
            parts.append(f"{count(state.ignored - missing)} ignored ({why})")
        if missing:
            parts.append(f"{count(missing)} without a label")
    return " · ".join(parts)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """Return the hash of an inline style or script in a content security policy's notation."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
