"""Lets the tests of this folder share ``people_corpus``."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    from people_corpus import write_corpus

    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def skies(tmp_path):
    """Write a folder of bright and dark images of several sizes."""
    pil, random = pytest.importorskip("PIL.Image"), np.random.default_rng(0)
    for label in ("day", "night"):
        (tmp_path / "sky" / label).mkdir(parents=True)
        for number in range(15):
            shape = (10 + number % 3, 12, 3)
            pixels = random.integers(0, 100, shape, np.uint8) + 150 * (label == "day")
            pil.fromarray(pixels.astype(np.uint8)).save(tmp_path / "sky" / label / f"{number}.png")
    return tmp_path / "sky"


@pytest.fixture
def one_thread():
    """Let torch compute in one thread: with another number sums differ in their last digits."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
