"""A drawing with its caption, and the keys to its colours."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.report.markup import Markup, join, tag

__all__ = ["BAR_KEY", "HISTOGRAM_KEYS", "RISK_KEY", "figure"]


def figure(drawing: Markup, caption: Markup, *more: Markup) -> Markup:
    """Return a drawing over its caption, followed by any further parts."""
    return join([tag("figure", drawing, tag("figcaption", caption)), *more])


def _key(entries: Mapping[str, str]) -> Markup:
    return join(
        tag("span", tag("i", class_=f"swatch {swatch}"), words, class_="key")
        for swatch, words in entries.items()
    )


BAR_KEY = _key(
    {
        "bar": "Accuracy",
        "gap over": "Overconfident",
        "gap under": "Underconfident",
        "interval": "95 % interval",
        "ideal": "Perfect",
    }
)
HISTOGRAM_KEYS = {
    side: _key({"mean-accuracy": "Accuracy", f"mean-confidence {side}": "Mean confidence"})
    for side in ("over", "under")
}
RISK_KEY = _key(
    {"risk": "By confidence", "perfect": "Perfect ranking", "no-selection": "No selection"}
)
