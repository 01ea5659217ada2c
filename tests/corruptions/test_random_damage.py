"""Damage that is drawn for each image, against plain loops, by hand, and by its spectrum."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.corruptions import IMAGE, RANDOM_DAMAGE, parse_corruption  # noqa: E402
from calibrant.corruptions.image import corrupt_images  # noqa: E402
from calibrant.corruptions.names import RANDOM_KINDS  # noqa: E402
from calibrant.corruptions.random_damage import (  # noqa: E402
    BLOCK_DRAWS,
    FILTER_DRAWS,
    TONE_POINTS,
    random_blocks,
    random_filter,
    random_tones,
    random_veils,
    random_waves,
)


def test_every_name_is_known():
    assert len(RANDOM_DAMAGE) == 15
    assert all(parse_corruption(name, IMAGE) for name in RANDOM_DAMAGE)


@pytest.mark.parametrize("sharpened", [False, True])
def test_filters_against_loops(sharpened):
    random = np.random.default_rng(0)
    image, draws = random.random((5, 6)), random.random(FILTER_DRAWS)
    draws[-1] = 0.2 if sharpened else 0.8
    amount = 0.4
    weights = np.zeros((7, 7))
    for i in range(7):
        for j in range(7):
            apart = (i - 3) ** 2 + (j - 3) ** 2
            weights[i, j] = draws[7 * i + j] ** 3 * np.exp(-apart / (2 * 1.5**2))
    weights /= weights.sum()
    blurred = np.zeros_like(image)
    for y in range(5):
        for x in range(6):
            for i in range(7):
                for j in range(7):
                    near = image[min(max(y + i - 3, 0), 4), min(max(x + j - 3, 0), 5)]
                    blurred[y, x] += weights[i, j] * near
    expected = image + 2 * amount * (image - blurred) if sharpened else blurred
    given = torch.as_tensor(image, dtype=torch.float32)[None, None]
    found = random_filter(given, amount, torch.as_tensor(draws[None], dtype=torch.float32))
    np.testing.assert_allclose(found[0, 0].numpy(), expected, atol=1e-5)


def test_waves_have_their_size_their_band_and_no_brightness():
    noise = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    draws = torch.tensor([[0.4, 0.0, 0.1], [0.8, 0.0, 0.9]])  # Around 0.2 and 0.4 per pixel.
    waves = random_waves(torch.zeros(2, 3, 64, 64), 0.1, noise, draws)
    for image, frequency in zip(waves.double(), (0.2, 0.4), strict=True):
        assert float(image.square().mean()) ** 0.5 == pytest.approx(0.1, rel=1e-4)
        assert float(image.mean((1, 2)).abs().max()) < 1e-6
        power = torch.fft.fft2(image).abs().square().sum(0).numpy()
        across = np.fft.fftfreq(64)
        radius = np.hypot(across[:, None], across[None])
        inside = power[np.abs(radius - frequency) < 0.06].sum() / power.sum()
        assert inside > 0.97
    assert torch.equal(waves[0, 0], waves[0, 1])  # The same in all channels, and not.
    assert not torch.allclose(waves[1, 0], waves[1, 1], atol=1e-3)


def test_a_tone_curve_by_hand():
    image = torch.tensor([0.0, 0.1, 0.5, 1.0]).reshape(1, 1, 2, 2).repeat(1, 2, 1, 1)
    draws = torch.full((1, 2 * TONE_POINTS + 1), 0.5)  # Normal draws of 0: the curve is straight.
    draws[0, 0] = 0.8413447  # The first channel's black is one deviation brighter.
    draws[0, -1] = 0.9
    found = random_tones(image, 0.2, draws)
    expected = torch.tensor([0.2, 0.2, 0.5, 1.0])  # 0.1 is halfway between the points 0.2 and 0.2.
    torch.testing.assert_close(found[0, 0].ravel(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(found[0, 1], image[0, 1])
    draws[0, -1] = 0.1  # Now both have the curve of the first.
    torch.testing.assert_close(random_tones(image, 0.2, draws)[0, 1], found[0, 0])


def test_blocks_against_loops():
    random = np.random.default_rng(0)
    images, draws, amount = random.random((3, 2, 7, 5)), random.random((3, BLOCK_DRAWS)), 0.7
    given = torch.as_tensor(images, dtype=torch.float32)
    found = random_blocks(given, amount, torch.as_tensor(draws)).numpy()
    for image, draw, new in zip(images, draws, found, strict=True):
        places = [
            [int((i + 0.5) * (1 - amount * (1 + u) / 2) + v) for i in range(size)]
            for size, (u, v) in zip((7, 5), draw.reshape(2, 2), strict=True)
        ]
        rows, columns = map(np.array, places)
        for y in range(7):
            for x in range(5):
                block = image[:, rows == rows[y]][:, :, columns == columns[x]]
                np.testing.assert_allclose(new[:, y, x], block.mean((1, 2)), atol=1e-6)


def test_blocks_of_one_pixel_change_nothing_and_brightness_stays():
    images = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    none = torch.zeros(2, BLOCK_DRAWS)
    torch.testing.assert_close(random_blocks(images, 0.0, none), images)
    found = random_blocks(images, 0.7, none + 0.5)
    torch.testing.assert_close(found.mean((1, 2, 3)), images.mean((1, 2, 3)))


def test_even_veils_by_hand():
    images = torch.rand(3, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    draws = torch.tensor([[0.5, 0.3, 0.9, k, 0.2, 0.7] for k in (0.4, 0.6, 0.8)])
    found = random_veils(images, 0.8, torch.zeros(3, 2, 5, 5), draws)
    colours = [images[0].mean((1, 2)), torch.tensor([0.2, 0.7]), torch.tensor([0.2, 0.2])]
    for image, colour, new in zip(images, colours, found, strict=True):
        expected = 0.4 * image + 0.6 * colour[:, None, None]  # 0.8 · (1 + 0.5) / 2 is 0.6.
        torch.testing.assert_close(new, expected)


def test_clouds_are_smooth_and_as_thick_on_average():
    noise = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    draws = torch.tensor([[0.0, 1.0, w, 0.6, 1.0, 1.0, 1.0] for w in (0.0, 0.3)])
    share = random_veils(torch.zeros(2, 3, 64, 64), 0.8, noise, draws)  # Black under a white veil.
    assert torch.equal(share[:, 0], share[:, 2])
    for veil, width in zip(share[:, 0].double(), (1.0, 3.1), strict=True):
        assert float(veil.mean()) == pytest.approx(0.4, abs=0.002)
        assert float(veil.std()) == pytest.approx(0.4 * 0.6 * 0.6, rel=0.03)
        step = veil.diff(dim=1).square().mean() / veil.var()
        # Of noise with a Gaussian profile of deviation σ, neighbours correlate by exp(−1 / 4σ²).
        assert float(step) == pytest.approx(2 - 2 * np.exp(-1 / (4 * width**2)), rel=0.25)


def test_a_mix_has_each_kind_for_some_images():
    images = torch.rand(200, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    mixed = corrupt_images(images, "random-mix", 3)
    assert len(RANDOM_KINDS) == 5
    brighter = (mixed.mean((1, 2, 3)) - images.mean((1, 2, 3))).abs()
    same_mean = float((brighter < 1e-4).float().mean())  # Blocks keep it, veils and tones do not.
    assert 0.1 < same_mean < 0.5
    half = corrupt_images(images[100:], "random-mix", 3, first=100)
    torch.testing.assert_close(half, mixed[100:])
    assert bool((mixed != images).flatten(1).any(1).all())
