"""The audit of images: one image at a time, in bounded memory, the same as all at once."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.auditing import audit, collect
from calibrant.metrics import (
    Scene,
    accumulate,
    accuracy,
    class_iou,
    classwise_ece,
    ece,
    mean_iou,
    pixel_predictions,
)

CLASSES = 4


def scored(images=12, side=12, classes=CLASSES, seed=0):
    """Images of blocks, most pixels of which are found; the odd ones with too much confidence."""
    random = np.random.default_rng(seed)
    for number in range(images):
        mask = np.kron(random.integers(0, classes, (2, 2)), np.ones((side // 2, side // 2), int))
        logits = random.normal(size=(side, side, classes)) + 1.5 * np.eye(classes)[mask]
        mask[0] = -100
        yield (3 if number % 2 else 1) * logits.astype(np.float32), mask


def stream(**options):
    for number, (logits, mask) in enumerate(scored(**options)):
        yield pixel_predictions(logits, mask, number)


@pytest.fixture(scope="module")
def found():
    return audit(stream(), bootstrap=200)


@pytest.fixture(scope="module")
def whole():
    return Predictions.concatenate(stream())


def measures(view):
    return {m.name: m for m in view.measures}


def test_images_one_by_one_are_the_whole(found, whole):
    at_once = audit(whole, bootstrap=200)
    for one, other in ((found, at_once), (found.pixels, at_once.pixels)):
        for name, measure in measures(one).items():
            same = measures(other)[name]
            assert measure.value == pytest.approx(same.value, rel=1e-12, nan_ok=True)
            ends = [(m.low, m.high) for m in (measure, same)]
            assert ends[0] == ends[1] or ends[0] == pytest.approx(ends[1], rel=1e-9)
    assert found.provenance["by"] == "image"
    assert found.state.ignored == at_once.state.ignored == 12 * 12


def test_measures_are_those_of_the_parts(found, whole):
    got = measures(found.pixels)
    assert got["mean_iou"].value == pytest.approx(mean_iou(whole))
    assert got["mean_iou"].low < got["mean_iou"].value < got["mean_iou"].high
    for side, name in enumerate(("inside", "border")):
        part = whole[whole.groups["border"] == side]
        assert got[f"{name}_ece"].value == pytest.approx(ece(accumulate(part)))
        assert got[f"{name}_accuracy"].value == pytest.approx(accuracy(part))
    errors = [ece(accumulate(part)) for part in stream()]
    assert got["image_ece_median"].value == pytest.approx(np.median(errors))
    assert got["image_ece_high"].value == pytest.approx(np.quantile(errors, 0.9))


def test_images_are_listed_worst_first(found):
    rows = found.pixels.images
    assert len(rows) == 12
    assert [row.ece for row in rows] == sorted((row.ece for row in rows), reverse=True)
    for row in rows:
        part = list(stream())[int(row.name)]
        assert row.pixels == len(part) == 11 * 12
        assert row.ece == pytest.approx(ece(accumulate(part)))
        assert row.gap == pytest.approx(row.confidence - row.accuracy)
    # The stretched ones are overconfident.
    gaps = [np.mean([row.gap for row in rows if int(row.name) % 2 == odd]) for odd in (0, 1)]
    assert gaps[0] < 0 < gaps[1]


def test_every_class_has_its_overlap_and_error(found, whole):
    state = accumulate(whole)
    rows = found.pixels.classes
    assert [row.name for row in rows] == list("0123")
    np.testing.assert_allclose([row.iou for row in rows], class_iou(whole))
    assert np.mean([row.ece for row in rows]) == pytest.approx(classwise_ece(state))


def test_an_image_in_several_chunks_is_one(whole, found):
    cut = audit(whole.chunks(50), bootstrap=0)
    for one, other in zip(cut.pixels.images, found.pixels.images, strict=True):
        assert (one.name, one.pixels) == (other.name, other.pixels)
        assert one.ece == pytest.approx(other.ece)


def test_without_borders_and_with_names(whole):
    names = np.array([f"street-{number}" for number in whole.groups["image"]])
    plain = Predictions.from_logits(whole.scores, whole.labels, groups={"image": names})
    view = audit(plain, bootstrap=0).pixels
    assert set(measures(view)) == {"mean_iou", "image_ece_median", "image_ece_high"}
    assert view.images[0].name.startswith("street-")
    assert audit(whole[:5].with_scores(whole.scores[:5], "logits")).pixels is not None
    assert audit(Predictions.from_logits(whole.scores, whole.labels), bootstrap=0).pixels is None


def test_four_axes_are_images():
    logits, masks = (np.stack(part) for part in zip(*scored(), strict=True))
    view = audit(Predictions.from_logits(logits, masks), bootstrap=0).pixels
    assert len(view.images) == 12


def test_ignored_images_do_not_count():
    def with_nothing():
        yield pixel_predictions(np.zeros((4, 4, CLASSES)), np.full((4, 4), -100), 98)
        yield from stream()
        yield pixel_predictions(np.zeros((4, 4, CLASSES)), np.full((4, 4), -100), 99)

    view = audit(with_nothing(), bootstrap=0)
    assert len(view.pixels.images) == 12
    assert view.state.ignored == 12 * 12 + 32


def test_scenes_and_json(whole):
    logits, mask = next(scored())
    scene = Scene.from_logits(np.zeros(mask.shape, np.uint8), logits, mask)
    made = audit(whole, bootstrap=0, scenes=[scene])
    assert made.pixels.scenes == (scene,)
    content = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert set(content["pixels"]) == {"measures", "images", "classes"}
    assert len(content["pixels"]["images"]) == 12


def test_a_long_stream_is_sampled_and_says_so():
    exact, sampled = (audit(stream(images=40), bootstrap=0, sample=most) for most in (10**6, 2000))
    assert "sampled" not in exact.provenance
    assert 900 < sampled.provenance["sampled"] == len(sampled.confidences) <= 2000
    for name, measure in measures(sampled).items():
        of_sample = "From a sample of" in measure.meaning
        assert of_sample == (name in ("adaptive_ece", "smooth_ece", "ks_error", "auroc", "aurc",
            "e_aurc", "augrc", "risk_at_coverage", "coverage_at_risk"))  # fmt: skip
        same = measures(exact)[name].value
        assert measure.value == pytest.approx(same, abs=0.08 if of_sample else 1e-12)
    again = audit(stream(images=40), bootstrap=0, sample=2000)
    assert measures(again)["aurc"].value == measures(sampled)["aurc"].value


def test_memory_does_not_grow_with_the_pixels(monkeypatch):
    """40 images of 96 × 96 pixels and 12 classes are 18 MB of scores."""
    monkeypatch.setattr(collect, "_KEPT_SCORES", 10**5)
    _, some, more = (peak_of(images) for images in (40, 8, 40))  # The first one imports.
    assert more - some < 2e6


def peak_of(images):
    tracemalloc.start()
    try:
        audit(stream(images=images, side=96, classes=12), bootstrap=0, sample=10_000)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_pixels_of_weights_are_counted_as_other_examples_are():
    """The weights are scaled to a mean of 1, so their size changes nothing."""
    whole = Predictions.concatenate(list(stream(images=4)))
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(whole))
    small, large = (audit(replace(whole, weights=f * weights), bootstrap=0) for f in (0.01, 10))
    rows = [each.pixels.images for each in (small, large)]
    assert [row.pixels for row in rows[0]] == [row.pixels for row in rows[1]]
    assert sum(row.pixels for row in rows[0]) == pytest.approx(len(whole), abs=2)
    assert small["inside_ece"].value == pytest.approx(large["inside_ece"].value)
