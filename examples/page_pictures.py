"""Take the pictures of the pages in docs/images: serve.png, masks.png and review.png.

    python examples/page_pictures.py RUN MASKS --output docs/images

RUN is one of ``calibrant demo``, MASKS one of ``calibrant train --task segmentation --data shapes
--epochs 25``. Needs the extra 'serve', Chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import calibrant
from calibrant.metrics.tags import TagSet
from calibrant.outputs import new_file
from calibrant.reviewing import Decisions
from calibrant.reviewing.application import review_app
from calibrant.reviewing.documents import of_prediction
from calibrant.serving import app

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import Browser, served

TEXT = (  # In the language of the demo's news.
    "Lukas Dunman was born in Chelsea and studied at Labith Energy. Analysts at Kos Energy expect "
    "weak demand for the Optiworx Pero. Hartsen and Stefan were married on Saturday."
)
SIZE = {"width": 900, "height": 760}


def main() -> None:
    """Open each page, use it as a person would, and save what it shows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("masks", metavar="MASKS")
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        try:
            predictor = calibrant.load(args.run)
            save(args.output / "serve.png", entities(browser, predictor, Path(args.run)))
            save(args.output / "review.png", review(browser, predictor, Path(folder)))
            save(args.output / "masks.png", masks(browser, calibrant.load(args.masks)))
        finally:
            browser.close()


def save(path: Path, picture: bytes) -> None:
    """Write a picture, in place of an earlier one."""
    with new_file(path, overwrite=True) as unfinished:
        unfinished.write_bytes(picture)


def entities(browser: Browser, predictor: Any, run: Path) -> bytes:
    """Show a text with its entities at a target risk of 15 %."""
    with served(app(predictor, report=run / "report.html")) as address:
        browser.open(address, **SIZE)
        browser.wait("!document.getElementById('ask').hidden")
        browser.run("document.getElementById('text').value = arguments[0]", TEXT)
        browser.run("document.getElementById('predict').click()")
        done(browser)
        slide(browser, 3)
        return browser.png()


def masks(browser: Browser, predictor: Any) -> bytes:
    """Show a generated scene with the classes and the confidence of its pixels."""
    from PIL import Image

    from calibrant.tasks.segmentation.scenes import load_scenes

    scene, _ = load_scenes("shapes", train=1, dev=1, test=1).parts["test"][0]
    Image.fromarray(scene).save(file := io.BytesIO(), "PNG")
    with served(app(predictor)) as address:
        browser.open(address, **SIZE)
        browser.wait("!document.getElementById('ask').hidden")
        browser.run(
            "const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));"
            "const files = new DataTransfer(); files.items.add(new File([bytes], 'scene.png'));"
            "document.getElementById('file').files = files.files;"
            "document.getElementById('file').dispatchEvent(new Event('change'))",
            base64.b64encode(file.getvalue()).decode(),
        )
        done(browser)
        slide(browser, 3)
        done(browser)
        return browser.png()


def review(browser: Browser, predictor: Any, folder: Path) -> bytes:
    """Show the second document of a review, after the first was accepted."""
    texts = [f"{one.rstrip('.')}." for one in TEXT.split(". ")]
    documents = [of_prediction(str(i), one) for i, one in enumerate(predictor.predict(texts))]
    types = TagSet.of(predictor.labels).types
    decisions = Decisions(folder / "decisions.jsonl", documents)
    with served(review_app(documents, decisions, types)) as address:
        browser.open(address, width=900, height=520)
        browser.run(
            "document.getElementById('reviewer').value = 'Zoë';"
            "document.querySelector('#start button').click()"
        )
        browser.wait("document.querySelectorAll('mark').length > 0")
        browser.run("document.getElementById('save').click()")
        browser.wait("!document.getElementById('decided').hidden")
        return browser.png()


def done(browser: Browser) -> None:
    """Wait until the page has shown a prediction."""
    browser.wait("document.getElementById('status').textContent === 'Done.'")


def slide(browser: Browser, step: int) -> None:
    """Move the slider of the target risk."""
    browser.run(
        "const s = document.getElementById('slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))",
        step,
    )


if __name__ == "__main__":
    main()
