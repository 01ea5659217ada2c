"""Images in the report: PNG without a library, words instead of pictures, in a real browser."""

import base64
import re
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.image import imread

from calibrant.auditing import audit
from calibrant.charts import scenes as maps
from calibrant.metrics import Scene, pixel_predictions
from calibrant.report import render_report, write_report
from calibrant.report.images import encode_png, inlined

NAMES = ("sky", "<sea>", "land")


def pixel_audit(stretch=1.0, images=30, side=16):
    random = np.random.default_rng(0)
    parts, scenes = [], []
    for number in range(images):
        mask = np.kron(random.integers(0, 3, (2, 2)), np.ones((side // 2, side // 2), int))
        logits = stretch * (random.normal(size=(side, side, 3)) + 1.5 * np.eye(3)[mask])
        mask[0] = -100
        parts.append(pixel_predictions(logits, mask, number, label_names=NAMES))
        if number < 2:
            image = random.integers(0, 256, (side, side, 3), np.uint8)
            scenes.append(Scene.from_logits(image, logits, mask, f"street <{number}>"))
    return audit(parts, bootstrap=0, scenes=scenes)


@pytest.fixture(scope="module")
def plain():
    return pixel_audit()


@pytest.fixture(scope="module")
def page(plain):
    return render_report(plain)


shapes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))


@given(arrays(np.uint8, shapes))
def test_png_comes_back_as_it_was(pixels):
    found = (255 * imread(BytesIO(encode_png(pixels)))).round().astype(np.uint8)
    np.testing.assert_array_equal(found[..., :3], pixels)


def test_png_is_what_pillow_reads():
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 70, 3), np.uint8)
    with pillow.open(BytesIO(encode_png(pixels))) as file:
        file.load()
        assert (file.format, file.mode) == ("PNG", "RGB")
        np.testing.assert_array_equal(np.asarray(file), pixels)


def test_pictures_are_those_of_the_scenes(plain, page):
    scene = plain.pixels.scenes[0]
    for shown in (
        scene.image,
        maps.class_map(scene.truth, 3),
        maps.class_map(scene.predicted, 3),
        maps.confidence_map_of(scene.confidence, 3),
        maps.mistake_map(scene, 3),
    ):
        assert inlined(shown) in page


def test_every_picture_has_words_and_nothing_is_fetched(page):
    pictures = re.findall(r"<img [^>]*>", page)
    assert len(pictures) == 2 * 5 + 3 + 1  # Two scenes, three classes and the scale.
    for picture in pictures:
        assert re.search(r'src="data:image/png;base64,[A-Za-z0-9+/=]+"', picture)
    words = [re.search(r'alt="(.*?)"', picture)[1] for picture in pictures]
    assert words[0] == "Image of street &lt;0&gt;"
    assert "of the pixels are right" in words[4]
    assert words[-4:] == [""] * 4  # Beside their names.
    assert "<sea>" not in page
    assert not re.search(r"\sstyle=|https?:", page)


def test_the_section_comes_with_pixels_alone(page, overconfident):
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads[:4] == ["Verdict", "Measures", "Images", "Diagrams"]
    assert "<h2>Images</h2>" not in render_report(overconfident)
    section = page[page.index("<h2>Images</h2>") : page.index("<h2>Diagrams</h2>")]
    for name in ("mean_iou", "inside_ece", "border_ece", "image_ece_median", "image_ece_high"):
        assert f"<code>{name}</code>" in section
    assert "30 images; median ECE" in section
    assert "25 of 30 shown." in section
    assert "ECE, one against the rest" in section


def test_large_pictures_do_not_make_a_large_report():
    big = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), np.uint8)
    mask = np.zeros((1500, 2000), np.int64)
    scene = Scene(big, mask, mask, np.ones(mask.shape))
    made = audit(
        [pixel_predictions(np.zeros((4, 4, 3)), mask[:4, :4])], bootstrap=0, scenes=[scene]
    )
    found = re.search(r'base64,([^"]+)"', render_report(made))[1]
    with BytesIO(base64.b64decode(found)) as file:
        assert max(imread(file).shape) <= 256


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [380, 1200])
def test_in_a_browser(browser, tmp_path, plain, width, dark):
    two = {"before": plain, "after": pixel_audit(0.7)}
    path = write_report(plain if width < 500 else two, tmp_path / "pixels.html")
    browser.open(path, width, dark=dark)
    assert browser.logs() == []
    assert browser.requests()[0] == path.resolve().as_uri()
    assert all(address.startswith("data:") for address in browser.requests()[1:])
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    sizes = browser.run("return [...document.images].map((i) => [i.naturalWidth, i.width])")
    assert len(sizes) == (14 if width < 500 else 28)
    assert all(natural > 0 and shown > 0 for natural, shown in sizes)
