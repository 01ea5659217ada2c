"""Corrupted images: each kind by hand or by a slow twin, and what holds for all of them."""

import io
import math
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.corruptions import IMAGE, STRENGTHS, TEXT  # noqa: E402
from calibrant.corruptions import image as image_module  # noqa: E402
from calibrant.corruptions.counter_random import normal, poisson_quantile, uniform  # noqa: E402
from calibrant.corruptions.image import (  # noqa: E402  # noqa: E402
    corrupt_bytes,
    corrupt_images,
    defocus_blur,
    gaussian_blur,
    motion_blur,
)
from calibrant.corruptions.jpeg import jpeg  # noqa: E402
from calibrant.errors import InputError  # noqa: E402

KINDS = sorted(IMAGE)


@pytest.fixture(scope="module")
def photos():
    """Smooth shapes with edges and some texture, as photographs have: (16, 3, 32, 32)."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:32, :32] / 32
    made = []
    for _ in range(16):
        channels = []
        for _ in range(3):
            a, b, c, d = random.uniform(-1, 1, 4)
            wave = np.sin(6 * (a * x + b * y) + 5 * c) + (x * c + y * d > a / 2)
            channels.append(wave + 0.15 * random.normal(size=x.shape))
        picture = np.stack(channels)
        made.append((picture - picture.min()) / (picture.max() - picture.min()))
    return torch.tensor(np.stack(made), dtype=torch.float32)


def test_every_kind_of_the_table_is_there():
    assert set(image_module._CHANGES) == set(IMAGE)
    assert all(len(kind.levels) == len(STRENGTHS) for kind in IMAGE.values())
    assert not set(IMAGE) & set(TEXT)  # One name, one thing.


@pytest.mark.parametrize("kind", KINDS)
def test_stronger_is_further_from_the_image(photos, kind):
    made = [corrupt_images(photos, kind, strength) for strength in STRENGTHS]
    errors = [float(((new - photos) ** 2).mean()) for new in made]
    assert errors[0] > 0
    assert all(a < b for a, b in pairwise(errors)), errors
    for new in made:
        assert new.shape == photos.shape
        assert new.dtype == photos.dtype
        assert 0 <= float(new.min()) <= float(new.max()) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_corrupted_as_within_any_batch(photos, kind):
    whole = corrupt_images(photos, kind, 3, seed=5)
    for start, stop in ((0, 1), (1, 7), (7, 16)):
        part = corrupt_images(photos[start:stop], kind, 3, seed=5, first=start)
        torch.testing.assert_close(part, whole[start:stop], rtol=0, atol=1e-6)
    assert torch.equal(whole, corrupt_images(photos, kind, 3, seed=5))
    drawn = kind.endswith("noise") or kind == "motion-blur" or kind.startswith("random")
    assert torch.equal(whole, corrupt_images(photos, kind, 3, seed=6)) is not drawn


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_gives_the_same(photos, kind):
    here, there = (corrupt_images(photos.to(d), kind, 5).cpu() for d in ("cpu", "cuda"))
    # A value that is rounded the other way by the last digit may be one of 255, or one photon, off.
    assert float((here - there).abs().median()) < 1e-6
    assert float(((here - there).abs() > 1e-4).float().mean()) < 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 1, 1), (2, 1, 5, 13), (1, 3, 8, 16)])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_flat_images_of_any_size(kind, shape, value):
    images = torch.full(shape, value)
    new = corrupt_images(images, kind, 5)
    assert new.shape == shape
    assert bool(((new >= 0) & (new <= 1)).all())
    if kind.endswith("blur") or kind in ("contrast", "pixelate", "random-filter"):
        torch.testing.assert_close(new, images)
    if kind == "jpeg":
        torch.testing.assert_close(new, images, rtol=0, atol=1.51 / 255)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_stay_what_they_are(photos, dtype):
    for kind in KINDS:
        new = corrupt_images(photos.to(dtype), kind, 2)
        assert new.dtype == dtype
        assert bool(((new >= 0) & (new <= 1)).all())


def test_no_images_stay_none():
    for shape in ((0, 3, 8, 8), (2, 3, 0, 8)):
        assert corrupt_images(torch.zeros(shape), "gaussian-noise", 1).shape == shape
    assert corrupt_bytes(np.zeros((0, 4, 4, 3), np.uint8), "jpeg", 1).shape == (0, 4, 4, 3)


@pytest.mark.parametrize(
    ("images", "kind", "strength", "message"),
    [
        (torch.zeros(1, 3, 2, 2), "gausian-noise", 1, "Did you mean 'gaussian-noise'"),
        (torch.zeros(1, 3, 2, 2), "contrast", 0, "1, 2, 3, 4 or 5, got 0"),
        (torch.zeros(3, 2, 2), "contrast", 1, "got shape"),
        (torch.zeros(1, 3, 2, 2, dtype=torch.uint8), "contrast", 1, "divide bytes by 255"),
        (torch.full((1, 3, 2, 2), 1.5), "contrast", 1, "corrupt before normalising"),
        (torch.full((1, 3, 2, 2), math.nan), "contrast", 1, "corrupt before normalising"),
    ],
)
def test_what_is_refused(images, kind, strength, message):
    with pytest.raises(InputError, match=message):
        corrupt_images(images, kind, strength)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_any_number_of_channels(channels):
    """Satellites and alpha have others than grey and colour; JPEG takes each by itself."""
    images = torch.rand((2, channels, 9, 12), generator=torch.Generator().manual_seed(0))
    for kind in KINDS:
        new = corrupt_images(images, kind, 3)
        assert new.shape == images.shape
        assert not torch.equal(new, images)
    if channels not in (1, 3):
        alone = [corrupt_images(images[:, [k]], "jpeg", 3) for k in range(channels)]
        assert torch.equal(corrupt_images(images, "jpeg", 3), torch.cat(alone, 1))
        with pytest.raises(InputError, match=f"1 or 3 channels, got {channels}"):
            jpeg(images, 50)


def test_bytes_are_the_same_images(photos):
    given = (photos * 255).round().byte()
    as_bytes = given.permute(0, 2, 3, 1).numpy()
    for kind in KINDS:
        new = corrupt_bytes(as_bytes, kind, 4, seed=1, first=3)
        expected = corrupt_images(given.float() / 255, kind, 4, seed=1, first=3)
        expected = (expected * 255).round().byte().permute(0, 2, 3, 1).numpy()
        np.testing.assert_array_equal(new, expected)
    with pytest.raises(InputError, match="of bytes, got float32"):
        corrupt_bytes(as_bytes.astype(np.float32), "jpeg", 1)


def test_bytes_in_several_batches(photos):
    as_bytes = (photos * 255).byte().permute(0, 2, 3, 1).numpy()
    whole = corrupt_bytes(as_bytes, "shot-noise", 5)
    parts = corrupt_bytes(as_bytes, "shot-noise", 5, batch=3 * 3 * 32 * 32)
    np.testing.assert_array_equal(parts, whole)


# Random numbers.


def test_draws_are_uniform_and_independent():
    draws = uniform(torch.zeros(64, 4096), seed=3, name="test").double()
    assert 0 < float(draws.min()) < float(draws.max()) < 1
    counts = torch.histc(draws, 64, 0, 1)
    expected = draws.numel() / 64
    assert float(((counts - expected) ** 2 / expected).sum()) < 63 + 4 * math.sqrt(2 * 63)
    centred = draws - draws.mean()
    for other in (centred.roll(1, 0), centred.roll(1, 1)):
        assert abs(float((centred * other).mean() / centred.var())) < 4 / math.sqrt(draws.numel())
    streams = [uniform(torch.zeros(1, 4096), s, n) for s, n in ((3, "test"), (4, "test"), (3, "t"))]
    for one, other in pairwise(streams):
        assert abs(float(torch.corrcoef(torch.cat([one, other]))[0, 1])) < 4 / 64


def test_the_greatest_draw_is_below_one():
    """One draw in 16 million was rounded to 1, and its Poisson quantile was not a number."""
    image = torch.full((1, 3, 32, 32), 0.6)
    draws = uniform(image, seed=2, name="shot-noise, photons", first=2428)
    assert float(draws.max()) == 1 - 2.0**-24
    assert bool(corrupt_images(image, "shot-noise", 1, seed=2, first=2428).isfinite().all())


def test_a_stream_is_what_splitmix_gives():
    """Against the published mixing, in whole numbers of Python."""

    def mixed(value):
        value &= (1 << 64) - 1
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
        return value ^ (value >> 31)

    import zlib

    golden, seed, name = 0x9E3779B97F4A7C15, 9, "twin"
    key = (seed << 32) ^ zlib.crc32(name.encode())
    drawn = uniform(torch.zeros(2, 3), seed, name, first=7)
    for image in range(2):
        stream = mixed(mixed((7 + image) * golden + key) + key)
        for place in range(3):
            bits = mixed(stream + (place + 1) * golden) >> 40
            assert float(drawn[image, place]) == pytest.approx((bits + 0.5) / 2**24, abs=1e-7)


def test_normal_draws_against_scipy():
    stats = pytest.importorskip("scipy.stats")
    draws = normal(torch.zeros(16, 4096), seed=0, name="test").numpy().ravel()
    assert stats.kstest(draws, "norm").pvalue > 0.001
    assert draws.mean() == pytest.approx(0, abs=4 / 256)


@pytest.mark.parametrize("mean", [0.0, 0.3, 2.0, 9.99, 10.0, 40.0, 500.0])
def test_poisson_quantiles_against_scipy(mean):
    stats = pytest.importorskip("scipy.stats")
    shares = (np.arange(4096) + 0.5) / 4096
    ours = poisson_quantile(torch.full((4096,), mean), torch.tensor(shares).float()).numpy()
    exact = stats.poisson(mean).ppf(shares.astype(np.float32).astype(float))
    assert np.abs(ours - exact).max() <= (0 if mean < 10 else 1)
    assert ours.mean() == pytest.approx(mean, rel=0.01)
    if mean:
        assert ours.var() == pytest.approx(mean, rel=0.03)


# Each kind.


def test_the_noises_have_the_size_that_the_table_says():
    grey = torch.full((8, 3, 32, 32), 0.5)
    for strength in STRENGTHS:
        level = {kind: IMAGE[kind].levels[strength - 1] for kind in IMAGE}
        noise = corrupt_images(grey, "gaussian-noise", strength) - grey
        assert float(noise.std()) == pytest.approx(level["gaussian-noise"], rel=0.03)
        noise = corrupt_images(grey, "shot-noise", strength) - grey
        assert float(noise.std()) == pytest.approx((0.5 / level["shot-noise"]) ** 0.5, rel=0.03)
        hit = corrupt_images(grey, "impulse-noise", strength)
        share = float((hit != 0.5).float().mean())
        assert share == pytest.approx(level["impulse-noise"], abs=0.004)
        assert float((hit == 1).float().mean()) == pytest.approx(share / 2, abs=0.004)


def loop_blur(image, weights):
    """Plain loops: each pixel from those around it, the border going on."""
    height, width = image.shape
    reach_y, reach_x = weights.shape[0] // 2, weights.shape[1] // 2
    new = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            for i in range(-reach_y, reach_y + 1):
                for j in range(-reach_x, reach_x + 1):
                    near = image[min(max(y + i, 0), height - 1), min(max(x + j, 0), width - 1)]
                    new[y, x] += weights[i + reach_y, j + reach_x] * near
    return new


def test_gaussian_blur_against_loops_and_scipy(photos):
    ndimage = pytest.importorskip("scipy.ndimage")
    small = photos[:1, :1, :7, :9].double()
    d = np.arange(-3, 4)
    weights = np.exp(-(d[:, None] ** 2 + d[None] ** 2) / (2 * 0.6**2))
    expected = loop_blur(small[0, 0].numpy(), weights / weights.sum())
    np.testing.assert_allclose(gaussian_blur(small, 0.6)[0, 0].numpy(), expected, atol=1e-12)
    whole = photos[0, 0].double().numpy()
    theirs = ndimage.gaussian_filter(whole, 1.0, mode="nearest")
    ours = gaussian_blur(photos[:1, :1].double(), 1.0)[0, 0].numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_disk_has_its_area_and_is_round():
    spot = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    spot[0, 0, 4, 4] = 1
    for radius in (0.75, 1.5, 2.0, 3.0):
        disk = defocus_blur(spot, radius)[0, 0]
        assert float(disk.sum()) == pytest.approx(1)
        assert 1 / float(disk.max()) == pytest.approx(math.pi * radius**2, rel=0.02) or radius < 0.8
        assert torch.allclose(disk, disk.T)
        assert torch.allclose(disk, disk.flip(0))
    centre = defocus_blur(spot, 0.75)[0, 0, 4, 4]
    # The square of side 1 less its four corners outside of the circle: by integration.
    x = (np.arange(200_000) + 0.5) / 200_000 * 0.5
    covered = 4 * np.minimum(0.5, np.sqrt(0.75**2 - x**2)).mean() * 0.5
    assert float(centre) == pytest.approx(covered / (math.pi * 0.75**2), rel=0.01)


def test_motion_blur_is_a_trail_at_the_angle_that_was_drawn():
    spot = torch.zeros(3, 1, 21, 21)
    spot[:, 0, 10, 10] = 1
    trails = motion_blur(spot, 2.0, torch.tensor([0.0, 0.5, 1.0]))[:, 0].double()
    y, x = torch.meshgrid(torch.arange(21) - 10.0, torch.arange(21) - 10.0, indexing="ij")
    fade = np.exp(-(np.arange(9) ** 2) / 8)
    reach = (fade * np.arange(9)).sum() / fade.sum()
    for trail, angle in zip(trails, (-45, 0, 45), strict=True):
        assert float(trail.sum()) == pytest.approx(1, abs=1e-5)
        # Light comes from further along the line, so the spot is drawn out the other way.
        assert float((trail * x).sum()) == pytest.approx(
            -reach * math.cos(math.radians(angle)), abs=1e-3
        )
        assert float((trail * y).sum()) == pytest.approx(
            -reach * math.sin(math.radians(angle)), abs=1e-3
        )
    np.testing.assert_allclose(trails[1, 10, 2:11].flip(0).numpy(), fade / fade.sum(), atol=1e-6)


def test_contrast_and_brightness_by_hand():
    image = torch.tensor([0.0, 0.2, 0.4, 1.0]).reshape(1, 1, 2, 2)
    new = corrupt_images(image, "contrast", 2).ravel()  # Half of it around the mean of 0.4.
    torch.testing.assert_close(new, torch.tensor([0.2, 0.3, 0.4, 0.7]))
    new = corrupt_images(image, "brightness", 4).ravel()
    torch.testing.assert_close(new, torch.tensor([0.2, 0.4, 0.6, 1.0]))


def test_brightness_against_hsv(photos):
    import colorsys

    new = corrupt_images(photos, "brightness", 5)
    for y, x in np.random.default_rng(0).integers(0, 32, (50, 2)):
        hue, saturation, value = colorsys.rgb_to_hsv(*photos[2, :, y, x].tolist())
        expected = colorsys.hsv_to_rgb(hue, saturation, min(1, value + 0.3))
        np.testing.assert_allclose(new[2, :, y, x].numpy(), expected, atol=1e-5)


def test_pixelate_by_hand():
    image = torch.arange(16.0).reshape(1, 1, 4, 4) / 16
    half = image_module._pixelate(image, 0.5, None)
    means = [[2.5, 4.5], [10.5, 12.5]]
    expected = torch.tensor(means).repeat_interleave(2, 0).repeat_interleave(2, 1) / 16
    torch.testing.assert_close(half[0, 0], expected)
    assert torch.unique(corrupt_images(image, "pixelate", 5)).numel() == 4


def pillow_jpeg(images, quality, subsample):
    """The same by the Independent JPEG Group's library."""
    pil = pytest.importorskip("PIL.Image")
    made = []
    for image in (images * 255).round().byte().permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        picture = pil.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
        picture.save(file, "JPEG", quality=quality, subsampling=2 if subsample else 0)
        decoded = np.asarray(pil.open(file)).reshape(image.shape)
        made.append(decoded.transpose(2, 0, 1))
    return np.stack(made).astype(float)


