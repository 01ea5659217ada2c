"""Asking the hub: where there is no network, its cache alone, at once and without noise."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from calibrant.extras import require

__all__ = ["asking_the_hub", "first_line", "reachable"]

_SECONDS = (
    5.0  # For one attempt; the hub's own library tries for half a minute, and more than once.
)


def first_line(error: BaseException) -> str:
    """Return the first line of an error, as a sentence.

    >>> first_line(OSError("No connection\\nCheck your cable."))
    'No connection.'
    """
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".") + "."


@contextlib.contextmanager
def asking_the_hub(name: str) -> Iterator[None]:
    """Let ``name`` come from the hub, or from its cache if the hub is out of reach, or a folder."""
    hub = require("huggingface_hub", "transformers", "Asking the hub")
    if Path(name).is_dir() or reachable(hub.constants.ENDPOINT):
        yield
        return
    places = [hub.constants]
    if "datasets" in sys.modules:
        places.append(sys.modules["datasets"].config)
    before = [place.HF_HUB_OFFLINE for place in places]
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    try:
        for place in places:
            place.HF_HUB_OFFLINE = True
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


@functools.lru_cache(maxsize=8)
def reachable(endpoint: str) -> bool:
    """Return whether the host responds (cached). Behind a proxy only the proxy knows: True."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
