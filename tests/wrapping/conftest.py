"""Small models of others, made on the spot, and corpora that they do not know."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def quietly():
    from calibrant.tasks.encoders.foreign_models import quiet

    with quiet():
        yield


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    from small_models import write_sentences

    return write_sentences(tmp_path_factory.mktemp("sentences"))


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    from small_models import write_texts

    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="session")
def pets(tmp_path_factory):
    """Pictures of several sizes, grey ones among them, in folders of splits and classes."""
    image = pytest.importorskip("PIL.Image")
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("pets")
    for split in ("valid", "test"):
        for channel, name in enumerate(("cat", "dog", "owl")):
            (folder / split / name).mkdir(parents=True)
            for number in range(8):
                shape = (*rng.integers(24, 60, 2), 3)
                pixels = rng.integers(0, 200, shape, np.uint8)
                pixels[..., channel] += 55
                picture = image.fromarray(pixels[..., 0] if number == 3 else pixels)
                picture.save(folder / split / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def tagger(tmp_path_factory):
    """A tagger that has learned something, its tags those of the corpus."""
    from small_models import TAGS, make_tagger

    return make_tagger(tmp_path_factory.mktemp("models") / "tagger", TAGS, steps=60)


@pytest.fixture(scope="session")
def wrapped(tmp_path_factory, tagger, corpus):
    """A finished run of the tagger."""
    from calibrant.wrapping import wrap_run

    run = tmp_path_factory.mktemp("runs") / "wrapped"
    wrap_run(str(tagger), "ner", str(corpus), run, bootstrap=0, device="cpu")
    return run
