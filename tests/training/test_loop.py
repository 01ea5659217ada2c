"""The lean loop: every window once per epoch, the same result for the same seed."""

import numpy as np
import pytest
import torch
from tagger import Tagger, pieces, weights

from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.tasks.ner.word_predictions import predict_words
from calibrant.training.checkpoint import is_static, read_checkpoint, write_checkpoint
from calibrant.training.loop import Loop, Schedule, Windows
from calibrant.training.windows import LENGTHS, bucket_of, plan_batches


def trained(method="cross_entropy", seed=0, epochs=3, **options):
    torch.manual_seed(0)
    model = Tagger()
    schedule = Schedule(epochs=epochs, batch=4, learning_rate=1e-2)
    loop = Loop(model, create(method, **options), Windows(pieces(), "cpu"), schedule, seed=seed)
    return model, loop


def test_every_window_once_per_epoch():
    lengths = np.random.default_rng(0).integers(3, 100, 57)
    plan = plan_batches(lengths, batch=8, epochs=3, seed=0)
    seen = np.concatenate([rows[rows >= 0] for rows in plan.rows.values()])
    assert np.bincount(seen, minlength=57).tolist() == [3] * 57
    for bucket, rows in plan.rows.items():
        assert lengths[rows[rows >= 0]].max() <= bucket
        assert (plan.order == bucket).sum() == len(rows)


def test_only_the_last_batch_of_an_epoch_is_short():
    plan = plan_batches(np.random.default_rng(1).integers(3, 100, 57), batch=8, epochs=1, seed=0)
    short = [rows for rows in np.concatenate(list(plan.rows.values())) if (rows < 0).any()]
    assert len(short) == 1
    assert (short[0] >= 0).sum() == 57 % 8


def test_plans_of_all_seeds_have_the_same_shapes():
    lengths = np.random.default_rng(0).integers(3, 100, 57)
    shapes = [
        {k: v.shape for k, v in plan_batches(lengths, 8, 2, seed).rows.items()} for seed in (0, 1)
    ]
    assert shapes[0] == shapes[1]


def test_buckets_hold_their_windows():
    lengths = np.arange(1, LENGTHS[-1] + 1)
    assert (bucket_of(lengths) >= lengths).all()


def test_it_learns_and_leaves_a_plain_model():
    model, loop = trained(epochs=20)
    loop.run()
    assert not model.training
    assert not model.classifier._forward_pre_hooks
    predictions = predict_words(model, pieces(), ["O", "B-X", "I-X"])
    assert (predictions.scores.argmax(axis=1) == predictions.labels).mean() > 0.95


def test_the_same_seed_gives_the_same_model_whatever_else_draws():
    first, loop = trained("head_noise")
    loop.run()
    second, loop = trained("head_noise")
    for _ in loop.steps():
        torch.rand(3)  # Other code uses the global generator.
    loop.close()
    torch.testing.assert_close(weights(first), weights(second), rtol=0, atol=0)
    third, loop = trained("head_noise", seed=1)
    loop.run()
    assert not torch.equal(weights(first), weights(third))


def test_a_restart_is_a_new_run():
    torch.manual_seed(0)
    start = {name: value.clone() for name, value in Tagger().state_dict().items()}
    model, loop = trained("head_noise", seed=1)
    for _ in loop.steps():
        pass
    loop.restart(start, seed=0)
    for _ in loop.steps():
        pass
    loop.close()
    fresh, loop = trained("head_noise", seed=0)
    loop.run()
    torch.testing.assert_close(weights(model), weights(fresh), rtol=0, atol=0)


def test_the_learning_rate_rises_and_falls():
    _, loop = trained()
    seen = []
    for _ in loop.steps():
        seen.append(float(loop.learning_rate))
    assert seen[0] == pytest.approx(1e-2)
    assert seen[-1] == pytest.approx(1e-2 / len(loop))
    loop.close()


def test_predictions_come_in_the_order_of_the_text():
    model, loop = trained()
    loop.close()
    data = pieces()
    predictions = predict_words(model, data, ["O", "B-X", "I-X"])
    assert len(predictions) == (data.labels >= 0).sum()
    np.testing.assert_array_equal(predictions.labels, data.labels[data.labels >= 0])
    sentence = predictions.groups["sentence"]
    assert (np.diff(sentence) >= 0).all()
    same = np.diff(sentence) == 0
    assert (np.diff(predictions.groups["position"])[same] == 1).all()


