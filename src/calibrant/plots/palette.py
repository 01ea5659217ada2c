"""The colours of every diagram: Okabe & Ito (2008), distinct for colour-blind readers too.

The HTML report uses the same ones in its light theme; a test keeps them equal.
"""

from __future__ import annotations

__all__ = [
    "ACCURACY",
    "GRID",
    "INK",
    "MUTED",
    "OVERCONFIDENT",
    "OVERCONFIDENT_TINT",
    "UNDERCONFIDENT",
    "UNDERCONFIDENT_TINT",
]

ACCURACY = "#0072b2"
OVERCONFIDENT = "#d55e00"
OVERCONFIDENT_TINT = "#f6c8a4"
UNDERCONFIDENT = "#009e73"
UNDERCONFIDENT_TINT = "#9fdcc9"
INK = "#1c2430"
MUTED = "#5d6776"
GRID = "#e4e8ed"
