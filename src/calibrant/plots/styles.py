"""How matplotlib draws each role of a mark.

The colours are those of Okabe & Ito (2008), distinct for colour-blind readers too. The HTML report
uses the same ones in its light theme; a test keeps them equal.
"""

from __future__ import annotations

from typing import Any

from calibrant.charts.chart import curve_look

__all__ = [
    "ACCURACY", "COLOURS", "GRID", "INK", "MUTED", "OVERCONFIDENT", "OVERCONFIDENT_TINT", "STYLES",
    "UNDERCONFIDENT", "UNDERCONFIDENT_TINT", "curve_style",
]  # fmt: skip

ACCURACY = "#0072b2"
OVERCONFIDENT = "#d55e00"
OVERCONFIDENT_TINT = "#f6c8a4"
UNDERCONFIDENT = "#009e73"
UNDERCONFIDENT_TINT = "#9fdcc9"
INK = "#1c2430"
MUTED = "#5d6776"
GRID = "#e4e8ed"

# Of curves: without yellow, which white paper swallows.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2430")
_DASHES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D")

STYLES: dict[str, dict[str, Any]] = {
    "bar": {"color": ACCURACY, "linewidth": 0},
    "bar soft": {"color": ACCURACY, "linewidth": 0, "alpha": 0.45},
    "gap over": {"color": OVERCONFIDENT_TINT, "edgecolor": OVERCONFIDENT, "linewidth": 0.7},
    "gap under": {"color": UNDERCONFIDENT_TINT, "edgecolor": UNDERCONFIDENT, "linewidth": 0.7},
    "between over": {"color": OVERCONFIDENT, "alpha": 0.12, "linewidth": 0},
    "between under": {"color": UNDERCONFIDENT, "alpha": 0.12, "linewidth": 0},
    "band": {"color": GRID, "linewidth": 0, "zorder": 1},
    "interval": {"color": INK, "linewidth": 3, "alpha": 0.3, "solid_capstyle": "butt"},
    "level": {"color": INK, "linewidth": 1.1, "solid_capstyle": "butt"},
    "ideal": {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (4, 3))},
    "mean-accuracy": {"color": INK, "linewidth": 1.4},
    "mean-confidence over": {"color": OVERCONFIDENT, "linewidth": 1.4, "linestyle": (0, (4, 2))},
    "mean-confidence under": {"color": UNDERCONFIDENT, "linewidth": 1.4, "linestyle": (0, (4, 2))},
    "risk": {"color": ACCURACY, "linewidth": 1.6, "markersize": 4},
    "perfect": {"color": MUTED, "linewidth": 1},
    "no-selection": {"color": INK, "linewidth": 0.9, "linestyle": (0, (1, 2))},
    "rank": {"color": ACCURACY, "markersize": 6},
    "count": {"color": MUTED},
}


def curve_style(number: int) -> dict[str, Any]:
    """Return colour, dash and marker of a curve; after seven, colours repeat with other shapes.

    >>> curve_style(0), curve_style(7)["linestyle"]
    ({'color': '#0072b2', 'linestyle': '-', 'marker': 'o'}, '--')
    """
    colour, shape = curve_look(number)
    return {"color": COLOURS[colour], "linestyle": _DASHES[shape], "marker": _MARKERS[shape]}
