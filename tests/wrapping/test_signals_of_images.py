"""A wrapped network of images computes signals where its data have training images."""

import numpy as np
import pytest
import torch
import transformers
from small_models import SMALL, names, save
from test_as_pipelines import resnet, vit

from calibrant import Predictions, load
from calibrant.export import export_run
from calibrant.wrapping import wrap_run

NAMES = {"energy", "norm", "distance", "own_distance", "damage"}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Bright, dark and grey images; training data have one class more than the model."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("many") / "tones.npz"
    arrays = {"label_names": np.array(["dog", "cat", "owl", "cow"])}
    for split, size, classes in (("train", 60, 4), ("valid", 90, 3), ("test", 12, 3)):
        labels = np.arange(size) % classes
        noise = rng.integers(0, 60, (size, 32, 32, 3))
        arrays[f"{split}_images"] = (noise + 60 * labels[:, None, None, None]).astype(np.uint8)
        arrays[f"{split}_labels"] = labels
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(("make", "layers"), [(vit, 1), (resnet, 2)])
def test_they_are_computed_saved_and_exported(make, layers, many, tmp_path):
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model, run = make(tmp_path / "model"), tmp_path / "run"
    options = {"bootstrap": 0, "device": "cpu", "calibrator": "shift-aware"}
    wrap_run(str(model), "image", str(many), run, **options)
    assert set(Predictions.read(run / "valid.parquet").signals) == NAMES
    arrays = np.load(run / "signals.npz")
    assert len(arrays["damage_layers"]) == layers
    assert arrays["centres"].shape[0] == 3
    export_run(run, tmp_path / "export")
    images = np.load(many)["test_images"]
    one, two = (load(path).predict(list(images)) for path in (run, tmp_path / "export"))
    assert [p.label for p in one] == [p.label for p in two]
    ours, theirs = ([p.confidence for p in found] for found in (one, two))
    np.testing.assert_allclose(ours, theirs, atol=2e-4)


def test_without_training_images_there_are_none(pets, tmp_path):
    """Validation images must not show what validation images look like."""
    model, run = vit(tmp_path / "model"), tmp_path / "run"
    options = {"bootstrap": 0, "device": "cpu", "calibrator": "shift-aware"}
    wrap_run(str(model), "image", str(pets), run, **options)
    assert not Predictions.read(run / "valid.parquet").signals
    assert not (run / "signals.npz").exists()
    picture = str(next((pets / "test").rglob("*.png")))
    assert load(run, "cpu").predict([picture])[0].label in ("cat", "dog", "owl")


class HiddenConfig(transformers.ViTConfig):
    """Of a network that is called in another way."""

    model_type = "hidden-head"


class Hidden(transformers.ViTForImageClassification):
    """Computes its logits without calling its head."""

    config_class = HiddenConfig

    def forward(self, pixel_values=None, **_):
        rows = self.vit(pixel_values).last_hidden_state[:, 0]
        logits = torch.nn.functional.linear(rows, self.classifier.weight, self.classifier.bias)
        return {"logits": logits}


def test_a_hidden_head_gives_no_signals(many, tmp_path):
    transformers.AutoConfig.register("hidden-head", HiddenConfig)
    transformers.AutoModelForImageClassification.register(HiddenConfig, Hidden)
    config = HiddenConfig(**SMALL, image_size=32, patch_size=8, **names(("dog", "cat", "owl")))
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    model, run = save(Hidden(config), processor, tmp_path / "model"), tmp_path / "run"
    options = {"bootstrap": 0, "device": "cpu", "calibrator": "shift-aware"}
    wrap_run(str(model), "image", str(many), run, **options)
    assert not Predictions.read(run / "valid.parquet").signals
    found = load(run, "cpu").predict([np.load(many)["test_images"][0]])
    assert found[0].label in ("dog", "cat", "owl")
