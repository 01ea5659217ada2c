"""A tiny token classifier and windows to train it on."""

import itertools

import numpy as np
import torch
from torch import nn

from calibrant.tasks.ner.subword_windows import Pieces


class Tagger(nn.Module):
    """A token classifier in the manner of transformers: .logits of an output."""

    def __init__(self, vocabulary=20, width=8, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, input_ids, attention_mask):
        features = self.embedding(input_ids) * attention_mask[..., None]
        features = self.dropout(features + features.mean(dim=1, keepdim=True))
        return type("Output", (), {"logits": self.classifier(features)})()


def pieces(windows=40, seed=0):
    """Windows of random ids whose label is their id modulo 3; the first and last are special."""
    random = np.random.default_rng(seed)
    sizes = random.integers(4, 30, windows)
    ids = random.integers(2, 20, sizes.sum()).astype(np.int32)
    labels, words = (ids % 3).astype(np.int32), np.zeros(len(ids), np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for begin, end in itertools.pairwise(starts):
        labels[[begin, end - 1]] = -100
        words[begin:end] = np.arange(-1, end - begin - 1)
    return Pieces(ids, labels, words, starts, np.arange(windows))


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
