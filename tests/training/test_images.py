"""Images on a device: augmentation against plain loops, and a loop over them."""

import numpy as np
import pytest
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.tasks.image.classifier import Shape, build_classifier
from calibrant.training.checkpoint import read_checkpoint, write_checkpoint
from calibrant.training.images import Images, parse_augmentation, plan_images
from calibrant.training.loop import Loop
from calibrant.training.schedule import DECAYS, Schedule

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), np.uint8)
CLASSES = np.arange(24) % 4
NORMAL = {"mean": PIXELS.mean((0, 1, 2)), "deviation": PIXELS.std((0, 1, 2))}


def images(augment="none", device="cpu"):
    return Images(PIXELS, CLASSES, device, **NORMAL, augment=parse_augmentation(augment))


def batch(augment="none", seed=0, rows=None):
    torch.manual_seed(seed)
    chosen = torch.arange(24) if rows is None else rows
    return images(augment).batch(chosen, 1)


def as_bytes(pixel_values):
    """The batch as images of bytes again."""
    values = pixel_values.permute(0, 2, 3, 1).numpy() * NORMAL["deviation"] + NORMAL["mean"]
    return np.round(values).astype(int)


def moved(image, down, right, mirrored):
    """By plain loops: the image seen through a window moved by so much, black outside of it."""
    size = len(image)
    made = np.zeros_like(image)
    for y in range(size):
        for x in range(size):
            column = (size - 1 - (x + right)) if mirrored else x + right
            if 0 <= y + down < size and 0 <= column < size:
                made[y, x] = image[y + down, column]
    return made


def test_without_augmentation_an_image_is_only_normalised():
    made = batch(rows=torch.tensor([5, 2]))
    np.testing.assert_array_equal(as_bytes(made["pixel_values"]), PIXELS[[5, 2]])
    assert made["labels"].tolist() == [1, 2]
    assert made["pixel_values"].is_contiguous(memory_format=torch.channels_last)


def test_masks_lie_as_narrow_as_they_are_given():
    masks = np.where(PIXELS[..., 0] > 200, -100, CLASSES[:, None, None]).astype(np.int16)
    held = Images(PIXELS, masks, "cpu", **NORMAL)
    assert held.classes.dtype == torch.int16
    labels = held.batch(torch.tensor([3, 0]), 1)["labels"]
    assert labels.dtype == torch.int64
    np.testing.assert_array_equal(labels.numpy(), masks[[3, 0]])


def test_crop_and_flip_are_moves_of_up_to_an_eighth_and_mirrors():
    found = as_bytes(batch("crop+flip")["pixel_values"])
    seen = set()
    for image, made in zip(PIXELS, found, strict=True):
        moves = [
            (down, right, mirrored)
            for down in range(-2, 3)
            for right in range(-2, 3)
            for mirrored in (False, True)
            if np.array_equal(moved(image, down, right, mirrored), made)
        ]
        assert len(moves) == 1
        seen.update(moves)
    assert len(seen) > 12
    assert {mirrored for _, _, mirrored in seen} == {False, True}


def test_cutout_blanks_a_square_around_a_random_place():
    found = batch("cutout")["pixel_values"].permute(0, 2, 3, 1).numpy()
    plain = batch()["pixel_values"].permute(0, 2, 3, 1).numpy()
    places = set()
    for made, image in zip(found, plain, strict=True):
        cut = (made == 0).all(-1)
        rows, columns = (np.flatnonzero(cut.any(axis)) for axis in (1, 0))
        assert cut.sum() == len(rows) * len(columns)  # A rectangle, whole,
        assert max(len(rows), len(columns)) <= 8  # of half the side or, at an edge, less;
        assert min(len(rows), len(columns)) >= 4
        np.testing.assert_array_equal(made[~cut], image[~cut])
        places.add((rows[0], columns[0]))
    assert len(places) > 12


def test_the_seed_decides():
    first, again, other = (batch("crop+flip+cutout", s)["pixel_values"] for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_unknown_augmentation_is_named():
    with pytest.raises(InputError, match=r"Unknown augmentation 'flop'\. Did you mean 'flip'"):
        parse_augmentation("crop+flop")
    with pytest.raises(InputError, match="no images"):
        Images(PIXELS[:0], CLASSES[:0], "cpu", **NORMAL)


def test_every_image_in_every_epoch_and_batches_are_whole():
    plan = plan_images(11, batch=4, epochs=3, seed=0)
    rows = plan.rows[1].reshape(3, -1)
    assert len(plan) == 9
    for epoch in rows:
        assert set(epoch[:11]) == set(range(11))
        assert epoch[11] == epoch[0]
    few = plan_images(3, batch=8, epochs=1, seed=0).rows[1]
    assert few.shape == (1, 8)
    assert set(few[0]) == {0, 1, 2}


def looped(method="cross_entropy", seed=0, augment="crop+flip", **changes):
    model = build_classifier("tiny", Shape(3, 16), 4)
    settings = {
        "epochs": 3, "batch": 8, "learning_rate": 0.05, "optimizer_name": "sgd", "clip": 0.0,
        "decay": "cosine", "weight_decay": 5e-4, "warm_up": 0.2, **changes,
    }  # fmt: skip
    made = create(method)
    held = images() if made.needs_holdout else None
    loop = Loop(model, made, images(augment), Schedule(**settings), seed=seed, holdout=held)
    return model, loop


def state(model):
    return torch.cat([v.detach().double().flatten() for v in model.state_dict().values()])


@pytest.mark.parametrize("method", ["cross_entropy", "input_mixup", "gamma_net_sece"])
def test_a_loop_continues_from_its_state_to_the_bit(method, tmp_path):
    """With the momentum of SGD and the running statistics of batch norms."""
    straight, loop = looped(method)
    loop.run()
    _, loop = looped(method)
    next(n for n in loop.steps() if n == 4)
    write_checkpoint(tmp_path / "state.pt", loop.state())
    loop.close()
    resumed, loop = looped(method)
    loop.load(read_checkpoint(tmp_path / "state.pt"))
    loop.run()
    torch.testing.assert_close(state(resumed), state(straight), rtol=0, atol=0)


def test_a_restart_also_forgets_the_statistics_of_batch_norms():
    """What the warm-up of a captured graph leaves behind is taken back in the same way."""
    fresh = {
        k: v.clone() for k, v in build_classifier("tiny", Shape(3, 16), 4).state_dict().items()
    }
    model, loop = looped(seed=1)
    for _ in loop.steps():
        pass
    loop.restart(fresh, seed=0)
    for name, value in model.state_dict().items():
        assert torch.equal(value, fresh[name]), name
    loop.run()
    straight, loop = looped(seed=0)
    loop.run()
    torch.testing.assert_close(state(model), state(straight), rtol=0, atol=0)


def test_one_step_of_sgd_by_hand():
    """w ← w − η (g + μ g) at the first step, with weight decay for matrices alone."""
    model = nn.Linear(2, 2)
    rate = torch.tensor(0.5)
    schedule = Schedule(optimizer_name="sgd", momentum=0.5, weight_decay=0.1)
    optimizer = schedule.optimizer(model, rate)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.bias.detach(), bias - 0.5 * 1.5)
    torch.testing.assert_close(model.weight.detach(), weight - 0.5 * 1.5 * (1 + 0.1 * weight))


