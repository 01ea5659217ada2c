"""Read the images of requests, and write masks as pictures into answers."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibrant.extras import require
from calibrant.serving.refusal import Refusal

if TYPE_CHECKING:
    import numpy as np

__all__ = ["read_encoded", "read_picture", "with_maps"]

# Some other readers of Pillow start programs (EPS).
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")


def read_encoded(value: str, where: str, pixels: int) -> Any:
    """Return the image of a text in base64 or of a data URL; ``where`` names it in refusals."""
    encoded = value.split(",", 1)[1] if value.startswith("data:") and "," in value else value
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, f"{where} is not base64.") from None
    return read_picture(content, where, pixels)


def read_picture(content: bytes, where: str, pixels: int) -> Any:
    """Return a Pillow image of at most ``pixels``, after checking this before reading them."""
    pillow = require("PIL.Image", "data", "Reading images")
    try:
        picture = pillow.open(io.BytesIO(content), formats=_FORMATS)
        if picture.width * picture.height > pixels:
            size = f"{picture.width:,} × {picture.height:,}"
            raise Refusal(413, f"{where} has {size} pixels, more than {pixels:,}.")
        picture.load()
    except Refusal:
        raise
    except Exception:  # Pillow's readers raise many kinds on damaged files.
        raise Refusal(422, f"{where} is not an image that can be read.") from None
    return picture


def with_maps(shown: Sequence[dict[str, Any]], masks: Sequence[Any]) -> list[dict[str, Any]]:
    """Add the pictures of each mask, PNG in base64: classes and confidences."""
    names = ("mask", "confidence_map")
    return [
        {**one, **{n: _png(pixels) for n, pixels in zip(names, mask.pictures(), strict=True)}}
        for one, mask in zip(shown, masks, strict=True)
    ]


def _png(pixels: np.ndarray) -> str:
    pillow = require("PIL.Image", "data", "Showing masks")
    pillow.fromarray(pixels).save(file := io.BytesIO(), "PNG")
    return base64.b64encode(file.getvalue()).decode()
