"""Decoders that classify a text run their head at every position and pick one afterwards."""

import warnings

import pytest
import torch
from torch.nn import functional

from calibrant.errors import InputError
from calibrant.methods import (
    CrossEntropy,
    ErrorRegularization,
    FeatureMixup,
    HeadNoise,
    MetaRegularization,
)
from calibrant.methods.noise import Noise
from calibrant.training import Step, attach

transformers = pytest.importorskip("transformers")

CLASSES, WIDTH, PAD = 3, 16, 0
SIZES = {"vocab_size": 30, "num_labels": CLASSES, "pad_token_id": PAD}
LAYERS = {
    "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "intermediate_size": 16,
}  # fmt: skip
GPT2 = {
    "n_embd": WIDTH, "n_layer": 1, "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}  # fmt: skip
KINDS = {"Llama": LAYERS, "Qwen2": LAYERS, "GPT2": GPT2}


def build(kind):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, **KINDS[kind])
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
    model.score.weight.data.normal_(0, 1)
    return model.double().train()


@pytest.fixture(params=["right", "left"])
def batch(request):
    """Four texts of 2 to 7 tokens, padded on either side."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 30, (4, 7), generator=generator)
    mask = torch.zeros_like(ids)
    for row, size in enumerate((7, 2, 5, 3)):
        kept = slice(0, size) if request.param == "right" else slice(7 - size, 7)
        mask[row, kept] = 1
    last = 6 - mask.flip(1).argmax(1)
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    return inputs, torch.tensor([0, 2, -100, 1]), last


def by_hand(model, inputs, last):
    hidden = model.base_model(**inputs).last_hidden_state
    return hidden[torch.arange(len(last)), last]


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_position_that_is_picked(kind, batch):
    model, (inputs, labels, last) = build(kind), batch
    with attach(model, CrossEntropy()) as hook:
        step = hook.step(model(**inputs).logits, labels)
        with torch.no_grad():
            held = hook.step(model(**inputs).logits, labels)
    expected = by_hand(model, inputs, last)
    for made in (step, held):
        torch.testing.assert_close(made.features, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(made.head(made.features), made.logits)


class _Ones(Noise):
    def like(self, step, generator):
        return torch.ones_like(step.features)


@pytest.mark.parametrize("kind", KINDS)
def test_head_noise_with_a_regulariser(kind, batch):
    model, (inputs, labels, last) = build(kind), batch
    part = ErrorRegularization(weight=0.5)
    method = HeadNoise(CrossEntropy(), weight=2.0, noise=_Ones(), with_=part)
    with attach(model, method) as hook:
        method.loss(hook.step(model(**inputs).logits, labels)).backward()
    made = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    features, kept = by_hand(model, inputs, last), labels >= 0
    task = functional.cross_entropy(model.score(features), labels)
    task.backward()
    encoder = {n: p.grad.clone() for n, p in model.named_parameters() if not n.startswith("score")}
    alone = model.score(features.detach())
    noise = model.score(torch.ones(4, WIDTH, dtype=alone.dtype)).softmax(-1).amax(-1)
    calibration = 2.0 * (1 / CLASSES - noise)[kept].square().mean()
    others = part.penalty(Step(alone, labels))
    (calibration + others).backward()
    head = model.score.weight.grad / 3
    torch.testing.assert_close(made["score.weight"], head, rtol=1e-8, atol=1e-12)
    for name, gradient in encoder.items():
        torch.testing.assert_close(made[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gamma_net_learns(kind, batch):
    model, (inputs, labels, last) = build(kind), batch
    method = MetaRegularization()
    with attach(model, method) as hook:
        with torch.no_grad():
            held = hook.step(model(**inputs).logits, labels)
        step = hook.step(model(**inputs).logits, labels, holdout=held)
        loss = method.loss(step)
        gamma = method.gamma_net(by_hand(model, inputs, last))[labels >= 0]
        kept = step.logits[labels >= 0].log_softmax(-1)
        p = kept.gather(1, labels[labels >= 0, None]).squeeze(1)
        torch.testing.assert_close(loss, (-((1 - p.exp()) ** gamma) * p).mean(), rtol=1e-6, atol=0)
        before = method.gamma_net.W.clone()
        method.outer_step(step)
    assert not torch.equal(before, method.gamma_net.W)


def test_a_mean_over_positions_is_no_position(batch):
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.score = torch.nn.Embedding(30, 4), torch.nn.Linear(4, CLASSES)

        def forward(self, ids):
            return self.score(self.embedding(ids)).mean(1)

    model, method = Mean(), HeadNoise(with_=ErrorRegularization(weight=0.1))
    inputs, labels, _ = batch
    with attach(model, method) as hook:
        step = hook.step(model(inputs["input_ids"]), labels)
        assert step.features.shape == (4, 7, 4)
        with pytest.raises(InputError, match="pools after its head"):
            method.loss(step)


def test_a_frozen_head_warns():
    model = build("Llama")
    model.score.requires_grad_(False)
    with pytest.warns(UserWarning, match="'score', whose parameters are frozen"):
        attach(model, HeadNoise()).remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attach(model, CrossEntropy()).remove()


def test_gamma_net_says_what_a_frozen_head_lacks(batch):
    model, (inputs, labels, _) = build("Llama"), batch
    model.score.requires_grad_(False)
    method = MetaRegularization()
    with attach(model, method) as hook:
        held = hook.step(model(**inputs).logits, labels)
        step = hook.step(model(**inputs).logits, labels, holdout=held)
        with pytest.raises(InputError, match="frozen"):
            method.outer_step(step)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outer", [FeatureMixup, lambda **o: HeadNoise(FeatureMixup(**o))])
def test_feature_mixup_mixes_what_the_model_picks(kind, batch, outer):
    """A text's last piece is at another place than that of its partner."""
    model, (inputs, labels, last) = build(kind), batch
    method = outer(alpha=1.0, seed=2)
    mixup = method if isinstance(method, FeatureMixup) else method.task
    features = by_hand(model, inputs, last)
    with attach(model, method) as hook:
        both = torch.zeros(4, dtype=bool)
        while not both.any():  # Some kept text has another one as its partner.
            method.prepare({**inputs, "labels": labels})
            share, partner, _ = mixup._drawn
            both = (labels != -100) & (labels[partner] != -100) & (partner != torch.arange(4))
        step = hook.step(model(**inputs).logits, labels)
        mixed = share * features + (1 - share) * features[partner]
        expected = model.score.weight @ torch.where(both[:, None], mixed, features).T
        torch.testing.assert_close(step.logits, expected.T, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(step.features, features, rtol=1e-10, atol=1e-12)
        method.loss(step).backward()


def test_a_head_that_pools_itself_is_mixed_by_its_first_piece():
    torch.manual_seed(0)
    sizes = {**SIZES, "vocab_size": 30, "hidden_size": WIDTH, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 16, "hidden_dropout_prob": 0.0}
    config = transformers.RobertaConfig(**sizes, attention_probs_dropout_prob=0.0)
    model = transformers.RobertaForSequenceClassification(config).double().train()
    ids = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]])
    inputs, labels = {"input_ids": ids, "attention_mask": (ids != 0).long()}, torch.tensor([0, 1])
    first = model.roberta(**inputs).last_hidden_state[:, :1]
    method = FeatureMixup(alpha=1.0, seed=0)
    with attach(model, method):
        partner = torch.tensor([0, 1])
        while partner.tolist() == [0, 1]:
            method.prepare({**inputs, "labels": labels})
            share, partner, _ = method._drawn
        found = model(**inputs).logits
    expected = model.classifier(share * first + (1 - share) * first[partner])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
