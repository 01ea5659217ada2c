"""Read inputs and options from a request within limits; each refusal has its status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from calibrant.inputs import shortened
from calibrant.serving.pictures import read_encoded, read_picture
from calibrant.serving.refusal import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from calibrant.tasks.predictor import Predictor

__all__ = [
    "Asked",
    "Limits",
    "Options",
    "media_type",
    "option_names",
    "read_body",
    "read_object",
    "read_request",
]

_TOO_LARGE = 2**63  # Of a number; infinity and NaN are not below it either.
_TOGETHER = 8  # The images of a request may have this many times the pixels of one.
# What an option must be, if it is not any number.
_KINDS: dict[str, tuple[Any, str]] = {
    "top_k": (int, "a whole number"),
    "maps": (bool, "true or false"),
}


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of how many inputs may wait.

    ``body`` is in bytes. ``seconds`` is the time from the complete request to its answer, and
    ``body_seconds`` the time in which the body must arrive. ``pixels`` is the size of one image;
    the images of one request have at most eight times as many, because small files may be large
    pictures.

    >>> Limits(inputs=32, seconds=5).body
    16000000
    >>> Limits(queue=0)
    Traceback (most recent call last):
    ...
    ValueError: The limit 'queue' must be positive.
    """

    body: int = 16_000_000
    inputs: int = 256
    characters: int = 100_000
    pixels: int = 16_000_000
    queue: int = 1024
    batch: int = 64
    seconds: float = 30.0
    body_seconds: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"The limit '{field.name}' must be positive.")


@dataclass(frozen=True)
class Options:
    """How predictions are accepted and shown; equal options share a batch.

    ``maps`` adds the pictures of a mask: the class and the confidence of each pixel.
    """

    top_k: int = 1
    min_confidence: float = 0.0
    target_risk: float | None = None
    level: float = 0.9
    maps: bool = False


@dataclass(frozen=True)
class Asked:
    """The inputs and options of a request; ``single`` if it has one input outside a list."""

    inputs: list[Any]
    options: Options
    single: bool


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body within the limits of size and time."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":  # A small compressed body may be a huge one.
        raise Refusal(415, f"Send the body as it is, without Content-Encoding '{coding[:40]}'.")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.body:
        raise _too_large(limits)
    from starlette.requests import ClientDisconnect

    try:
        return await asyncio.wait_for(_read(request, limits), limits.body_seconds)
    except ClientDisconnect:  # Nobody reads this answer, but the log and the measurements have it.
        raise Refusal(400, "The client left before the end of the body.") from None
    except (TimeoutError, asyncio.TimeoutError):  # Two names before Python 3.11.
        raise Refusal(408, f"The body took longer than {limits.body_seconds:g} seconds.") from None


async def _read(request: Request, limits: Limits) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.body:
            raise _too_large(limits)
        parts.append(part)
    return b"".join(parts)


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"The body is larger than {limits.body:,} bytes: send less at once.")


def read_request(kind: str, body: bytes, predictor: Predictor, limits: Limits) -> Asked:
    """Return what a body asks for; ``kind`` is its content type."""
    kind = media_type(kind)
    images = predictor.unit == "images"
    if images and kind.startswith("image/"):
        return Asked([read_picture(body, "The body", limits.pixels)], Options(), single=True)
    if kind != "application/json":
        also = " or as an image (image/png, image/jpeg)" if images else ""
        raise Refusal(415, f"Send the request as application/json{also}, got '{kind[:80]}'.")
    content = read_object(body)
    one, many = ("image", "images") if images else ("text", "texts")
    given, single = _given(content, one, many)
    _check_count(given, many, limits)
    known = option_names(predictor.makes_masks)
    others = {name: value for name, value in content.items() if name not in (one, many)}
    options = _options(others, [one, many], known)
    names = [f"'{one}'" if single else f"{one} {number}" for number in range(len(given))]
    read = _read_images if images else _read_texts
    return Asked(read(given, names, limits), options, single)