METHODS = {
    "cross_entropy": {},
    "head_noise": {},
    "head_noise_error_regularization": {},
    "avuc": {"warm_up": 12},
    "feature_mixup": {},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stop", [3, 17])
def test_a_loop_continues_from_its_state_to_the_bit(tmp_path, method, stop):
    straight, loop = trained(method, **METHODS[method])
    loop.run()
    _, loop = trained(method, **METHODS[method])
    next(n for n in loop.steps() if n == stop)
    write_checkpoint(tmp_path / "state.pt", loop.state())
    loop.close()
    resumed, loop = trained(method, **METHODS[method])
    loop.load(read_checkpoint(tmp_path / "state.pt"))
    loop.run()
    torch.testing.assert_close(weights(resumed), weights(straight), rtol=0, atol=0)


def test_a_restart_forgets_what_a_method_collected():
    start = {name: value.clone() for name, value in trained()[0].state_dict().items()}
    model, loop = trained("avuc", warm_up=5)
    for _ in loop.steps():
        pass
    loop.restart(start, seed=0)
    loop.run()
    fresh, loop = trained("avuc", warm_up=5)
    loop.run()
    torch.testing.assert_close(weights(model), weights(fresh), rtol=0, atol=0)


@pytest.mark.parametrize("method", ["focal", "dece", "avuc", "feature_mixup", "gamma_net_sece"])
def test_state_on_the_host_is_found(method):
    assert is_static(create(method))
    assert not is_static(create("head_noise", noise={"name": "matched"}))
    noisy = create("head_noise", task={"name": method})
    assert is_static(noisy) == (method != "gamma_net_sece")  # An optimizer next to a random stream.


def test_parts_of_a_batch_add_up_to_it():
    models = []
    for accumulate in (1, 2, 4):
        torch.manual_seed(0)
        model = Tagger().double().eval()
        model.dropout.p = 0.0
        schedule = Schedule(epochs=2, batch=4, learning_rate=1e-2, accumulate=accumulate)
        Loop(model, create("cross_entropy"), Windows(pieces(), "cpu"), schedule).run()
        models.append(weights(model))
    torch.testing.assert_close(models[1], models[0], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(models[2], models[0], rtol=1e-9, atol=1e-10)


def test_a_method_learns_from_held_out_windows():
    torch.manual_seed(0)
    model, method = Tagger(), create("gamma_net_sece")
    schedule = Schedule(epochs=1, batch=4, learning_rate=1e-2)
    windows, held = Windows(pieces(), "cpu"), Windows(pieces(12, seed=1), "cpu")
    loop = Loop(model, method, windows, schedule, holdout=held)
    steps = loop.steps()
    next(steps)
    before = method.gamma_net.W.detach().clone()
    next(steps)
    assert not torch.equal(before, method.gamma_net.W)
    loop.close()


def test_warming_up_may_take_more_steps_than_a_short_run_has():
    """As a capture does, three for each length; held-out batches are planned for each step."""
    windows, held = Windows(pieces(), "cpu"), Windows(pieces(12, seed=1), "cpu")
    schedule = Schedule(epochs=1, batch=40)
    loop = Loop(Tagger(), create("gamma_net_sece"), windows, schedule, holdout=held)
    assert len(loop) == 1
    for _ in range(3):
        loop._step(loop.order[0])


@pytest.mark.parametrize(
    ("method", "schedule", "message"),
    [
        ("gamma_net_sece", Schedule(), "learns from held-out data"),
        ("focal", Schedule(dtype="float16"), "bfloat16"),
        ("focal", Schedule(batch=8, accumulate=3), "equal parts"),
    ],
)
def test_what_a_loop_cannot_do(method, schedule, message):
    with pytest.raises(InputError, match=message):
        Loop(Tagger(), create(method), Windows(pieces(), "cpu"), schedule)


def test_a_damaged_checkpoint_is_named(tmp_path):
    assert read_checkpoint(tmp_path / "none.pt") is None
    (tmp_path / "half.pt").write_bytes(b"PK\x03\x04 half")
    with pytest.raises(InputError, match=r"half\.pt cannot be read"):
        read_checkpoint(tmp_path / "half.pt")


def test_evaluation_between_steps_changes_nothing():
    straight, loop = trained("head_noise")
    loop.run()
    watched, loop = trained("head_noise")
    for _ in loop.steps():
        with loop.evaluating():
            predict_words(watched, pieces(), ["O", "B-X", "I-X"])
    loop.close()
    torch.testing.assert_close(weights(watched), weights(straight), rtol=0, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", ["cross_entropy", "head_noise", "avuc"])
def test_a_graph_continues_from_its_state(tmp_path, method):
    def looped():
        torch.manual_seed(0)
        schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2, accumulate=2)
        model = Tagger()
        return model, Loop(model, create(method), Windows(pieces(), "cuda"), schedule)

    straight, loop = looped()
    assert loop.replays
    loop.run()
    _, loop = looped()
    next(n for n in loop.steps() if n == 17)
    write_checkpoint(tmp_path / "state.pt", loop.state())
    loop.close()
    resumed, loop = looped()
    loop.load(read_checkpoint(tmp_path / "state.pt", "cuda"))
    loop.run()
    torch.testing.assert_close(weights(resumed), weights(straight), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_history_knows_every_label(accumulate):
    data, schedule = pieces(), Schedule(epochs=3, batch=4, accumulate=accumulate)
    method = create("error_regularization", error="history")
    Loop(Tagger(), method, Windows(data, "cpu"), schedule).run()
    assert sorted(method.seen.unique().tolist()) == [0, 3]  # What has a label: once per epoch.
    assert int((method.seen > 0).sum()) == int((data.labels != -100).sum())
    assert bool((method.right <= method.seen).all())


def test_a_history_continues_and_restarts():
    def loop():
        method = create("head_noise", with_={"name": "error_regularization", "error": "history"})
        return Loop(Tagger(), method, Windows(pieces(), "cpu"), Schedule(epochs=2, batch=4))

    made, other = loop(), loop()
    for _ in made.steps():
        pass
    (before,), (after,) = (
        made.method.parts_needing_examples(),
        other.method.parts_needing_examples(),
    )
    assert float(before.seen.sum()) > 0
    other.load(made.state())
    assert torch.equal(after.seen, before.seen)
    other.restart(Tagger().state_dict(), seed=1)
    assert float(other.method.parts_needing_examples()[0].seen.sum()) == 0
