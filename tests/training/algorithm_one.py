"""Algorithm 1 of the ∇Acc paper as plainly as possible, and a small model to run it on.

Separate forward and backward passes, p.grad divided afterwards; no code of calibrant's methods.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

WEIGHT, REGULARIZATION, CLASSES = 0.025, 0.05, 3


class Classifier(nn.Module):
    """An encoder and a head of two layers, in float64."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.encoder = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6))
        self.classifier = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES))
        self.double()

    def forward(self, inputs):
        return self.classifier(self.encoder(inputs))


def token_batch(sentences=8, tokens=5, seed=1):
    """Tokens with a different number of ignored ones in each sentence."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(sentences, tokens, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (sentences, tokens), generator=generator)
    for row, ignored in enumerate(torch.randint(0, tokens, (sentences,), generator=generator)):
        labels[row, tokens - int(ignored) :] = -100
    return inputs, labels


class Mirror:
    """Noise that is a function of the features, so that any split of a batch draws the same."""

    def __call__(self, features):
        return 3 * features.detach().flip(-1) + 0.5

    def like(self, step, generator):
        return self(step.features)


def algorithm_one(model, inputs, labels, abstention=False, scale=1.0):
    """Gradients by name after one step of Algorithm 1 (section IV-D with ``abstention``)."""
    model.zero_grad()
    kept = labels != -100
    # 1–3: forward, task loss, backward through all.
    features = model.encoder(inputs)
    logits = model.classifier(features)
    (scale * cross_entropy(wide(logits[kept]), labels[kept])).backward()
    # 4–6: noise, calibration loss, backward through the head.
    noise = Mirror()(features)
    confidence = wide(model.classifier(noise)).softmax(-1).max(-1).values
    (scale * WEIGHT * ((1 / CLASSES - confidence[kept]) ** 2).mean()).backward()
    passes = 2
    if abstention:
        head_logits = wide(model.classifier(features.detach()))
        (scale * REGULARIZATION * abstention_loss(head_logits[kept], labels[kept])).backward()
        passes = 3
    # 7: the head's gradients are the mean over the passes.
    for parameter in model.classifier.parameters():
        parameter.grad /= passes
    return gradients(model)


def abstention_loss(logits, labels):
    """Mean over pairs with e_i > e_j of max(0, c_i − c_j)²; e the cross-entropy."""
    confidence = logits.softmax(-1).max(-1).values
    error = cross_entropy(logits, labels, reduction="none").detach()
    total, pairs = logits.new_zeros(()), 0
    for i in range(len(labels)):
        for j in range(len(labels)):
            if error[i] > error[j]:
                total = total + torch.relu(confidence[i] - confidence[j]) ** 2
                pairs += 1
    return total / max(pairs, 1)


def gradients(model):
    return {name: p.grad.detach().clone() for name, p in model.named_parameters()}


def wide(tensor):
    """Losses are computed in float32 or better."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
