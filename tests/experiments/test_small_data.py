"""Little data: defaults train long enough, explicit options win, no learning gives a warning."""

import json

import numpy as np
import pytest
from people_corpus import write_corpus

from calibrant.cli import main
from calibrant.experiments.recipe import Recipe
from calibrant.metrics import entity_f1
from calibrant.predictions import Predictions

pytest.importorskip("transformers")
from calibrant.experiments import small_data
from calibrant.experiments.small_data import enough_epochs, nothing_learned


class _Data:
    """Data whose epoch has the given number of steps."""

    def __init__(self, steps):
        self.steps = steps

    def windows(self, device):
        return self, None

    def plan(self, batch, epochs, seed):
        return range(self.steps * epochs)


@pytest.mark.parametrize(
    ("steps", "epochs"), [(1, 100), (4, 100), (5, 80), (39, 11), (40, 10), (1000, 10)]
)
def test_the_default_has_a_floor(steps, epochs):
    made = enough_epochs(Recipe(), _Data(steps), "cpu")
    assert made.epochs == epochs
    assert made == Recipe(epochs=epochs)


def _tags(predicted, labels):
    names = ("O", "B-PER", "I-PER")
    logits = np.eye(3)[np.asarray(predicted)]
    groups = {"sentence": np.zeros(len(labels), int), "position": np.arange(len(labels))}
    return Predictions.from_logits(logits, np.asarray(labels), label_names=names, groups=groups)


def test_tags_that_are_all_o():
    labels = [0, 1, 2, 0, 0, 1]
    message = nothing_learned(Recipe(epochs=10), _tags([0] * 6, labels), 40)
    assert "F1 0.000" in message
    assert "--epochs 100" in message
    message = nothing_learned(Recipe(batch=3), _tags([0] * 6, labels), 4000)
    assert message.endswith("try a larger --batch, or another --seed.")
    message = nothing_learned(Recipe(epochs=10), _tags([0] * 6, labels), 4000)
    assert "--learning-rate 0.0002" in message
    assert nothing_learned(Recipe(), _tags(labels, labels), 40) is None
    guessed = _tags([1, 2, 1, 1, 2, 1], [0, 1, 2, 0, 0, 1])
    assert (nothing_learned(Recipe(), guessed, 40) is None) == (entity_f1(guessed) >= 0.2)
    assert nothing_learned(Recipe(), _tags([0] * 3, [0] * 3), 40) is None  # Nothing to find.


def test_a_test_split_of_unseen_types_says_nothing_about_learning():
    """Training has only people, the test split only places: its F1 is 0 after any training."""
    names = ("O", "B-PER", "B-LOC")
    valid = Predictions.from_logits(np.eye(3)[[0, 1, 0, 1]], [0, 1, 0, 1], label_names=names)
    test = Predictions.from_logits(np.eye(3)[[0, 1, 0, 0]], [0, 2, 0, 2], label_names=names)
    assert nothing_learned(Recipe(), test, 4000, valid) is None
    poor = Predictions.from_logits(np.eye(3)[[0, 0, 0, 0]], [0, 1, 0, 1], label_names=names)
    assert "F1 0.000" in nothing_learned(Recipe(), test, 4000, poor)


def test_classes_no_better_than_the_most_frequent():
    recipe = Recipe.from_dict({"task": "text"})
    labels = np.array([0, 0, 0, 1, 2])

    def message(predicted):
        made = Predictions.from_logits(np.eye(3)[predicted], labels)
        return nothing_learned(recipe, made, 40)

    assert "accuracy 0.600" in message([0, 0, 0, 0, 0])
    assert "the most frequent class alone would be right in 60.0%" in message([1, 1, 1, 1, 2])
    assert message([0, 0, 0, 1, 0]) is None


def command(corpus, run, *more):
    return [
        "train", "--data", str(corpus), "--model", "tiny", "--head-width", "8", "--bootstrap", "0",
        "--device", "cpu", "-o", str(run), *more,
    ]  # fmt: skip


def test_the_command_takes_more_epochs_and_keeps_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(small_data, "LEAST_STEPS", 24)
    corpus = write_corpus(tmp_path / "corpus", train=12, dev=8, test=8)
    run = tmp_path / "run"
    assert main(command(corpus, run)) == 0
    captured = capsys.readouterr()
    epochs = json.loads((run / "recipe.json").read_text())["epochs"]
    assert epochs > 10
    assert f"{epochs} epochs instead of 10" in captured.err
    assert "The model has learned nothing: F1 0." in captured.out
    assert "--learning-rate" in captured.out
    monkeypatch.setattr(small_data, "LEAST_STEPS", 240)
    assert main(command(corpus, run, "--json")) == 0  # The finished run, with any epochs.
    found = json.loads(capsys.readouterr().out)
    assert "learned nothing" in json.dumps(found)
    assert main(command(corpus, run, "--epochs", "3")) == 2
    assert "epochs" in capsys.readouterr().err


def test_what_is_asked_for_is_done(tmp_path, capsys):
    corpus = write_corpus(tmp_path / "corpus", train=12, dev=8, test=8)
    assert main(command(corpus, tmp_path / "run", "--epochs", "2")) == 0
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["epochs"] == 2
    assert "instead of" not in capsys.readouterr().err
