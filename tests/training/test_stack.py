"""A stack of runs: each is the run that it would have been alone."""

import copy

import pytest
import torch
from test_loop import Tagger, pieces, weights
from torch import nn

from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.training.loop import Loop, Schedule, Windows
from calibrant.training.stacked import Stack

METHODS = [
    ("cross_entropy", {}),
    ("focal", {"gamma": 3.0}),
    ("head_noise", {}),
    ("avuc", {}),
    ("error_regularization", {}),
    ("head_noise_error_regularization", {}),
    ("mmce", {}),
    ("feature_mixup", {}),
    ("error_regularization", {"error": "history", "weight": 1.0}),
]


def parts(dropout=0.0, methods=METHODS):
    """Models whose encoders are alike at the start and whose heads are not, with their methods."""
    torch.manual_seed(0)
    first = Tagger()
    first.dropout.p = dropout
    models = [copy.deepcopy(first) for _ in methods]
    for number, model in enumerate(models):
        torch.manual_seed(number)
        width = 4 + number  # Heads may differ in width.
        model.classifier = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))
    return models, [create(name, **options) for name, options in methods]


def stack(models, methods, seed=0, schedule=None, **more):
    schedule = schedule or Schedule(epochs=3, batch=4, learning_rate=1e-2)
    return Stack(models, methods, Windows(pieces(), "cpu"), schedule, seed=seed, **more)


def train(made):
    for _ in made.steps():
        pass
    return made


def run_weights(made, number):
    encoder = [value[number] for value in made.stacked.masters().values()]
    head = made.runs[number].head.parameters()
    return torch.cat([p.detach().flatten() for p in (*encoder, *head)])


def test_each_run_is_what_it_would_be_alone():
    models, methods = parts()
    alone = copy.deepcopy(models)
    made = train(stack(models, methods))
    for number, (name, options) in enumerate(METHODS):
        schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2)
        loop = Loop(alone[number], create(name, **options), Windows(pieces(), "cpu"), schedule)
        loop.run()
        torch.testing.assert_close(
            run_weights(made, number), weights(alone[number]), rtol=1e-4, atol=1e-5, msg=name
        )
        assert made.losses()[number] == pytest.approx(float(loop.loss) / len(loop), rel=1e-4)


def test_a_method_that_learns_from_held_out_data_is_what_it_would_be_alone():
    models, methods = parts(methods=[("gamma_net_sece", {}), ("gamma_net_dece", {})])
    alone = copy.deepcopy(models)
    schedule, held = Schedule(epochs=3, batch=4, learning_rate=1e-2), pieces(12, seed=1)
    made = stack(models, methods, holdout=Windows(held, "cpu"))
    train(made)
    for _ in range(2):  # And the same once more after a restart.
        for number, method in enumerate(["gamma_net_sece", "gamma_net_dece"]):
            model = copy.deepcopy(alone[number])
            windows, outer = Windows(pieces(), "cpu"), Windows(held, "cpu")
            Loop(model, create(method), windows, schedule, holdout=outer).run()
            torch.testing.assert_close(
                run_weights(made, number), weights(model), rtol=1e-3, atol=1e-4, msg=method
            )
        made.restart(copy.deepcopy(alone), seed=0)
        train(made)


def bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        num_labels=3,
    )  # fmt: skip
    return transformers.BertForTokenClassification(config)


@pytest.mark.parametrize("more", [{}, {"clip": 0.0}, {"clip": 0.01, "weight_decay": 10.0}])
def test_a_transformer_in_a_stack_is_what_it_would_be_alone(more):
    models, methods = [bert() for _ in range(3)], [create("cross_entropy") for _ in range(3)]
    for number, model in enumerate(models):  # Encoders may differ in their numbers.
        torch.manual_seed(number)
        for parameter in model.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
    alone = copy.deepcopy(models)
    schedule = Schedule(epochs=2, batch=4, learning_rate=1e-3, **more)
    made = train(stack(models, methods, schedule=schedule))
    for number, model in enumerate(alone):
        Loop(model, create("cross_entropy"), Windows(pieces(), "cpu"), schedule).run()
        torch.testing.assert_close(run_weights(made, number), weights(model), rtol=1e-3, atol=1e-5)


def frozen(model, name):
    for parameter in model.get_submodule(name).parameters():
        parameter.requires_grad = False
    return model


@pytest.mark.filterwarnings("ignore:HeadNoise teaches the head:UserWarning")
@pytest.mark.parametrize("name", ["embedding", "classifier"])
def test_what_is_frozen_stays_as_it_is(name):
    models, methods = parts()
    models = [frozen(model, name) for model in models]
    alone = copy.deepcopy(models)
    made = train(stack(models, methods))
    for number, model in enumerate(alone):
        schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2)
        method, options = METHODS[number]
        Loop(model, create(method, **options), Windows(pieces(), "cpu"), schedule).run()
        torch.testing.assert_close(run_weights(made, number), weights(model), rtol=1e-4, atol=1e-5)
        models[number] = frozen(copy.deepcopy(model), name)
    other = [*models[:-1], copy.deepcopy(models[-1]).requires_grad_()]
    if name == "embedding":
        with pytest.raises(InputError, match="alike except for the head"):
            stack(other, methods)


@pytest.mark.parametrize("name", ["bert.embeddings", "bert.encoder.layer.0"])
def test_part_of_a_frozen_transformer_trains(name):
    models, methods = [frozen(bert(), name) for _ in range(2)], [create("focal") for _ in range(2)]
    alone = copy.deepcopy(models[1])
    schedule = Schedule(epochs=2, batch=4, learning_rate=1e-3)
    made = train(stack(models, methods, schedule=schedule))
    Loop(alone, create("focal"), Windows(pieces(), "cpu"), schedule).run()
    torch.testing.assert_close(run_weights(made, 1), weights(alone), rtol=1e-3, atol=1e-5)


