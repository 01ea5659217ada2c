"""Records of runs that never were, as small or as large as a test needs."""

import zlib

import numpy as np
import pytest

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record


def record_of(f1=None, ece=None, shift=(), circumstances=None, **recipe):
    """A record; what is not given is drawn from a seed that the recipe decides."""
    usual = {"data": "gum", "learning_rate": 1e-4, "dtype": "tf32", "shift": tuple(shift)}
    made = Recipe(**{**usual, **recipe})
    rng = np.random.default_rng(zlib.crc32(made.key.encode()))
    f1 = 0.8 + 0.01 * rng.normal() if f1 is None else f1
    ece = 0.03 + 0.002 * rng.random() if ece is None else ece
    results = {"identity": parts_of(f1, ece, shift), "temperature": parts_of(f1, ece / 2, shift)}
    results["temperature"]["temperature"] = 1.3
    training = {"mean_loss": 0.5, "notes": [], "seconds": 20.0, "steps": 700}
    about = {"calibrant": "0.1.0", "device": "NVIDIA H200", "git": None, "numpy": "2.5.2"}
    return Record(made, results, training, {**about, **(circumstances or {})})


def parts_of(f1, ece, shift=()):
    def numbers(loss=0.0):
        return {
            "entity_f1": f1 - loss, "token_f1": f1, "accuracy": 0.95 - loss, "ece": ece + loss,
            "aurc": 0.02 + loss, "auroc": 0.9 - loss, "apcr": (f1 - loss) ** 2 / (ece + loss),
            "mean_confidence": 0.97,
        }  # fmt: skip

    parts = {"valid": numbers(), "test": numbers()}
    if shift:
        parts["shift"] = {name: numbers(0.01 * (place + 1)) for place, name in enumerate(shift)}
    return parts


@pytest.fixture(scope="session")
def make_record():
    return record_of


@pytest.fixture
def two_networks(make_record):
    """∇Acc is better on the small network and worse on the large one, on both corpora."""
    ece = {("small", "head_noise"): 0.05, ("large", "head_noise"): 0.2}
    return [
        make_record(
            data=d, model=m, method=n, seed=s, f1=0.5, ece=ece.get((m, n), 0.1) * (1 + 0.01 * s)
        )
        for d in ("gum", "wnut17")
        for m in ("small", "large")
        for n in ("cross_entropy", "head_noise")
        for s in range(5)
    ]
