"""Overlap, borders, scenes and samples, against loops, SciPy and torchmetrics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import InputError, Predictions
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    Scene,
    accumulate,
    class_iou,
    ece,
    mean_iou,
    near_border,
    pixel_predictions,
)
from calibrant.metrics.sample import Sample

RANDOM = np.random.default_rng(0)


def scored(images=4, side=9, classes=4, seed=0):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(images, side, side, classes)).astype(np.float32)
    masks = random.integers(0, classes, (images, side, side))
    masks[random.random(masks.shape) < 0.1] = -100
    return logits, masks


# Overlap.


def test_overlap_by_hand():
    #  truth 0 0 1 1 2, found 0 1 1 1 0; class 3 is never met
    logits = 5 * np.eye(4)[[0, 1, 1, 1, 0]]
    p = Predictions.from_logits(logits, [0, 0, 1, 1, 2])
    np.testing.assert_allclose(class_iou(p), [1 / 3, 2 / 3, 0, np.nan])
    assert mean_iou(p) == pytest.approx((1 / 3 + 2 / 3 + 0) / 3)


def test_overlap_against_torchmetrics():
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("torchmetrics.functional.classification")
    logits, masks = scored()
    p = Predictions.from_logits(logits, masks)
    theirs = library.multiclass_jaccard_index(
        torch.tensor(logits).movedim(-1, 1),
        torch.tensor(masks),
        num_classes=4,
        average="none",
        ignore_index=-100,
    )
    np.testing.assert_allclose(class_iou(p), theirs.numpy(), rtol=1e-6)
    assert mean_iou(p) == pytest.approx(float(theirs.mean()), rel=1e-6)


def test_overlap_of_many_states_and_of_none():
    logits, masks = scored()
    parts = [accumulate(pixel_predictions(*one)) for one in zip(logits, masks, strict=True)]
    block = np.repeat(np.arange(4), [part.n for part in parts])
    p = Predictions.from_logits(logits, masks)
    many = accumulate(p, block=block, blocks=5)
    np.testing.assert_allclose(mean_iou(many)[:4], [mean_iou(part) for part in parts])
    assert np.isnan(mean_iou(many)[4])
    assert np.isnan(mean_iou(CalibrationState.empty(3)))
    assert mean_iou(sum(parts)) == pytest.approx(mean_iou(p))


# Borders.


def near_by_loops(mask, width):
    height, across = mask.shape
    found = np.zeros(mask.shape, bool)
    for y in range(height):
        for x in range(across):
            around = mask[max(0, y - width) : y + width + 1, max(0, x - width) : x + width + 1]
            found[y, x] = (around != mask[y, x]).any()
    return found


masks_of_any_size = arrays(
    np.int16,
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    elements=st.sampled_from([-100, 0, 1, 2]),
)


@given(masks_of_any_size, st.integers(0, 9))
def test_borders_against_loops(mask, width):
    np.testing.assert_array_equal(near_border(mask, width), near_by_loops(mask, width))


def test_borders_against_scipy():
    images = pytest.importorskip("scipy.ndimage")
    mask = images.zoom(RANDOM.integers(-1, 3, (6, 5)), 8, order=0)
    for width in (1, 2, 5):
        size = 2 * width + 1
        low = images.minimum_filter(mask, size, mode="nearest")
        high = images.maximum_filter(mask, size, mode="nearest")
        np.testing.assert_array_equal(near_border(mask, width), low != high)
    several = np.stack([mask, np.zeros_like(mask)])
    np.testing.assert_array_equal(near_border(several)[0], near_border(mask))
    assert not near_border(several)[1].any()


@pytest.mark.parametrize(
    ("mask", "width", "message"),
    [
        (np.zeros(3, int), 1, r"expects a mask \(…, height, width\) of class numbers, got int64"),
        (np.zeros((3, 3)), 1, "got float64"),
        (np.zeros((3, 3), int), -1, "whole number of pixels ≥ 0, got -1"),
    ],
)
def test_masks_that_have_no_borders(mask, width, message):
    with pytest.raises(InputError, match=message):
        near_border(mask, width)


# Scenes.


@pytest.mark.parametrize("tensors", [False, True])
def test_a_stream_of_images_is_the_whole(tensors):
    logits, masks = scored()
    whole = Predictions.from_logits(logits, masks)
    given_ = (logits, masks)
    if tensors:
        torch = pytest.importorskip("torch")
        given_ = (torch.tensor(logits), torch.tensor(masks))
    parts = [pixel_predictions(*one, i) for i, one in enumerate(zip(*given_, strict=True))]
    total = sum(accumulate(part) for part in parts)
    assert ece(total) == pytest.approx(ece(whole), rel=1e-12)
    assert (total.n, total.ignored) == (len(whole), whole.ignored)
    joined = Predictions.concatenate(part.numpy() for part in parts)
    np.testing.assert_array_equal(joined.groups["image"], whole.groups["image"])
    near = np.concatenate([near_border(mask)[mask != -100] for mask in masks])
    np.testing.assert_array_equal(joined.groups["border"], near)


def test_an_image_without_a_labelled_pixel():
    p = pixel_predictions(np.zeros((2, 2, 3)), np.full((2, 2), -100))
    assert (len(p), p.ignored) == (0, 4)


def test_classes_first_are_refused_with_advice():
    with pytest.raises(InputError, match=r"got \(3, 4, 5\) and \(4, 5\); .*movedim\(0, -1\)"):
        pixel_predictions(np.zeros((3, 4, 5)), np.zeros((4, 5), int))


def test_scene_maps():
    logits = np.log([[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6], [0.4, 0.3, 0.3]]])
    scene = Scene.from_logits(np.zeros((2, 2, 3), np.uint8), logits, [[0, 0], [2, -100]], "dog")
    np.testing.assert_array_equal(scene.predicted, [[0, 1], [2, 0]])
    np.testing.assert_allclose(scene.confidence, [[0.7, 0.8], [0.6, 0.4]])
    np.testing.assert_array_equal(scene.wrong, [[False, True], [False, False]])
    np.testing.assert_array_equal(scene.kept, [[True, True], [True, False]])
    torch = pytest.importorskip("torch")
    image, mask = torch.zeros(2, 2, dtype=torch.uint8), torch.zeros(2, 2, dtype=torch.long)
    half = torch.tensor(logits, dtype=torch.bfloat16, requires_grad=True)
    again = Scene.from_logits(image, half, mask)
    np.testing.assert_allclose(again.confidence, scene.confidence, atol=0.01)


@pytest.mark.parametrize(
    ("image", "logits", "message"),
    [
        (np.zeros((2, 3), np.uint8), np.zeros((2, 2, 3)), "image is as large as its truth"),
        (np.zeros((2, 2), np.uint8), np.zeros((2, 3, 3)), "predicted is as large as its truth"),
        (np.zeros((2, 2)), np.zeros((2, 2, 3)), r"image is bytes .* got float64"),
        (np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2, 3)), "image is bytes"),
        (np.zeros((2, 2), np.uint8), np.zeros((2, 2)), r"logits are \(height, width, K\)"),
    ],
)
def test_scenes_that_do_not_fit(image, logits, message):
    with pytest.raises(InputError, match=message):
        Scene.from_logits(image, logits, np.zeros((2, 2), int))


# Samples.


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 200), st.integers(0, 3))
def test_a_sample_does_not_depend_on_the_cut(sizes, most, seed):
    rows = np.arange(sum(sizes))
    cut, whole = Sample(most, seed), Sample(most, seed)
    for part in np.split(rows, np.cumsum(sizes)):
        cut.add(part)
    whole.add(rows)
    found = np.concatenate(cut.parts)
    np.testing.assert_array_equal(found, np.concatenate(whole.parts))
    assert len(found) == cut.held <= most
    assert cut.seen == len(rows)
    assert cut.whole == (len(rows) == len(found))
    if len(rows) <= most:
        np.testing.assert_array_equal(found, rows)


def test_a_sample_is_fair_and_seeded():
    def sample(seed):
        made = Sample(1000, seed)
        for start in range(0, 20_000, 500):
            made.add(np.arange(start, start + 500))
        return np.concatenate(made.parts)

    one, other = sample(0), sample(1)
    assert 400 < len(one) <= 1000
    assert len(np.intersect1d(one, other)) < 100
    # The mean of uniform numbers has deviation 5774 / √n.
    assert abs(one.mean() - 10_000) < 4 * 5774 / np.sqrt(len(one))
    with pytest.raises(InputError, match="at least 1 example"):
        Sample(0)


def test_parts_of_confidences():
    state = Confidences(np.array([0.1, 0.2, 0.3]), np.array([1, 0, 1]), np.array([5, 6, 7]))
    part = state[np.array([True, False, True])]
    assert part.confidence.tolist() == [0.1, 0.3]
    assert part.correct.tolist() == [True, True]
    assert part.block.tolist() == [5, 7]
    assert Confidences(state.confidence, state.correct)[:1].block is None