def media_type(header: str) -> str:
    """Return the type of a header Content-Type, without its parameters.

    >>> media_type("Application/JSON ; charset=utf-8")
    'application/json'
    """
    return header.split(";")[0].strip().lower()


def read_object(body: bytes) -> dict[str, Any]:
    """Return the object that a body is, in UTF-8; a field that it has twice is an error."""
    try:
        content = json.loads(
            body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_fields
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError) as error:
        raise Refusal(400, f"The body is not valid JSON: {shortened(str(error), 120)}.") from None
    if not isinstance(content, dict):
        raise Refusal(422, f"The body must be a JSON object, got {_kind_of(content)}.")
    return content


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object, if no other reader could take another one of two."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field '{shortened(twice, 60)}' occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def _kind_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")


def _given(content: Mapping[str, Any], one: str, many: str) -> tuple[list[Any], bool]:
    if (one in content) == (many in content):
        raise Refusal(422, f"Give either '{one}' or a list '{many}'.")
    if one in content:
        return [content[one]], True
    if not isinstance(content[many], list):
        raise Refusal(422, f"'{many}' must be a list, got {_kind_of(content[many])}.")
    return content[many], False


def _check_count(given: list[Any], many: str, limits: Limits) -> None:
    most = min(limits.inputs, limits.queue)
    if not given:
        raise Refusal(422, f"'{many}' is empty.")
    if len(given) > most:
        raise Refusal(413, f"{len(given):,} {many} are more than {most:,}: send them in parts.")


def option_names(masks: bool) -> list[str]:
    """Return the options of a request; only masks have maps."""
    return [field.name for field in fields(Options) if masks or field.name != "maps"]


def _options(given: Mapping[str, Any], inputs: list[str], known: list[str]) -> Options:
    for name in given:
        if name not in known:
            names = ", ".join([*inputs, *known])
            raise Refusal(422, f"Unknown field '{shortened(name, 60)}'. Known: {names}.")
    options = Options(**{name: _option(name, value) for name, value in given.items()})
    if not 0 < options.level < 1:  # Also without a target risk, which alone uses it.
        raise Refusal(422, f"'level' must be between 0 and 1, got {options.level:g}.")
    return options


def _option(name: str, value: Any) -> Any:
    kind, words = _KINDS.get(name, ((int, float), "a number"))
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has only one kind of number: 3.0 is a whole one.
    fine = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if not fine:
        raise Refusal(422, f"'{name}' must be {words}, got {_kind_of(value)}.")
    if not abs(value) < _TOO_LARGE:
        raise Refusal(422, f"'{name}' must be {words} between −2⁶³ and 2⁶³.")
    return value


def _read_texts(given: list[Any], names: list[str], limits: Limits) -> list[Any]:
    return [_read_text(value, name, limits) for value, name in zip(given, names, strict=True)]


def _read_images(given: list[Any], names: list[str], limits: Limits) -> list[Any]:
    found, left = [], _TOGETHER * limits.pixels
    for value, name in zip(given, names, strict=True):
        picture = _read_image(value, name, limits)
        left -= picture.width * picture.height
        if left < 0:
            raise Refusal(
                413,
                f"The images have more than {_TOGETHER * limits.pixels:,} pixels together: send "
                "them in parts.",
            )
        found.append(picture)
    return found


def _read_text(value: Any, where: str, limits: Limits) -> str:
    if not isinstance(value, str):
        raise Refusal(422, f"{where} must be a text, got {_kind_of(value)}.")
    if len(value) > limits.characters:
        raise Refusal(
            413,
            f"{where} has {len(value):,} characters, more than {limits.characters:,}: send it in "
            "parts.",
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal(
            422, f"{where} has half of a surrogate pair, which is not a character."
        ) from None
    return value


def _read_image(value: Any, where: str, limits: Limits) -> Any:
    if not isinstance(value, str):
        raise Refusal(422, f"{where} must be an image in base64, got {_kind_of(value)}.")
    return read_encoded(value, where, limits.pixels)
