"""The frame of an interactive diagram: scales, grid, axes and the marks that react to a hover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.report.markup import Markup, join, tag

__all__ = ["Chart", "ticks"]


@dataclass(frozen=True)
class Chart:
    """A plot area inside a drawing; ``x`` and ``y`` map data to its coordinates."""

    width: float
    height: float
    top: float = 1.0  # The largest value of the y axis; the x axis is always 0 to 1.
    left: float = 44
    right: float = 14
    above: float = 20
    below: float = 42

    def x(self, value: float) -> float:
        """Map a value of the x axis to its coordinate."""
        return self.left + float(value) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Map a value of the y axis to its coordinate; up is less."""
        area = self.height - self.above - self.below
        return self.above + (1 - float(value) / self.top) * area

    def box(self, x0: float, x1: float, y0: float, y1: float, class_: str) -> Markup:
        """Return a rectangle between data coordinates."""
        top, bottom = sorted((self.y(y0), self.y(y1)))
        return tag(
            "rect",
            x=self.x(x0),
            y=top,
            width=max(self.x(x1) - self.x(x0), 0.0),
            height=bottom - top,
            class_=class_,
        )

    def line(self, x0: float, x1: float, y0: float, y1: float, class_: str) -> Markup:
        """Return a straight line between data coordinates."""
        return tag(
            "line", x1=self.x(x0), x2=self.x(x1), y1=self.y(y0), y2=self.y(y1), class_=class_
        )

    def path(self, xs: Sequence[float], ys: Sequence[float], class_: str) -> Markup:
        """Return a line through many points."""
        steps = (f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        return tag("path", d="M" + "L".join(steps), class_=class_)

    def text(
        self, x: float, y: float, words: str, class_: str, dx: float = 0, dy: float = 0
    ) -> Markup:
        """Return text at data coordinates, moved by dx and dy units."""
        return tag("text", words, x=self.x(x) + dx, y=self.y(y) + dy, class_=class_)

    def mark(self, x0: float, x1: float, tip: str, *shapes: Markup) -> Markup:
        """Return shapes that show ``tip`` when the pointer is in the column between x0 and x1."""
        return tag("g", *shapes, self.box(x0, x1, 0, self.top, "hit"), data_tip=tip)

    def grid(
        self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]
    ) -> Markup:
        """Return grid lines with their labels."""
        return join(
            [
                *(self.line(x, x, 0, self.top, "grid") for x, _ in x_ticks),
                *(self.line(0, 1, y, y, "grid") for y, _ in y_ticks),
                *(self.text(x, 0, words, "tick mid", dy=15) for x, words in x_ticks),
                *(self.text(0, y, words, "tick end", dx=-6, dy=4) for y, words in y_ticks),
                self.line(0, 1, 0, 0, "base"),
            ]
        )

    def labels(self, x_label: str, y_label: str) -> Markup:
        """Return the names of the axes."""
        middle = (self.above + self.height - self.below) / 2
        turned = f"translate(12 {middle:.0f}) rotate(-90)"
        return join(
            [
                tag("text", x_label, x=self.x(0.5), y=self.height - 6, class_="axis mid"),
                tag("text", y_label, transform=turned, class_="axis mid"),
            ]
        )

    def svg(self, label: str, description: str, *shapes: Markup) -> Markup:
        """Return the drawing as one tab stop; the arrow keys walk through its marks."""
        return tag(
            "svg",
            tag("desc", description),
            *shapes,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            tabindex=0,
            aria_label=f"{label}. {description} Arrow keys step through the values.",
        )


def ticks(largest: float, wanted: int = 5) -> list[float]:
    """Return round values from 0 to at least ``largest``.

    >>> ticks(0.37)
    [0.0, 0.1, 0.2, 0.3, 0.4]
    """
    rough = max(largest, 1e-6) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * (1 - 1e-9))
    return [round(k * step, 10) for k in range(math.ceil(largest / step - 1e-9) + 1)]
