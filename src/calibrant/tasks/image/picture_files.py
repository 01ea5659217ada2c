"""Read image files as bytes, grey or coloured, from any format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.tasks.image.framing import Framing

__all__ = [
    "SUFFIXES",
    "in_bytes",
    "in_channels",
    "is_grey",
    "open_image",
    "opened_picture",
    "resized",
    "upright_size",
]

SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm",
)  # fmt: skip

_ORIENTATION = 0x0112  # The tag of EXIF. Its values, and how Pillow turns each picture upright:
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


@contextmanager
def opened_picture(path: Path) -> Iterator[Any]:
    """Open a picture; any fault of the file becomes a one-line error."""
    pillow = require("PIL.Image", "data", "Reading images")
    try:
        with pillow.open(path) as picture:
            yield picture
    except InputError:
        raise
    except pillow.DecompressionBombError:
        raise InputError(f"{path} has too many pixels to be read.") from None
    except (OSError, SyntaxError, ValueError):
        raise InputError(f"{path} is not an image that can be read.") from None


def open_image(path: Path, size: Framing | int | None = None) -> np.ndarray:
    """Read an image file as (height, width, 1 or 3) of bytes, scaled to ``size`` if given."""
    with opened_picture(path) as picture:
        return resized(picture, size)


def resized(picture: Any, size: Framing | int | None) -> np.ndarray:
    """Return a Pillow image as (height, width, 1 or 3) of bytes, scaled to ``size``."""
    whole = in_bytes(picture)
    if isinstance(size, Framing):
        pixels = np.asarray(size(whole))
    else:
        pixels = np.asarray(whole.resize((size, size)) if size else whole)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def in_bytes(picture: Any) -> Any:
    """Return the picture upright, in grey or in red, green and blue, with 8 bits each.

    Grey of 16 bits is scaled; Pillow alone would turn most of it white. Transparent pixels become
    opaque. Cameras store a picture as their sensor lay, and EXIF says how to show it.
    """
    whole, turn = _in_eight_bits(picture), _turn(picture)
    return whole if turn is None else whole.transpose(turn)


def upright_size(picture: Any) -> tuple[int, int]:
    """Return width and height as :func:`in_bytes` gives them, without reading the pixels."""
    unread = picture.format == "PNG" and "exif" not in picture.info  # Else Pillow reads them all.
    turn = None if unread else _turn(picture)
    width, height = picture.size
    lies = turn is not None and turn.name not in (
        "FLIP_LEFT_RIGHT",
        "FLIP_TOP_BOTTOM",
        "ROTATE_180",
    )
    return (height, width) if lies else (width, height)


def _turn(picture: Any) -> Any:
    """Return how the EXIF data of a picture turn it, or None; damaged data turn nothing."""
    try:
        name = _TURNS.get(picture.getexif().get(_ORIENTATION))
    except (AttributeError, KeyError, SyntaxError, TypeError, ValueError, struct.error):
        return None
    pillow = require("PIL.Image", "data", "Reading images")
    return None if name is None else pillow.Transpose[name]


def _in_eight_bits(picture: Any) -> Any:
    # Versions of Pillow differ in what they call the 16 bits of a PNG.
    if picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format == "PNG"):
        pillow = require("PIL.Image", "data", "Reading images")
        return pillow.fromarray(((np.asarray(picture, np.uint32) + 128) // 257).astype(np.uint8))
    if picture.mode in ("I", "F"):
        where = getattr(picture, "filename", "") or "An image"
        raise InputError(
            f"{where}: expected 8 bits a channel, or 16 of grey, got numbers of 32 bits (mode "
            f"{picture.mode}), whose white value is unknown."
        )
    if picture.mode == "P":  # Through RGBA: else Pillow warns of transparent pixels.
        picture = picture.convert("RGBA")
    return picture.convert("L" if is_grey(picture) else "RGB")


def is_grey(picture: Any) -> bool:
    """Return whether a Pillow image has no colours."""
    return picture.mode in ("1", "L", "LA", "La", "I", "F") or picture.mode.startswith("I;16")


def in_channels(images: np.ndarray, channels: int) -> np.ndarray:
    """Return images (…, height, width, channels); grey ones become three equal channels.

    >>> in_channels(np.zeros((2, 8, 8, 1), np.uint8), 3).shape
    (2, 8, 8, 3)
    """
    if images.shape[-1] == 1 and channels == 3:
        return np.repeat(images, 3, axis=-1)
    return images