def test_decays():
    done = torch.arange(100)
    linear, cosine, step = (Schedule(decay=d, warm_up=0.1).share(done, 100) for d in DECAYS)
    for share in (linear, cosine, step):
        torch.testing.assert_close(share[:10], torch.arange(1, 11) / 10)
    torch.testing.assert_close(linear[55], torch.tensor(0.5))
    torch.testing.assert_close(cosine[55], torch.tensor(0.5))
    assert cosine[90] < linear[90]
    assert step[[49, 50, 74, 75]].tolist() == pytest.approx([1, 0.1, 0.1, 0.01])


def test_a_schedule_names_what_it_does_not_know():
    with pytest.raises(InputError, match="Did you mean 'sgd'"):
        looped(optimizer_name="sdg")
    with pytest.raises(InputError, match="Did you mean 'cosine'"):
        looped(decay="cosin")


def test_gradients_are_clipped_only_where_asked_for():
    for clip, largest in ((0.0, 5.0), (1.0, 1.0)):
        weight = nn.Parameter(torch.zeros(2))
        weight.grad = torch.tensor([3.0, 4.0])
        Schedule(clip=clip).clip_gradient([weight])
        assert float(weight.grad.norm()) == pytest.approx(largest, abs=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
class TestOnAGpu:
    def looped(self, method="cross_entropy", graph=None, compiled=False, augment="none"):
        model = build_classifier("tiny", Shape(3, 16), 4).to(memory_format=torch.channels_last)
        if compiled:
            model.encoder.compile()
        made = create(method)
        held = images(device="cuda") if made.needs_holdout else None
        schedule = Schedule(
            epochs=3, batch=8, learning_rate=0.05, optimizer_name="sgd", decay="cosine", clip=0.0
        )
        rows = images(augment, "cuda")
        return model, Loop(model, made, rows, schedule, graph=graph, holdout=held)

    @pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
    @pytest.mark.parametrize("compiled", [False, True])
    def test_a_captured_step_is_the_eager_one(self, compiled):
        """Whose warm-up leaves no trace, neither in weights nor in batch norms nor in momentum."""
        fresh = build_classifier("tiny", Shape(3, 16), 4).state_dict()
        model, loop = self.looped(compiled=compiled)
        assert loop.replays
        for name, value in model.state_dict().items():
            torch.testing.assert_close(value.cpu(), fresh[name], rtol=0, atol=0)
        loop.run()
        eager, loop = self.looped(graph=False)
        loop.run()
        torch.testing.assert_close(state(model), state(eager), rtol=1e-3, atol=1e-3)

    def test_a_captured_step_augments_from_the_seed(self):
        first, again, plain = (
            self.looped(augment=augment) for augment in ("crop+flip", "crop+flip", "none")
        )
        for _, loop in (first, again, plain):
            loop.run()
        torch.testing.assert_close(state(first[0]), state(again[0]), rtol=1e-3, atol=1e-3)
        difference = (state(first[0]) - state(plain[0])).abs().max()
        assert difference > 1e-2

    # torch says so when the mode is switched on; the mode itself is what is tested with.
    @pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
    @pytest.mark.parametrize("method", ["cross_entropy", "gamma_net_sece", "gamma_net_dece"])
    def test_a_step_does_not_wait_for_the_device(self, method):
        _, loop = self.looped(method, graph=False, augment="crop+flip+cutout")
        steps = loop.steps()
        next(steps), next(steps)  # First use may allocate and wait.
        torch.cuda.set_sync_debug_mode("error")
        try:
            next(steps)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_masks_move_with_their_images():
    masks = PIXELS[..., 0].astype(np.int16)  # A class for each value, so that they can be compared.
    torch.manual_seed(0)
    held = Images(PIXELS, masks, "cpu", **NORMAL, augment=parse_augmentation("crop+flip"))
    made = held.batch(torch.arange(24), 1)
    reds, labels = as_bytes(made["pixel_values"])[..., 0], made["labels"].numpy()
    np.testing.assert_array_equal(reds[labels != -100], labels[labels != -100])
    assert (reds[labels == -100] == 0).all()
    assert (labels == -100).any()
    assert (labels != masks).any()