@pytest.mark.parametrize("quality", [1, 10, 40, 50, 65, 80, 95, 100])
@pytest.mark.parametrize("subsample", [True, False])
@pytest.mark.parametrize("size", [(32, 32), (21, 27), (24, 40)])
def test_jpeg_against_pillow(photos, quality, subsample, size):
    images = torch.nn.functional.interpolate(photos[:6], size, mode="bilinear")
    ours = (jpeg(images, quality, subsample=subsample) * 255).round().numpy()
    theirs = pillow_jpeg(images, quality, subsample)
    # Theirs computes in whole numbers: now and then a coefficient is rounded the other way.
    difference = np.abs(ours - theirs)
    assert difference.mean() < 0.5
    assert (difference > 0).mean() < 0.35
    assert np.quantile(difference, 0.98) <= 3


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 5), (8, 6)])
def test_jpeg_of_small_images_against_pillow(photos, size):
    """One coefficient of their one block that is rounded the other way is seen everywhere."""
    images = torch.nn.functional.interpolate(photos, size, mode="bilinear")
    ours = (jpeg(images, 80) * 255).round().numpy()
    difference = np.abs(ours - pillow_jpeg(images, 80, True)).reshape(len(images), -1)
    assert np.median(difference.max(1)) <= 2


def test_jpeg_of_grey_images_against_pillow(photos):
    images = photos[:, :1, :30, :17]
    difference = np.abs((jpeg(images, 50) * 255).round().numpy() - pillow_jpeg(images, 50, True))
    assert difference.mean() < 0.15


@pytest.mark.parametrize("quality", [0, 101, 50.5])
def test_a_quality_that_is_none(quality):
    with pytest.raises(InputError, match="from 1 to 100"):
        jpeg(torch.zeros(1, 3, 8, 8), quality)