def test_in_bfloat16_encoders_follow_their_float32_weights():
    schedule = Schedule(epochs=1, batch=4, learning_rate=1e-3, dtype="bfloat16")
    many = [[bert() for _ in range(2)] for _ in range(3)]
    made, fresh = (
        stack(models, [create("cross_entropy"), create("focal")], schedule=schedule)
        for models in many[:2]
    )
    for _ in range(2):
        before = made.stacked.groups[0].master.detach().clone()
        train(made)
        for group in made.stacked.groups:
            assert torch.equal(group.leaf, group.master.to(group.leaf.dtype))
        assert not torch.equal(before, made.stacked.groups[0].master)
        made.restart(copy.deepcopy(many[2]), seed=0)
        for group in made.stacked.groups:
            assert torch.equal(group.leaf, group.master.to(group.leaf.dtype))
    train(made), train(fresh)
    for number in range(2):
        assert torch.equal(run_weights(made, number), run_weights(fresh, number))


def test_other_inputs_are_not_ignored():
    """What is written out for BERT takes ids and mask; the model itself takes more, or less."""
    schedule = Schedule(epochs=1, batch=4, dtype="bfloat16")
    model, ids = bert(), torch.arange(12).view(2, 6)
    made = stack([copy.deepcopy(model)], [create("focal")], schedule=schedule)
    assert made.bert is not None
    for inputs in ({"input_ids": ids}, {"input_ids": ids, "token_type_ids": ids % 2}):
        expected = model.eval()(**inputs).logits
        torch.testing.assert_close(made.logits(**inputs)[0], expected)
        made.train(False)
        (half,) = made._features(inputs)  # As a step does.
        torch.testing.assert_close(made.runs[0].head(half), expected, rtol=0.05, atol=0.05)


def test_logits_are_those_of_the_trained_models():
    models, methods = parts()
    alone = copy.deepcopy(models[2])
    made = train(stack(models, methods))
    names = [name for name, _ in alone.named_parameters()]
    split = run_weights(made, 2).split([p.numel() for p in alone.parameters()])
    state = {n: v.view_as(p) for n, v, p in zip(names, split, alone.parameters(), strict=True)}
    alone.load_state_dict(state)
    inputs = {"input_ids": torch.arange(12).view(2, 6), "attention_mask": torch.ones(2, 6).long()}
    torch.testing.assert_close(made.logits(**inputs)[2], alone.eval()(**inputs).logits)


def test_logits_between_two_steps_leave_training_as_it_is():
    inputs = {"input_ids": torch.arange(12).view(2, 6), "attention_mask": torch.ones(2, 6).long()}
    undisturbed = train(stack(*parts(dropout=0.5, methods=METHODS[:3])))
    made = stack(*parts(dropout=0.5, methods=METHODS[:3]))
    for _ in made.steps():
        made.logits(**inputs)
    for number in range(3):
        assert torch.equal(run_weights(made, number), run_weights(undisturbed, number))


def test_a_run_does_not_depend_on_its_neighbours():
    models, methods = parts()
    whole = train(stack(models, methods))
    models, methods = parts(methods=METHODS[:3])
    part = train(stack(models, methods))
    torch.testing.assert_close(run_weights(part, 2), run_weights(whole, 2), rtol=1e-4, atol=1e-5)


def test_dropout_differs_between_runs_of_one_stack():
    models, methods = parts(dropout=0.5, methods=[("cross_entropy", {})] * 2)
    models[1] = copy.deepcopy(models[0])
    made = train(stack(models, methods))
    assert not torch.allclose(run_weights(made, 0), run_weights(made, 1))


def test_a_restart_is_a_new_stack():
    made = train(stack(*parts(dropout=0.2), seed=1))
    made.restart(parts()[0], seed=0)
    train(made)
    fresh = train(stack(*parts(dropout=0.2), seed=0))
    for number in range(len(METHODS)):
        torch.testing.assert_close(
            run_weights(made, number), run_weights(fresh, number), rtol=0, atol=0
        )


def test_models_that_cannot_be_stacked_are_errors():
    models, methods = parts()
    with pytest.raises(InputError, match="9 models and 8 methods"):
        stack(models, methods[:-1])
    host = create("cross_entropy")
    host.on_device = False
    with pytest.raises(InputError, match="state on the host"):
        stack(models[:1], [host])
    with pytest.raises(InputError, match="learns from held-out data"):
        stack(models[:1], [create("gamma_net_sece")])
    held = Windows(pieces(4), "cpu")
    with pytest.raises(InputError, match="runs the whole model again"):
        stack(models[:1], [create("gamma_net_sece", look_ahead="full")], holdout=held)
    with pytest.raises(InputError, match="trains with adamw, not sgd"):
        stack(models[:1], methods[:1], schedule=Schedule(optimizer_name="sgd"))
    other = Tagger(width=6)
    with pytest.raises(InputError, match="alike except for the head"):
        stack([models[0], other], methods[:2])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_it_trains_as_it_does_eagerly():
    results = []
    for graph in (False, True):
        models, methods = parts()
        schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2)
        made = Stack(models, methods, Windows(pieces(), "cuda"), schedule, graph=graph)
        train(made).wait()
        results.append([run_weights(made, n).cpu() for n in range(len(METHODS))])
    for eager, captured in zip(*results, strict=True):
        torch.testing.assert_close(eager, captured, rtol=1e-4, atol=1e-5)
