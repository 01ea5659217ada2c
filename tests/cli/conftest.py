"""A small corpus, and a run that was trained on it."""

import contextlib
import io

import pytest

from calibrant.cli import main


def train_arguments(corpus, output):
    return [
        "train", "--data", str(corpus), "--model", "tiny", "--method", "head-noise", "--set",
        "weight=0.05", "--epochs", "6", "--batch", "16", "--learning-rate", "5e-3", "--head-width",
        "16", "--bootstrap", "0", "--device", "cpu", "-o", str(output),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory):
    from calibrant.tasks.language.synthetic import generate_splits

    folder = tmp_path_factory.mktemp("corpus")
    for split, sentences in generate_splits(0, train=120, dev=60, test=40, ood=0).items():
        if sentences:
            blocks = (
                "".join(f"{word}\t{tag}\n" for word, tag in zip(s.words, s.tags, strict=True))
                for s in sentences
            )
            (folder / f"{split}.conll").write_text("\n".join(blocks))
    return folder


@pytest.fixture(scope="session")
def trained(small_corpus, tmp_path_factory):
    """The folder of a finished run, and what training it printed."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("runs") / "run"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(train_arguments(small_corpus, folder)) == 0
    return folder, out.getvalue(), err.getvalue()
