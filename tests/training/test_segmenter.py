"""Every method trains a network that classifies pixels, and finds its classes last."""

import numpy as np
import pytest
import torch

from calibrant.errors import InputError
from calibrant.methods import METHODS, create
from calibrant.tasks import open_task
from calibrant.tasks.segmentation import pixel_predictions
from calibrant.tasks.segmentation.pixel_predictions import pixel_logits
from calibrant.training import attach, find_head
from calibrant.training.images import Images
from calibrant.training.loop import Loop, Schedule

NOISES = ("gaussian", "matched", "shell", "mixture")


@pytest.fixture(scope="module")
def task():
    return open_task("segmentation", tiny=True, width=4)


@pytest.fixture(scope="module")
def rows(task):
    examples = task.load("train")[:8]
    images = np.stack([e["pixel_values"] for e in examples])
    masks = np.stack([e["labels"] for e in examples])
    return Images(images, masks, "cpu", mean=task.mean, deviation=task.deviation)


def test_features_and_logits_have_their_last_axis_last(task):
    model = task.build_model()
    name, head = find_head(model)
    assert name == "classifier"
    batch = task.collate(task.load("train")[:2])
    method = create("head_noise")
    with attach(model, method) as hook:
        step = hook.step(model(batch["pixel_values"]), batch["labels"])
        assert step.features.shape == (2, 24, 24, 4)
        assert step.logits.shape == (2, 24, 24, 5)
        torch.testing.assert_close(step.head(step.features), step.logits)
        # The head is a linear map of each pixel: the same as without any image around it.
        weight = head.layers.weight[:, :, 0, 0]
        torch.testing.assert_close(step.features @ weight.T + head.layers.bias, step.logits)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"input_mixup"}))
def test_every_method_takes_a_step(task, rows, name):
    method = create(name)
    held = rows if method.needs_holdout else None
    model = task.build_model()
    before = [p.detach().clone() for p in model.parameters()]
    loop = Loop(model, method, rows, Schedule(epochs=1, batch=4, learning_rate=1e-2), holdout=held)
    loop.run()
    assert loop.loss.isfinite()
    after = list(model.parameters())
    assert all(p.isfinite().all() for p in after)
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_mixing_pixels_is_refused(task, rows):
    """Void pixels are not mixed, so a convolution would see where they are; features can be."""
    loop = Loop(task.build_model(), create("input_mixup"), rows, Schedule(epochs=1, batch=4))
    with pytest.raises(InputError, match=r"got \(4, 3, 24, 24\) and \(4, 24, 24\)"):
        loop.run()


@pytest.mark.parametrize("noise", NOISES)
def test_every_noise_looks_like_the_features_of_pixels(task, rows, noise):
    method = create("head_noise", noise={"name": noise})
    loop = Loop(task.build_model(), method, rows, Schedule(epochs=2, batch=4, learning_rate=1e-2))
    loop.run()
    assert loop.loss.isfinite()


def test_the_loop_learns_and_is_the_same_again(task, rows):
    def trained():
        model = task.build_model()
        Loop(
            model, create("cross_entropy"), rows, Schedule(epochs=15, batch=4, learning_rate=2e-2)
        ).run()
        return model

    model, again = trained(), trained()
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
    batch = task.collate(task.load("train")[:8])
    with torch.no_grad():
        found = model(batch["pixel_values"]).argmax(-1)
    kept = batch["labels"] != -100
    shares = [
        (labels == batch["labels"])[kept].float().mean()
        for labels in (found, torch.zeros_like(found))
    ]
    assert shares[0] > shares[1] + 0.05  # Better than background everywhere.


def test_images_are_run_as_they_are(task):
    """Together where they have one size, and never filled up."""
    model = task.build_model().eval()
    examples = task.load("test")[:5]
    for number, side in ((1, 20), (2, 20), (4, 11)):
        cut = {name: values[:side, : side + 2] for name, values in examples[number].items()}
        examples[number] = cut
    found = list(pixel_logits(model, examples, task.collate))
    assert len(found) == 5
    for logits, example in zip(found, examples, strict=True):
        assert logits.shape == (*example["labels"].shape, 5)
        with torch.no_grad():
            alone = model(task.collate([example])["pixel_values"])[0].numpy()
        np.testing.assert_allclose(logits, alone, rtol=1e-4, atol=1e-5)
    assert list(pixel_logits(model, [], task.collate)) == []


@pytest.mark.parametrize("together", [1, 2, 4, 5, 6])
def test_how_many_images_run_together_does_not_matter(task, monkeypatch, together):
    model, examples = task.build_model().eval(), task.load("test")[:5]
    whole = list(pixel_logits(model, examples, task.collate))
    sizes = []
    model.register_forward_hook(lambda _module, _inputs, output: sizes.append(len(output)))
    pixels = examples[0]["labels"].size
    monkeypatch.setattr(pixel_predictions, "_PIXELS", together * pixels + pixels // 2)
    found = list(pixel_logits(model, examples, task.collate))
    assert (sum(sizes), max(sizes)) == (5, min(together, 5))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)


def test_convolutions_are_not_tuned_for_images_of_any_size(task, monkeypatch):
    seen = []
    model = task.build_model().eval()
    model.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.benchmark))
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    next(pixel_logits(model, task.load("test")[:2], task.collate))
    assert seen == [False]
    assert torch.backends.cudnn.benchmark


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["cross_entropy", "margin_smoothing", "mmce", "sece"])
def test_captured_steps_are_the_eager_ones(task, rows, name):
    """The recipe of the benchmark runs so: a captured graph, thousands of pixels in a batch."""
    images, masks = rows.pixels.cpu().numpy(), rows.classes.cpu().numpy()
    there = Images(images, masks, "cuda", mean=task.mean, deviation=task.deviation)
    losses = []
    for graph in (False, True):
        schedule = Schedule(epochs=3, batch=4, learning_rate=1e-3)
        loop = Loop(task.build_model(), create(name), there, schedule, graph=graph)
        loop.run()
        losses.append(float(loop.loss))
    # Interpolation adds up its gradient in any order.
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
