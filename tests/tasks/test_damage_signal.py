"""The signal of damage: read from inner layers, learned from training images damaged at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError

torch = pytest.importorskip("torch")

from calibrant.files.npz import opened_npz  # noqa: E402
from calibrant.tasks import open_task  # noqa: E402
from calibrant.tasks.damage_signal import (  # noqa: E402
    DamageReader,
    inner_layers,
    learned_damage,
    read_damage,
)
from calibrant.tasks.feature_signals import WithSignals  # noqa: E402
from calibrant.tasks.image.classifier import (  # noqa: E402
    Shape,
    build_classifier,
    image_scores,
)


class Net(torch.nn.Module):
    """Two convolutions; class 1 where the image is bright."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(2, 3, 1)
        )

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        bright = self.layers(pixel_values).flatten(1).shape[1] * 0.0 + pixel_values.mean((1, 2, 3))
        return torch.stack([0 * bright, bright], 1)


def arrays(moments: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a reader's numbers."""
    return {
        "mean": rng.normal(size=moments), "spread": rng.uniform(0.5, 2, moments),
        "first": rng.normal(size=(48, moments)), "first_bias": rng.normal(size=48),
        "second": rng.normal(size=(1, 48)), "second_bias": rng.normal(size=1),
    }  # fmt: skip


def test_against_plain_loops() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net, numbers = Net().double().eval(), arrays(4, rng)
    reader = DamageReader(["layers.1"], numbers).watch(net)
    pixels = torch.as_tensor(rng.normal(size=(5, 1, 3, 4)))
    net(pixels)
    found = reader().detach().numpy()
    for i in range(5):
        seen = net.layers[1](net.layers[0](pixels[i : i + 1]))[0].detach().numpy()
        moments = [channel.mean() for channel in seen] + [channel.std() for channel in seen]
        score = [
            (m - mean) / spread
            for m, mean, spread in zip(moments, numbers["mean"], numbers["spread"], strict=True)
        ]
        x = [np.sign(s) * np.log(1 + abs(s)) for s in score]
        total = numbers["second_bias"][0]
        for unit in range(48):
            inside = numbers["first_bias"][unit]
            inside += sum(numbers["first"][unit, j] * x[j] for j in range(4))
            total += numbers["second"][0, unit] * max(0.0, inside)
        assert found[i] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("lenet", ["encoder.layers.0", "encoder.layers.1", "encoder.layers.4", "encoder.layers.7"]),
        ("resnet18", [f"encoder.{part}" for part in ("bn1", "layer1", "layer2", "layer3")]),
        ("vit_tiny", [f"encoder.blocks.{i}" for i in (0, 2, 5, 8)]),
        ("mlp_mixer", [f"encoder.blocks.{i}" for i in (0, 1, 3, 5)]),
    ],
)
def test_the_layers_of_known_networks(model: str, expected: list[str]) -> None:
    if model != "lenet":
        pytest.importorskip("torchvision" if model == "resnet18" else "timm")
    net = build_classifier(model, Shape(3, 16), 2).eval()
    assert list(inner_layers(net)) == expected
    reader = DamageReader(expected).watch(net)
    with torch.no_grad():
        net(torch.zeros(2, 3, 16, 16))
    moments = reader.moments()
    assert moments is not None
    assert moments.shape[0] == 2
    assert reader.moments() is None  # They are forgotten.


def test_a_model_without_rows_of_layers_has_no_signal() -> None:
    assert learned_damage(torch.nn.Linear(2, 2), [torch.zeros(1, 2)], []) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of torch's own compiler.
def test_a_compiled_model_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = open_task("image", tiny=True)
    pixels = data.on_device(data.splits["test"], "cpu")
    plain, compiled = (build_classifier("lenet", Shape(1, 8), 2).eval() for _ in range(2))
    compiled.encoder.compile(backend="eager")
    with torch.no_grad():
        compiled(torch.zeros(2, 1, 8, 8))  # Its graph is older than the hooks.
    found = []
    for net in (plain, compiled):
        reader = data.damage(net)
        assert reader is not None
        found.append(image_scores(WithSignals(net, torch.ones(2, 3, 84), reader), pixels))
    np.testing.assert_array_equal(*(scored.signals["damage"] for scored in found))
    if hasattr(torch.compiler, "set_stance"):
        monkeypatch.delattr(torch.compiler, "set_stance")  # As in torch 2.5.
    assert data.damage(compiled) is None


def test_one_training_image_is_enough() -> None:
    net = build_classifier("lenet", Shape(1, 8), 2).eval()
    reader = learned_damage(net, [torch.zeros(1, 1, 8, 8)], [[torch.ones(1, 1, 8, 8)]])
    assert reader is not None
    reader.watch(net)
    with torch.no_grad():
        net(torch.rand(3, 1, 8, 8))
        assert bool(reader().isfinite().all())


def test_what_is_learned_tells_damage_that_changes_predictions_and_survives_its_file(
    tmp_path: Path,
) -> None:
    torch.manual_seed(1)
    net = Net().eval()
    pixels = torch.rand(3000, 1, 6, 6) - 0.45  # Class 1 if the mean is above 0.
    darker, same = pixels - 1.0, pixels.clone()
    reader = learned_damage(net, pixels.split(500), [darker.split(500), same.split(500)])
    assert reader is not None
    reader.watch(net)

    def read(reader: DamageReader, images: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            net(images)
            return reader().numpy()

    changed = (net(pixels).argmax(1) == 1).numpy()
    assert changed.mean() > 0.5
    assert read(reader, darker).mean() > 0.5 > -0.5 > read(reader, pixels).mean()
    np.savez(tmp_path / "signals.npz", **reader.arrays())
    with opened_npz(tmp_path / "signals.npz") as archive:
        again = read_damage(archive, tmp_path)
    assert again is not None
    again.watch(net)
    np.testing.assert_array_equal(read(again, darker), read(reader, darker))
    np.savez(tmp_path / "bad.npz", **{**reader.arrays(), "damage_mean": np.full(6, np.nan)})
    with opened_npz(tmp_path / "bad.npz") as archive, pytest.raises(InputError, match="finite"):
        read_damage(archive, tmp_path)


def test_images_learn_it_from_their_training_part() -> None:
    data = open_task("image", tiny=True)
    reader = data.damage(data.build_model().eval())
    assert reader is not None
    assert all(np.isfinite(v).all() for n, v in reader.arrays().items() if n != "damage_layers")
