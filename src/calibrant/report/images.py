"""The section on images: maps to look at, the spread of errors over images, the worst images."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from calibrant.auditing import ImageRow, PixelView, RegionRow
from calibrant.charts import scenes
from calibrant.charts.calibration import image_error_chart
from calibrant.charts.numbers import count, number, percent, points
from calibrant.metrics.segmentation_example import Scene
from calibrant.report.markup import Markup, join, tag, user_text
from calibrant.report.svg import draw_svg
from calibrant.report.tables import MOST_ROWS, more, plain_table

__all__ = ["encode_png", "inlined", "pixel_figures"]

_MOST_CLASSES = 200


def pixel_figures(name: str, view: PixelView, label_names: Sequence[str]) -> Markup:
    """Return the scenes, the spread of the images' errors, and a table of the worst images."""
    spread = draw_svg(
        image_error_chart([row.ece for row in view.images]),
        f"Calibration error of single images, {name}",
    )
    note = "Each image separately: how many have how large a calibration error."
    return join(
        [
            _scenes(view.scenes, label_names) if view.scenes else None,
            tag("p", note, class_="note"),
            tag("figure", spread, tag("figcaption", "Share of images by their own ECE.")),
            tag("details", tag("summary", "The images as a table"), _table(view.images)),
            tag("details", tag("summary", "The classes as a table"), _classes(view.classes)),
        ]
    )


def _scenes(shown: Sequence[Scene], label_names: Sequence[str]) -> Markup:
    rows = [tag("div", *_pictures(scene, len(label_names)), class_="scene") for scene in shown]
    return tag("div", *rows, _key(shown, label_names), class_="scenes")


def _pictures(scene: Scene, classes: int) -> list[Markup]:
    return [
        tag("figure", tag("img", src=inlined(pixels), alt=words), tag("figcaption", title))
        for title, pixels, words in scenes.scene_pictures(scenes.shrunk(scene), classes)
    ]


def _key(shown: Sequence[Scene], label_names: Sequence[str]) -> Markup:
    """Explain the colours, also as pictures for pages that allow no foreign style."""
    colours = scenes.class_colours(len(label_names))
    classes = [
        tag("span", _swatch(colours[k][None, None]), user_text(label_names[k]), class_="key")
        for k in scenes.visible_classes(shown)
    ]
    steps = np.linspace(1 / len(label_names), 1, 40)[None]
    scale = _swatch(scenes.confidence_map_of(steps, len(label_names)), "swatch scale")
    least = f"Confidence {1 / len(label_names):.2g}"
    return tag("p", *classes, tag("span", least, scale, "1", class_="key"), class_="colours")


def _swatch(pixels: np.ndarray, class_: str = "swatch") -> Markup:
    return tag("img", src=inlined(pixels), alt="", class_=class_)


def _classes(classes: Sequence[RegionRow]) -> Markup:
    heads = ["Class", "IoU", "ECE, one against the rest"]
    shown = classes[:_MOST_CLASSES]
    rows = [[user_text(row.name), number(row.iou), number(row.ece)] for row in shown]
    table = plain_table("Classes of pixels", heads, rows)
    return join([table, more(len(classes), len(rows))])


def _table(images: Sequence[ImageRow]) -> Markup:
    heads = ["Image", "ECE", "Gap (points)", "Confidence", "Accuracy", "Pixels"]
    rows = [
        [
            user_text(row.name),
            number(row.ece),
            points(row.gap),
            percent(row.confidence),
            percent(row.accuracy),
            count(row.pixels),
        ]
        for row in images[:MOST_ROWS]
    ]
    table = plain_table("Images, worst first", heads, rows)
    return join([table, more(len(images), len(rows))])


def encode_png(pixels: np.ndarray) -> bytes:
    """Encode (height, width, 3) bytes as PNG (ISO/IEC 15948): rows, compressed, in three chunks.

    >>> encode_png(np.zeros((2, 3, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red-green-blue
    rows = np.concatenate(  # Each row begins with its filter: 0, none.
        [np.zeros((height, 1), np.uint8), pixels.reshape(height, -1).astype(np.uint8)], axis=1
    )
    body = zlib.compress(rows.tobytes(), 9)
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", body), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def inlined(pixels: np.ndarray) -> str:
    """Return the picture as a data address."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
