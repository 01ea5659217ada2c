"""The Hugging Face Trainer subclass: the same gradients, however the batch is accumulated."""

import copy
import subprocess
import sys

import pytest
import torch
from algorithm_one import REGULARIZATION, WEIGHT, Mirror, abstention_loss

from calibrant.errors import InputError
from calibrant.methods import (
    CrossEntropy,
    ErrorRegularization,
    FeatureMixup,
    HeadNoise,
    MetaRegularization,
)

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from calibrant.training.trainer import Trainer  # noqa: E402

CLASSES, SENTENCES = 3, 16


def tiny_bert(dtype=torch.float64):
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    return transformers.BertForTokenClassification(config).to(dtype)


def sentences(count=SENTENCES, tokens=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        labels = torch.randint(CLASSES, (tokens,), generator=generator)
        labels[int(torch.randint(1, tokens + 1, (), generator=generator)) :] = -100
        ids = torch.randint(50, (tokens,), generator=generator)
        rows.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
    return rows


def arguments(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "max_steps": 2,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
    return transformers.TrainingArguments(**{**defaults, **changes})


def train(folder, method, model=None, **changes):
    model = tiny_bert() if model is None else model
    trainer = Trainer(
        model=model, args=arguments(folder, **changes), train_dataset=sentences(), method=method
    )
    trainer.train()
    return model, trainer


def head_noise():
    return HeadNoise(
        weight=WEIGHT, noise=Mirror(), with_=ErrorRegularization(weight=REGULARIZATION)
    )


def assert_same_weights(model, other, **tolerance):
    for (name, value), expected in zip(
        model.state_dict().items(), other.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, expected, msg=name, **tolerance)


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_accumulation_equals_one_large_batch(tmp_path, micro_batches):
    """Token-averaged over the accumulated batch, pairs across micro-batches included."""
    whole, logged = train(tmp_path, head_noise())
    parts, logged_parts = train(
        tmp_path,
        head_noise(),
        per_device_train_batch_size=8 // micro_batches,
        gradient_accumulation_steps=micro_batches,
    )
    assert_same_weights(parts, whole, rtol=1e-9, atol=1e-12)
    losses = [entry["loss"] for entry in logged.state.log_history if "loss" in entry]
    others = [entry["loss"] for entry in logged_parts.state.log_history if "loss" in entry]
    assert losses == pytest.approx(others, rel=1e-6)


def test_one_step_is_algorithm_one_and_logs_the_task_loss(tmp_path):
    model = tiny_bert()
    expected = copy.deepcopy(model)
    batch = {key: torch.stack([row[key] for row in sentences()]) for key in sentences()[0]}
    labels, kept = batch["labels"], batch["labels"] != -100
    features = expected.bert(batch["input_ids"], batch["attention_mask"]).last_hidden_state
    task = torch.nn.functional.cross_entropy(expected.classifier(features)[kept], labels[kept])
    task.backward()
    confidence = expected.classifier(Mirror()(features)).softmax(-1).max(-1).values
    (WEIGHT * ((1 / CLASSES - confidence[kept]) ** 2).mean()).backward()
    head_logits = expected.classifier(features.detach())[kept]
    (REGULARIZATION * abstention_loss(head_logits, labels[kept])).backward()
    for parameter in expected.classifier.parameters():
        parameter.grad /= 3
    torch.optim.SGD(expected.parameters(), lr=0.1).step()
    _, trainer = train(
        tmp_path, head_noise(), model, max_steps=1, per_device_train_batch_size=SENTENCES
    )
    assert_same_weights(model, expected, rtol=1e-9, atol=1e-12)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(task.item(), rel=1e-4)


def test_cross_entropy_trains_as_the_plain_trainer_does(tmp_path):
    """Without accumulation: there, transformers 5 doubles the loss of BERT's token classifier."""
    ours, _ = train(tmp_path, "cross_entropy")
    plain = tiny_bert()
    transformers.Trainer(
        model=plain,
        args=arguments(tmp_path),
        train_dataset=sentences(),
    ).train()
    assert_same_weights(ours, plain, rtol=1e-9, atol=1e-12)


def test_resume_continues_the_noise_stream(tmp_path):
    straight, _ = train(tmp_path / "straight", HeadNoise(weight=10.0, seed=3), max_steps=4)
    train(
        tmp_path / "resumed",
        HeadNoise(weight=10.0, seed=3),
        max_steps=2,
        save_strategy="steps",
        save_steps=2,
    )
    model = tiny_bert()
    Trainer(
        model=model,
        args=arguments(tmp_path / "resumed", max_steps=4),
        train_dataset=sentences(),
        method=HeadNoise(weight=10.0, seed=3),
    ).train(resume_from_checkpoint=True)
    assert_same_weights(model, straight, rtol=0, atol=0)
    other, _ = train(tmp_path / "other", HeadNoise(weight=10.0, seed=4), max_steps=4)
    assert not torch.equal(other.classifier.weight, straight.classifier.weight)


def test_resume_continues_with_the_next_held_out_batch(tmp_path):
    """Neither the held-out batches nor dropout depend on whether the run was interrupted."""

    def trained(folder, resume=None, **changes):
        model = tiny_bert()
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.3
        method = MetaRegularization(learning_rate=0.05)
        Trainer(
            model=model,
            args=arguments(folder, per_device_eval_batch_size=6, **changes),
            train_dataset=sentences(),
            holdout_dataset=sentences(seed=5),
            method=method,
        ).train(resume_from_checkpoint=resume)
        return model, method.gamma_net

    for steps in (2, 3, 4):  # In the middle of the three batches, after the last, and in the next.
        folder = tmp_path / str(steps)
        straight = trained(tmp_path / "straight", max_steps=6)
        trained(folder, max_steps=steps, save_strategy="steps", save_steps=steps)
        resumed = trained(folder, resume=True, max_steps=6)
        for made, expected in zip(resumed, straight, strict=True):
            assert_same_weights(made, expected, rtol=0, atol=0)


def test_a_method_saved_by_an_earlier_version_is_read(tmp_path):
    method = MetaRegularization()
    method.gamma_net(torch.zeros(1, 16))
    torch.save(method.state_dict(), tmp_path / "calibrant_method_0.pt")
    other = MetaRegularization(seed=1)
    made = Trainer(
        model=tiny_bert(), args=arguments(tmp_path), holdout_dataset=sentences(), method=other
    )
    made._load_method(str(tmp_path))
    assert torch.equal(other.gamma_net.A, method.gamma_net.A)


def test_the_model_is_free_of_the_method_afterwards(tmp_path):
    model = tiny_bert()
    keys = list(model.state_dict())
    train(tmp_path, head_noise(), model)
    assert list(model.state_dict()) == keys
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_evaluation_reports_cross_entropy(tmp_path):
    model, trainer = train(tmp_path, head_noise())
    trainer.args.per_device_eval_batch_size = SENTENCES
    metrics = trainer.evaluate(sentences(seed=9))
    batch = {key: torch.stack([row[key] for row in sentences(seed=9)]) for key in sentences()[0]}
    with torch.no_grad():
        logits = model(batch["input_ids"], batch["attention_mask"]).logits
    expected = CrossEntropy().loss(_step(logits, batch["labels"]))
    assert metrics["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)


def _step(logits, labels):
    from calibrant.training import Step

    return Step(logits, labels)


@pytest.mark.parametrize("look_ahead", ["head", "full"])
def test_meta_regularization_learns_from_the_holdout(tmp_path, look_ahead):
    method = MetaRegularization(look_ahead=look_ahead)
    with pytest.raises(InputError, match="holdout_dataset"):
        Trainer(model=tiny_bert(), args=arguments(tmp_path), method=method)
    trainer = Trainer(
        model=tiny_bert(),
        args=arguments(tmp_path, max_steps=3, gradient_accumulation_steps=2),
        train_dataset=sentences(),
        holdout_dataset=sentences(seed=5),
        method=method,
    )
    seen = []
    method.gamma_net.register_forward_hook(lambda *_: seen.append(method.gamma_net.A.clone()))
    trainer.train()
    assert len(method._adam().state) == 2
    assert not torch.equal(seen[0], method.gamma_net.A)


def test_feature_mixup_is_prepared_by_the_trainer(tmp_path):
    model, _ = train(tmp_path, FeatureMixup(alpha=1.0))
    plain, _ = train(tmp_path, "cross_entropy")
    assert not torch.equal(model.classifier.weight, plain.classifier.weight)


def test_bfloat16_autocast(tmp_path):
    """Accelerate leaves autocast before the loss: the head's own passes must re-enter it."""
    model, _ = train(tmp_path, head_noise(), tiny_bert(torch.float32), bf16=True)
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


def test_a_loss_function_beside_the_method_is_refused(tmp_path):
    with pytest.raises(InputError, match="compute_loss_func"):
        Trainer(
            model=tiny_bert(),
            args=arguments(tmp_path),
            method="focal",
            compute_loss_func=lambda *_: None,
        )


def test_label_smoothing_beside_the_method_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"LabelSmoothing\(alpha=0.1\)"):
        Trainer(
            model=tiny_bert(),
            args=arguments(tmp_path, label_smoothing_factor=0.1),
            method="focal",
        )
    with pytest.raises(InputError, match=r"LabelSmoothing\(alpha=0.2\)"):  # It has no config.
        Trainer(torch.nn.Linear(2, 3), arguments(tmp_path, label_smoothing_factor=0.2))


def test_the_numbers_of_the_examples_reach_the_method_and_not_the_model(tmp_path):
    rows = [
        {**row, "examples": torch.arange(6) + 6 * number} for number, row in enumerate(sentences())
    ]
    method = ErrorRegularization(error="history", examples=6 * SENTENCES)
    trainer = Trainer(
        model=tiny_bert(), args=arguments(tmp_path), train_dataset=rows, method=method
    )
    trainer.train()
    kept = torch.cat([row["labels"] for row in rows]) != -100
    assert torch.equal(method.seen, kept.float())
    assert "eval_loss" in trainer.evaluate(rows)


def test_a_process_more_than_had_saved_continues_from_rank_0(tmp_path, monkeypatch):
    trained = MetaRegularization()
    Trainer(
        model=tiny_bert(),
        args=arguments(tmp_path, save_strategy="steps", save_steps=2),
        train_dataset=sentences(),
        holdout_dataset=sentences(seed=5),
        method=trained,
    ).train()
    method = MetaRegularization(seed=1)
    resumed = Trainer(
        model=tiny_bert(),
        args=arguments(tmp_path),
        holdout_dataset=sentences(seed=5),
        method=method,
    )
    monkeypatch.setattr("calibrant.training.trainer.rank", lambda: 1)
    resumed._load_method(str(tmp_path / "checkpoint-2"))
    assert torch.equal(method.gamma_net.A, trained.gamma_net.A)


def test_the_package_has_it_without_loading_torch():
    code = (
        "import sys, calibrant\n"
        "assert 'Trainer' in calibrant.__all__\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
        "from calibrant.training.trainer import Trainer\n"
        "assert calibrant.Trainer is Trainer\n"
        "assert not hasattr(calibrant, 'Trainner')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class _Returning(torch.nn.Module):
    """A BERT whose forward gives its logits in another way."""

    def __init__(self, kind):
        super().__init__()
        self.model, self.kind = tiny_bert(), kind

    def forward(self, input_ids, attention_mask, labels=None):
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        ways = {
            "dict": lambda: {"logits": logits, "other": None},
            "dict with a loss": lambda: {"loss": logits.sum(), "logits": logits},
            "tuple": lambda: (logits, None),
            "loss first": lambda: (logits.sum(), logits),
            "tensor": lambda: logits,
            "output": lambda: transformers.utils.ModelOutput(logits=logits),
            "unknown": lambda: {"scores": logits},
        }
        return ways[self.kind]()


@pytest.mark.parametrize(
    "kind", ["dict", "dict with a loss", "tuple", "loss first", "tensor", "output"]
)
def test_models_return_their_logits_in_any_usual_way(tmp_path, kind):
    model, _ = train(tmp_path / "a", head_noise(), _Returning(kind))
    expected, _ = train(tmp_path / "b", head_noise())
    assert_same_weights(model.model, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "kind", ["dict", "dict with a loss", "tuple", "loss first", "tensor", "output"]
)
def test_every_prediction_of_such_models_is_evaluated(tmp_path, kind):
    """Logits without a loss before them were taken for a loss, and a tensor lost its first row."""
    model = _Returning(kind)
    trainer = Trainer(model=model, args=arguments(tmp_path), method=head_noise())
    rows = sentences(5, seed=9)
    found = trainer.predict(rows)
    batch = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
    with torch.no_grad():
        expected = model.model(batch["input_ids"], batch["attention_mask"]).logits
    torch.testing.assert_close(torch.as_tensor(found.predictions), expected)
    assert found.label_ids.shape == (5, 6)


def test_the_error_for_an_output_without_logits_names_its_keys(tmp_path):
    with pytest.raises(InputError, match="got dict with scores"):
        train(tmp_path, CrossEntropy(), _Returning("unknown"))


@pytest.mark.parametrize("method", [CrossEntropy, HeadNoise])
def test_a_class_in_place_of_a_method(tmp_path, method):
    with pytest.raises(InputError, match=rf"write {method.__name__}\(\)"):
        train(tmp_path, method)
    with pytest.raises(InputError, match=rf"write {method.__name__}\(\)"):
        HeadNoise(method)


def test_something_else_in_place_of_a_method(tmp_path):
    with pytest.raises(InputError, match="such as CrossEntropy"):
        train(tmp_path, torch.nn.functional.cross_entropy)


def test_data_without_labels(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "labels"} for row in sentences()]
    trainer = Trainer(
        model=tiny_bert(), args=arguments(tmp_path), train_dataset=rows, method="cross_entropy"
    )
    with pytest.raises(InputError, match="no 'labels'"):
        trainer.train()


def test_a_model_that_names_no_labels(tmp_path):
    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings = torch.nn.Embedding(50, 8)
            self.classifier = torch.nn.Linear(8, CLASSES)

        def forward(self, input_ids, attention_mask=None):
            return {"logits": self.classifier(self.embeddings(input_ids))}

    with pytest.raises(InputError, match=r"its forward names none.*label_names=\['labels'\]"):
        train(tmp_path, head_noise(), Tagger())
    before = Tagger()
    after = copy.deepcopy(before)
    train(tmp_path, head_noise(), after, label_names=["labels"])
    assert not torch.equal(after.classifier.weight, before.classifier.weight)


def test_an_empty_holdout(tmp_path):
    given = {"model": tiny_bert(), "args": arguments(tmp_path), "train_dataset": sentences()}
    with pytest.raises(InputError, match="holdout_dataset is empty"):
        Trainer(**given, method=MetaRegularization(), holdout_dataset=[])


def test_a_frozen_head_warns(tmp_path):
    model = tiny_bert()
    model.classifier.requires_grad_(False)
    with pytest.warns(UserWarning, match="modules_to_save"):
        train(tmp_path, head_noise(), model)


class _Adapted(torch.nn.Module):
    """A model inside another one, as peft wraps it."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def get_base_model(self):
        return self.inner

    def forward(self, input_ids, attention_mask=None, labels=None):
        return self.inner(input_ids, attention_mask=attention_mask, labels=labels)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("act", ["train", "evaluate"])
def test_language_models_are_refused(tmp_path, wrapped, act):
    """Their labels would not be shifted to the next word: GPT-2 would learn to copy its input."""
    config = transformers.GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    model = _Adapted(model) if wrapped else model
    given = {"train_dataset": sentences(), "eval_dataset": sentences()}
    trainer = Trainer(model=model, args=arguments(tmp_path), method="cross_entropy", **given)
    with pytest.raises(InputError, match="GPT2LMHeadModel predicts the next word"):
        getattr(trainer, act)()
