"""Who may ask: the token, the hosts that the service answers to, and no other site's pages."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from calibrant.errors import InputError
from calibrant.serving.requests import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["LOOPBACK", "check_access", "check_site", "check_token"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


def check_site(
    request: Request, hosts: Collection[str] | None, origins: Collection[str] = ()
) -> None:
    """Refuse a request that a page of another site made, or that names a host we are not.

    A name that an attacker points at this machine would let their page read the answers, so a
    service on the loopback answers only to the names of the loopback (``hosts``). ``origins`` are
    other sites whose pages may ask.
    """
    host = request.headers.get("host", "")
    if hosts is not None and _name(host) not in hosts:
        raise Refusal(421, f"This service is not '{host[:80]}': ask it by {', '.join(hosts)}.")
    origin = request.headers.get("origin")
    if origin in origins:
        return
    foreign = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if foreign or (origin is not None and urlsplit(origin).netloc != host):
        raise Refusal(403, "Requests of pages of another site are refused.")


def _name(host: str) -> str:
    """Return the host without its port."""
    name, _, port = host.rpartition(":")
    return name.lower() if name and port.isdigit() else host.lower()


def check_token(token: str | None) -> None:
    """Raise an error for a token that no header can carry."""
    if token is None:
        return
    if not token or not all("!" <= character <= "~" for character in token):
        raise InputError("A token has letters, digits and signs of ASCII, without spaces.")


def check_access(request: Request, token: str | None) -> None:
    """Refuse a request without the token, if there is one."""
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.encode()):
        raise Refusal(
            401,
            "This service needs its token: send the header 'Authorization: Bearer TOKEN'.",
            {"WWW-Authenticate": "Bearer"},
        )
