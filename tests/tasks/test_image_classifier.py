"""Networks by name: shapes, seeds, and what is written is read."""

import importlib
import sys

import pytest

torch = pytest.importorskip("torch")

from calibrant.errors import InputError, MissingExtraError  # noqa: E402
from calibrant.tasks import open_task  # noqa: E402
from calibrant.tasks.image import classifier as image_classifier  # noqa: E402
from calibrant.tasks.image.classifier import (  # noqa: E402
    IMAGE_MODELS,
    Shape,
    build_classifier,
    image_scores,
    load_classifier,
)
from calibrant.tasks.image.networks import write_network  # noqa: E402
from calibrant.training.head import find_head  # noqa: E402

LIBRARIES = {"resnet": "torchvision.models", "vit": "timm.models", "mlp": "timm.models"}


def needs(model):
    """Skip where the library that has the network is not there, or is for another torch."""
    library = next((lib for part, lib in LIBRARIES.items() if part in model), "torch")
    try:
        importlib.import_module(library)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{library} cannot be imported: {str(error).splitlines()[0]}")


@pytest.mark.parametrize("shape", [Shape(3, 32), Shape(1, 8)], ids=str)
@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_every_network_takes_small_images_and_has_a_head(model, shape):
    needs(model)
    network = build_classifier(model, shape, 10).eval()
    assert network(torch.zeros(2, *shape, shape.size)).shape == (2, 10)
    assert find_head(network)[0] == "classifier"


@pytest.mark.parametrize(
    ("size", "side"),
    [(8, 1), (12, 1), (16, 2), (28, 4), (32, 4), (48, 6), (60, 6), (64, 16), (100, 20), (224, 16)],
)
def test_patches_part_any_image_evenly(size, side):
    assert image_classifier._patch(Shape(3, size)) == side


def test_how_many_images_run_together_does_not_matter(monkeypatch):
    data, sizes = open_task("image", tiny=True), []
    images = data.on_device(data.splits["test"], "cpu")
    count, values = len(images), images.pixels[0].numel()
    network = build_classifier("lenet", Shape(1, 8), 10).eval()
    network.register_forward_hook(lambda _module, _inputs, output: sizes.append(len(output)))
    whole = torch.tensor(image_scores(network, images).logits)
    assert sizes == [count]
    for together in (1, 7, count - 1, count, count + 1):
        sizes.clear()
        monkeypatch.setattr(image_classifier, "_VALUES", together * values + values // 2)
        found = torch.tensor(image_scores(network, images).logits)
        assert (sum(sizes), max(sizes)) == (count, min(together, count))
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


def test_an_image_that_no_patch_parts():
    with pytest.raises(InputError, match=r"67×67 cannot be cut into patches .* set an image size"):
        image_classifier._patch(Shape(3, 67))


@pytest.mark.parametrize("model", ["resnet18", "resnet50"])
def test_the_stem_keeps_the_size_of_small_images(model):
    needs(model)
    small = build_classifier(model, Shape(3, 32), 10).encoder
    assert small.conv1.stride == (1, 1)
    assert small.conv1.kernel_size == (3, 3)
    assert isinstance(small.maxpool, torch.nn.Identity)
    large = build_classifier(model, Shape(3, 64), 10).encoder
    assert large.conv1.kernel_size == (7, 7)
    assert isinstance(large.maxpool, torch.nn.MaxPool2d)
    halved = build_classifier(f"{model}_small_stem", Shape(3, 64), 10).encoder
    assert (halved.conv1.kernel_size, halved.conv1.stride) == ((3, 3), (2, 2))
    assert isinstance(halved.maxpool, torch.nn.Identity)


def test_blocks_of_the_deep_one_begin_as_the_identity():
    needs("resnet50")
    blocks = build_classifier("resnet50", Shape(3, 32), 10).encoder.layer1
    assert all(not block.bn3.weight.any() for block in blocks)
    blocks = build_classifier("resnet18", Shape(3, 32), 10).encoder.layer1
    assert all(block.bn2.weight.all() for block in blocks)


def test_the_sizes_are_those_of_the_literature():
    """Parameters in millions, head of ten classes included."""
    expected = {
        "resnet18": 11.17,
        "resnet50": 23.52,
        "wide_resnet50_2": 66.85,
        "vit_tiny": 5.36,
        "mlp_mixer": 4.37,
    }
    for model, millions in expected.items():
        needs(model)
        count = sum(p.numel() for p in build_classifier(model, Shape(3, 32), 10).parameters())
        assert count / 1e6 == pytest.approx(millions, abs=0.02), model


def test_the_seed_alone_decides_the_weights():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (
        build_classifier("lenet", Shape(1, 8), 3, seed).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_written_is_read(tmp_path):
    network = build_classifier("tiny", Shape(1, 8), 3, width=16, depth=2)
    network(torch.randn(8, 1, 8, 8))  # The running statistics are no longer those of the start.
    about = {
        "model": "tiny", "channels": 1, "size": 8, "labels": ["a", "b", "c"], "mean": [3.0],
        "deviation": [2.0], "width": 16, "depth": 2, "activation": "relu",
    }  # fmt: skip
    write_network(network, tmp_path, about)
    read, read_about = load_classifier(tmp_path)
    images = torch.randn(4, 1, 8, 8)
    assert torch.equal(read(images), network.eval()(images))
    assert read_about == about
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="does not hold a loadable image classifier"):
        load_classifier(tmp_path)
    with pytest.raises(InputError, match="does not hold a loadable image classifier"):
        load_classifier(tmp_path / "none")


def test_impossible_networks_are_errors(monkeypatch):
    with pytest.raises(InputError, match=r"Unknown image model 'resnet8'\. Did you mean 'resnet"):
        build_classifier("resnet8", Shape(3, 32), 10)
    with pytest.raises(InputError, match="at least 8×8"):
        build_classifier("lenet", Shape(1, 6), 10)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrant\[image\]'"):
        build_classifier("resnet18", Shape(3, 32), 10)
