"""Make the pictures of the pages of `serve` and `review` in docs/images, with Chromium.

    python scripts/docs/pictures_of_pages.py RUN [-o FOLDER]

    calibrant train --data conll2003 --model minilm -o RUN

With ``--all``, the pages are also drawn in the dark and on a phone, to be looked at; docs/images
has only the two that the documentation shows.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import Browser, served  # noqa: E402

import calibrant  # noqa: E402
from calibrant.metrics.tags import TagSet  # noqa: E402
from calibrant.reviewing import Decisions  # noqa: E402
from calibrant.reviewing.application import review_app  # noqa: E402
from calibrant.reviewing.documents import of_prediction  # noqa: E402
from calibrant.serving import app  # noqa: E402

TEXTS = (
    "Peter Blackburn met EU officials in Brussels on Monday .",
    "Leicester beat Somerset by an innings after a match at Grace Road with Phil Simmons .",
    "Nantucket Industries of New York will sell its plant to the German company Bayer .",
)
LOOKS = {"": (900, 760, False), "-dark": (900, 760, True), "-phone": (390, 844, False)}


def picture_of_service(browser, predictor, size):
    """Draw a prediction at a target risk that accepts some of the entities."""
    width, height, dark = size
    with served(app(predictor)) as address:
        browser.open(address, width, height, dark)
        browser.wait("!document.getElementById('ask').hidden")
        browser.run("document.getElementById('text').value = arguments[0]", " ".join(TEXTS))
        browser.run(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input')); document.getElementById('predict').click()",
            3,
        )
        browser.wait("document.getElementById('status').textContent === 'Done.'")
        return browser.png(whole=True)


def picture_of_review(browser, predictor, size):
    """Draw the second document, so that the button to go back to the first one is there."""
    width, height, dark = size
    documents = [
        of_prediction(str(n), found)
        for n, found in enumerate(predictor.predict(list(TEXTS)), start=1)
    ]
    types = TagSet.of(predictor.labels).types
    with tempfile.TemporaryDirectory() as folder:
        decisions = Decisions(Path(folder) / "d.jsonl", documents)
        with served(review_app(documents, decisions, types)) as address:
            browser.open(address, width, height, dark)
            browser.run(
                "document.getElementById('reviewer').value = 'Anna';"
                "document.querySelector('#start button').click()"
            )
            browser.wait("!document.getElementById('work').hidden && !busy")
            browser.run("document.getElementById('save').click()")
            browser.wait("!document.getElementById('decided').hidden && !busy")
            browser.run("document.activeElement.blur()")
            return browser.png(whole=True)


def main():
    """Draw the pages with the entities that a run finds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--all", action="store_true", help="also in the dark and on a phone")
    args = parser.parse_args()
    predictor = calibrant.load(args.run, "cpu")
    makers = {"serve": picture_of_service, "review": picture_of_review}
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            for ending, size in LOOKS.items() if args.all else [("", LOOKS[""])]:
                for name, make in makers.items():
                    path = args.output / f"{name}{ending}.png"
                    path.write_bytes(make(browser, predictor, size))
                    print(path)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
