"""Check who may send requests: the token, the host names, and no pages of other sites."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from calibrant.errors import InputError
from calibrant.serving.refusal import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["LOOPBACK", "check_access", "check_form", "check_site", "check_token"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


def check_site(
    request: Request, hosts: Collection[str] | None, origins: Collection[str] = ()
) -> None:
    """Refuse a request from a page of another site, or for a host name that is not ours.

    If an attacker pointed a name at this machine, their page could read the answers. A service on
    the loopback therefore answers only to the names of the loopback (``hosts``). ``origins`` are
    other sites whose pages may send requests.
    """
    host = request.headers.get("host", "")
    if hosts is not None and _name(host) not in hosts:
        raise Refusal(421, f"Unknown host name '{host[:80]}': send requests to {', '.join(hosts)}.")
    origin = request.headers.get("origin")
    if origin in origins:
        return
    foreign = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if foreign or (origin is not None and _host_of(origin) != host):
        raise Refusal(403, "Requests from pages of other sites are refused.")


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # Such as "http://[".
        return None


def _name(host: str) -> str:
    """Return the host without its port."""
    name, _, port = host.rpartition(":")
    return name.lower() if name and port.isdigit() else host.lower()


def check_token(token: str | None) -> None:
    """Raise an error for a token that no header can carry."""
    if token is None:
        return
    if not token or not all("!" <= character <= "~" for character in token):
        raise InputError("A token must consist of ASCII letters, digits and signs, without spaces.")


def check_access(request: Request, token: str | None) -> None:
    """Refuse a request without the token, if there is one."""
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        given = ""
    _compare(given, token)


def check_form(body: bytes, token: str | None) -> None:
    """Refuse a form without the token: a page that opens another one sends no header."""
    if token is not None:
        _compare(parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0], token)


def _compare(given: str, token: str) -> None:
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise Refusal(
            401,
            "This service needs a token: send the header 'Authorization: Bearer TOKEN'.",
            {"WWW-Authenticate": "Bearer"},
        )
