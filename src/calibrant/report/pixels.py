"""The section on images: maps to look at, the spread of errors over images, the worst images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.auditing import ImageRow, PixelView, RegionRow
from calibrant.metrics.segmentation_example import Scene
from calibrant.plots import maps
from calibrant.report.chart import Chart, ticks
from calibrant.report.figures import figure
from calibrant.report.markup import Markup, join, tag, user_text
from calibrant.report.numbers import count, counted, number, percent, points
from calibrant.report.png import inlined
from calibrant.report.tables import MOST_ROWS, plain_table

__all__ = ["pixel_figures"]

_BARS = 20
# Classes named in the key; more could not be distinguished.
_MOST_NAMES = 12
_MOST_CLASSES = 200


def pixel_figures(name: str, view: PixelView, label_names: Sequence[str]) -> Markup:
    """Return the scenes, the spread of the images' errors, and a table of the worst images."""
    parts = [_scenes(view.scenes, label_names)] if view.scenes else []
    said = "Each image by itself: how many have how large a calibration error."
    return join(
        [
            *parts,
            tag("p", said, class_="note"),
            figure(_spread(view.images, name), tag("span", "Share of images by their own ECE.")),
            tag("details", tag("summary", "The images as a table"), _table(view.images)),
            tag("details", tag("summary", "The classes as a table"), _classes(view.classes)),
        ]
    )


def _scenes(scenes: Sequence[Scene], label_names: Sequence[str]) -> Markup:
    rows = [
        tag("div", *_pictures(maps.shrunk(scene), len(label_names)), class_="scene")
        for scene in scenes
    ]
    return tag("div", *rows, _key(scenes, label_names), class_="scenes")


def _pictures(scene: Scene, classes: int) -> list[Markup]:
    called = scene.name or "a scene"
    right = 1 - scene.wrong.sum() / max(1, scene.kept.sum())
    mean = float(scene.confidence[scene.kept].mean()) if scene.kept.any() else float("nan")
    shown = [
        ("Image", maps.picture(scene), f"Image of {called}"),
        ("Truth", maps.class_map(scene.truth, classes), f"True classes in {called}"),
        ("Prediction", maps.class_map(scene.predicted, classes), f"Predicted classes in {called}"),
        (
            "Confidence",
            maps.confidence_map_of(scene.confidence, classes),
            f"Confidence in {called}: {percent(mean)} on average, deeper where higher",
        ),
        (
            "Mistakes",
            maps.mistake_map(scene, classes),
            f"Mistakes in {called}: {percent(float(right))} of the pixels are right; wrong ones "
            "are deeper the more confident",
        ),
    ]
    return [
        tag("figure", tag("img", src=inlined(pixels), alt=words), tag("figcaption", title))
        for title, pixels, words in shown
    ]


def _key(scenes: Sequence[Scene], label_names: Sequence[str]) -> Markup:
    """Explain the colours, also as pictures for pages that allow no foreign style."""
    seen = np.unique(np.concatenate([np.append(s.truth, s.predicted) for s in scenes]))
    colours = maps.class_colours(len(label_names))
    classes = [
        tag("span", _swatch(colours[k][None, None]), user_text(label_names[k]), class_="key")
        for k in seen[seen >= 0][:_MOST_NAMES]
    ]
    steps = np.linspace(1 / len(label_names), 1, 40)[None]
    scale = _swatch(maps.confidence_map_of(steps, len(label_names)), "swatch scale")
    least = f"Confidence {1 / len(label_names):.2g}"
    return tag("p", *classes, tag("span", least, scale, "1", class_="key"), class_="colours")


def _swatch(pixels: np.ndarray, class_: str = "swatch") -> Markup:
    return tag("img", src=inlined(pixels), alt="", class_=class_)


def _spread(images: Sequence[ImageRow], name: str) -> Markup:
    errors = np.array([row.ece for row in images])
    largest = max(float(errors.max(initial=0)), 0.01)
    scale = ticks(largest)
    share, edges = np.histogram(errors, _BARS, (0, scale[-1]))
    shares = share / max(1, len(errors))
    upright = ticks(float(shares.max(initial=0)) or 1.0)
    chart = Chart(420, 250, top=upright[-1], left=64, right=26)
    shapes = [
        chart.labels("ECE of an image", "Share of images"),
        chart.grid(
            [(t / scale[-1], f"{t:g}") for t in scale], [(t, f"{100 * t:g} %") for t in upright]
        ),
    ]
    for b, height in enumerate(shares):
        low, high = b / _BARS, (b + 1) / _BARS
        tip = f"ECE {edges[b]:.3g} – {edges[b + 1]:.3g}\n{counted(share[b], 'image')}"
        bar = chart.box(low + 0.002, high - 0.002, 0, height, "bar soft")
        shapes.append(chart.mark(low, high, tip, bar))
    said = f"{counted(len(errors), 'image')}; median ECE {number(float(np.median(errors)))}."
    return chart.svg(f"Calibration error of single images, {name}", said, *shapes)


def _classes(classes: Sequence[RegionRow]) -> Markup:
    heads = ["Class", "IoU", "ECE, one against the rest"]
    rows = [[user_text(row.name), number(row.iou), number(row.ece)] for row in classes]
    shown = rows[:_MOST_CLASSES]
    more = f"{count(len(shown))} of {count(len(rows))} shown." if len(rows) > len(shown) else None
    note = tag("p", more, class_="note") if more else None
    return join([plain_table("Classes of pixels", heads, shown), note])


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
    more = f"{count(len(rows))} of {count(len(images))} shown." if len(images) > len(rows) else None
    return join(
        [
            plain_table("Images, worst first", heads, rows),
            tag("p", more, class_="note") if more else None,
        ]
    )
