"""Draw the picture of the README: a small network before and after temperature scaling.

Run it from the root of the repository: ``python examples/readme_picture.py docs/images/demo.png``.
It needs ``pip install '.[plots,sklearn]'``.
"""

import sys

from matplotlib.figure import Figure

from calibrant import Temperature, accumulate
from calibrant.demo import digit_predictions
from calibrant.plots import reliability_diagram


def draw(path: str) -> None:
    """Two reliability diagrams side by side, on white, at twice the size of the page."""
    valid, test = digit_predictions()
    fixed = Temperature().fit(valid).transform(test)
    figure = Figure(figsize=(7.6, 4.3), layout="constrained")
    axes = figure.subplots(1, 2)
    parts = {"Before: claims more than it keeps": test, "After temperature scaling": fixed}
    for ax, (title, predictions) in zip(axes, parts.items(), strict=True):
        reliability_diagram(accumulate(predictions), ax, title=title)
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "docs/images/demo.png")
