"""Scenes as figures: the colours say what the scene holds."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from calibrant import InputError
from calibrant.charts import scenes as maps
from calibrant.metrics import Scene, accumulate, pixel_predictions
from calibrant.plots import confidence_map, confidence_maps

NAMES = ("sky", "sea", "$and")


@pytest.fixture(scope="module")
def scene():
    random = np.random.default_rng(0)
    mask = np.repeat([0, 1, 2], 4)[:, None] * np.ones(10, int)
    mask[4] = -100
    logits = random.normal(size=(12, 10, 3)) + 3 * np.eye(3)[np.where(mask < 0, 0, mask)]
    image = random.integers(0, 256, (12, 10, 3), np.uint8)
    return Scene.from_logits(image, logits, mask)


def test_colours_are_apart_for_any_number_of_classes():
    for classes in (2, 8, 21, 150):
        colours = maps.class_colours(classes)
        assert colours.shape == (classes, 3)
        assert colours.dtype == np.uint8
        assert len(np.unique(colours, axis=0)) == classes
        assert not (colours == maps.VOID).all(axis=1).any()
    np.testing.assert_array_equal(maps.class_colours(21)[:5], maps.class_colours(5))


def test_class_map_is_white_where_ignored(scene):
    shown = maps.class_map(scene.truth, 3)
    assert (shown[4] == 255).all()
    for k in range(3):
        np.testing.assert_array_equal(shown[scene.truth == k][0], maps.class_colours(3)[k])


def test_deeper_is_more_confident():
    steps = np.linspace(1 / 3, 1, 50)
    light = maps.confidence_map_of(steps[None], 3)[0].astype(int).sum(-1)
    assert (np.diff(light) < 0).all()
    ends = maps.confidence_map_of(np.array([[0.0, 1 / 3, 1.0, 1.0 + 1e-9]]), 3)[0]
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[2], ends[3])


def test_mistakes_alone_have_a_colour(scene):
    shown = maps.mistake_map(scene, 3)
    assert scene.wrong.any()
    assert (shown[~scene.kept] == 255).all()
    right = shown[scene.kept & ~scene.wrong]
    assert len(np.unique(right, axis=0)) == 1
    red, _, blue = shown[scene.wrong].astype(int).T
    assert (red > blue).all()
    assert not (shown[scene.wrong] == right[0]).all(axis=1).any()
    order = np.argsort(scene.confidence[scene.wrong])
    assert (np.diff(shown[scene.wrong].astype(int).sum(-1)[order]) <= 0).all()


def test_grey_pictures_and_large_ones(scene):
    grey = Scene(scene.image[..., 0], scene.truth, scene.predicted, scene.confidence)
    np.testing.assert_array_equal(maps.picture(grey), np.stack([scene.image[..., 0]] * 3, -1))
    np.testing.assert_array_equal(maps.picture(scene), scene.image)
    assert maps.shrunk(scene) is scene
    small = maps.shrunk(scene, 5)
    assert small.truth.shape == (4, 4)
    np.testing.assert_array_equal(small.confidence, scene.confidence[::3, ::3])


def test_a_map_on_axes_given(scene):
    ax = Figure().add_subplot()
    assert confidence_map(scene, 3, ax, title="Mine") is ax
    assert ax.get_title(loc="left") == "Mine"
    np.testing.assert_array_equal(
        ax.images[0].get_array(), maps.confidence_map_of(scene.confidence, 3)
    )
    scale = ax.figure.axes[1]
    assert scale.get_ylim() == pytest.approx((1 / 3, 1))


def test_the_figure_of_the_paper(scene):
    state = accumulate(pixel_predictions(np.zeros((12, 10, 3)), scene.truth))
    figure = confidence_maps([scene, scene], NAMES, state=state)
    pictures = [ax for ax in figure.axes if ax.images]
    assert len(pictures) == 10
    shown = [ax.images[0].get_array() for ax in pictures[:5]]
    np.testing.assert_array_equal(shown[0], scene.image)
    np.testing.assert_array_equal(shown[1], maps.class_map(scene.truth, 3))
    np.testing.assert_array_equal(shown[2], maps.class_map(scene.predicted, 3))
    np.testing.assert_array_equal(shown[4], maps.mistake_map(scene, 3))
    assert [ax.get_xlabel() for ax in figure.axes if not ax.images] == ["Confidence"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["sky", "sea", "$and"]
    for kind in ("png", "pdf", "svg"):
        file = BytesIO()
        figure.savefig(file, format=kind)
        assert file.tell() > 2000
    file = BytesIO()
    figure.savefig(file, format="png")
    file.seek(0)
    assert len(np.unique(imread(file).reshape(-1, 4), axis=0)) > 50


def test_within_a_larger_figure_and_of_nothing(scene):
    part = Figure(layout="constrained").subfigures(1, 2)[0]
    assert confidence_maps([scene], NAMES, part) is part
    with pytest.raises(InputError, match="at least one scene"):
        confidence_maps([], NAMES)
