"""What the demo needs: ``recipe.toml``, and the quickest overconfident network for pictures."""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.predictions import Predictions

__all__ = ["digit_predictions"]

TRAINING, VALIDATION = 600, 400
NOISE = 0.3  # Standard deviation on pixels in 0..1: enough to make the network wrong at times.


def digit_predictions(seed: int = 0) -> tuple[Predictions, Predictions]:
    """Return validation and test predictions of an overconfident network, in seconds.

    The data are scikit-learn's 1,797 digits of 8×8 pixels with added noise. One hidden layer of 256
    is trained on 600 of them without regularisation until it remembers them, which makes it
    overconfident.
    """
    if not 0 <= seed < 2**32:
        raise InputError(f"digit_predictions expects a seed from 0 to 2³² − 1, got {seed}.")
    datasets = require("sklearn.datasets", "sklearn", "A network for digits")
    networks = require("sklearn.neural_network", "sklearn", "A network for digits")
    pixels, labels = datasets.load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    pixels = pixels / 16 + NOISE * random.normal(size=pixels.shape)
    order = random.permutation(len(labels))
    train, valid, test = np.split(order, [TRAINING, TRAINING + VALIDATION])
    network = networks.MLPClassifier((256,), alpha=0.0, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It is not meant to converge.
        network.fit(pixels[train], labels[train])
    hidden = np.maximum(pixels @ network.coefs_[0] + network.intercepts_[0], 0)
    logits = hidden @ network.coefs_[1] + network.intercepts_[1]
    names = [f"digit {k}" for k in range(10)]
    parts = [
        Predictions.from_logits(logits[rows], labels[rows], label_names=names)
        for rows in (valid, test)
    ]
    return parts[0], parts[1]
