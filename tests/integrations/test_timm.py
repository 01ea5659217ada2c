"""Models of timm as their users save them: wrapped, they predict what timm predicts."""

import json
import shutil

import numpy as np
import pytest

try:
    import timm
except (ImportError, RuntimeError) as error:  # Its torchvision may be made for another torch.
    pytest.skip(f"timm cannot be imported: {error}", allow_module_level=True)
pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from PIL import Image

from calibrant import Predictions, load
from calibrant.cli import main
from calibrant.wrapping import wrap_run

CLASSES = ["cat", "dog", "owl"]


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """Coloured pictures of several sizes, in folders of splits and classes."""
    return _pictures(tmp_path_factory.mktemp("pets"), 3)


def _pictures(folder, channels):
    rng = np.random.default_rng(0)
    for split in ("valid", "test"):
        for name in CLASSES:
            (folder / split / name).mkdir(parents=True)
            for number in range(8):
                shape = (*rng.integers(30, 50, 2), channels)
                pixels = rng.integers(0, 256, shape, np.uint8)
                picture = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
                picture.save(folder / split / name / f"{number}.png")
    return folder


def network(architecture="resnet10t", mean=0.5, **options):
    """Draw a network that takes images of 32 × 32."""
    torch.manual_seed(0)
    model = timm.create_model(architecture, pretrained=False, num_classes=3, **options).eval()
    channels = options.get("in_chans", 3)
    model.pretrained_cfg = {
        **model.pretrained_cfg, "input_size": (channels, 32, 32), "crop_pct": 0.9,
        "mean": (mean,) * channels, "std": (0.25,) * channels,
    }  # fmt: skip
    return model


def save(model, folder, **options):
    timm.models.save_for_hf(model, folder, model_config={"label_names": CLASSES}, **options)
    return folder


def own_probabilities(folder, files):
    """Return what timm itself predicts, with its own transforms."""
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    settings = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**settings, is_training=False)
    with torch.inference_mode():
        images = [transform(Image.open(file)) for file in files]
        return model(torch.stack(images)).softmax(-1).numpy()


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize(
    ("architecture", "mean", "options"),
    [
        ("resnet10t", 0.5, {}),
        ("resnet10t", 0.3, {}),
        ("vit_tiny_patch16_224", 0.5, {"img_size": 32, "patch_size": 8, "depth": 2}),
    ],
)
def test_before_calibration_the_scores_are_those_of_timm(
    architecture, mean, options, safe, pets, tmp_path
):
    """timm writes the number of classes twice, which transformers cannot read."""
    model = network(architecture, mean, **options)
    folder = save(model, tmp_path / "model", safe_serialization=safe)
    wrap_run(str(folder), "image", str(pets), tmp_path / "run", bootstrap=0, device="cpu")
    files = sorted((pets / "test").rglob("*.png"))
    predictor = load(tmp_path / "run", "cpu")
    found = next(predictor.raw_predictions([str(file) for file in files])).numpy()
    order = [predictor.labels.index(name) for name in CLASSES]
    expected = own_probabilities(folder, files)
    np.testing.assert_allclose(found.probabilities()[:, order], expected, atol=1e-5)
    assert len(Predictions.read(tmp_path / "run" / "test.parquet")) == len(files)


def test_a_model_of_grey_images(pets, tmp_path, capsys):
    """Coloured ones were a traceback."""
    folder = save(network(in_chans=1), tmp_path / "model")
    grey = _pictures(tmp_path / "grey", 1)
    wrap_run(str(folder), "image", str(grey), tmp_path / "run", bootstrap=0, device="cpu")
    files = sorted((grey / "test").rglob("*.png"))
    predictor = load(tmp_path / "run", "cpu")
    found = next(predictor.raw_predictions([str(file) for file in files])).numpy()
    np.testing.assert_allclose(found.probabilities(), own_probabilities(folder, files), atol=1e-5)
    error = refused(capsys, folder, pets, tmp_path)
    assert "has images of 3 channels, and the model takes 1: give grey images" in error


def refused(capsys, model, data, tmp_path):
    run = tmp_path / "refused"
    command = ["wrap", str(model), "--task", "image", "--data", str(data), "-o", str(run)]
    assert main([*command, "--device", "cpu", "--bootstrap", "0"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not run.exists()
    return error


def test_a_file_of_weights_alone(pets, tmp_path, capsys):
    torch.save(network().state_dict(), tmp_path / "model.pth")
    error = refused(capsys, tmp_path / "model.pth", pets, tmp_path)
    assert "it is a file, and a folder with config.json is needed" in error
    assert "timm.models.save_for_hf" in error


def test_weights_of_another_number_of_classes(pets, tmp_path, capsys):
    folder = save(network(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"num_classes": 2, "label_names": CLASSES[:2]}
    config.pop("model_args", None)
    (folder / "config.json").write_text(json.dumps(config))
    error = refused(capsys, folder, pets, tmp_path)
    assert "fc.bias has the shape (3,), and (2,) was expected" in error


def test_a_model_without_names_of_its_classes(pets, tmp_path, capsys):
    timm.models.save_for_hf(network(), tmp_path / "model")
    error = refused(capsys, tmp_path / "model", pets, tmp_path)
    assert "--labels LABEL_0=cat" in error


@pytest.mark.parametrize("model", ["vit_tiny", "mlp_mixer"])
def test_networks_of_timm_are_trained(model, pets, tmp_path):
    data, run = tmp_path / "pets", tmp_path / "run"
    shutil.copytree(pets, data)
    shutil.copytree(pets / "valid", data / "train")
    command = ["train", "--task", "image", "--data", str(data), "--model", model, "-o", str(run)]
    assert main([*command, "--epochs", "1", "--device", "cpu", "--image-size", "32"]) == 0
    assert load(run, "cpu").labels == tuple(CLASSES)
