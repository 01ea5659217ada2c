"""A new task is a folder, a row of the table, a test and a page: here, with nothing else touched.

The task below classifies points of a plane. It is all that a new task must bring.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.cli import main  # noqa: E402
from calibrant.experiments.evaluation import evaluate  # noqa: E402
from calibrant.experiments.recipe import Recipe  # noqa: E402
from calibrant.experiments.run import train  # noqa: E402
from calibrant.predictions import Predictions  # noqa: E402
from calibrant.tasks import TASKS, open_task, task_of  # noqa: E402
from calibrant.tasks.data import Data  # noqa: E402
from calibrant.tasks.task import LabelledExamples, Task  # noqa: E402
from calibrant.training.images import plan_images  # noqa: E402

SIZES = {"train": 200, "dev": 100, "test": 100}


class Plane(torch.nn.Module):
    """Two inputs, one hidden layer, a head."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(2, 8)
        self.classifier = torch.nn.Linear(8, 2)

    def forward(self, points):
        return self.classifier(torch.relu(self.hidden(points)))


class Rows:
    """The training points on a device."""

    longest = 1

    def __init__(self, points, classes, device):
        self.points = torch.as_tensor(points, device=device)
        self.classes = torch.as_tensor(classes, device=device)
        self.device = self.points.device

    def __len__(self):
        return len(self.points)

    def plan(self, batch, epochs, seed):
        return plan_images(len(self), batch, epochs, seed)

    def batch(self, rows, length):
        return {"points": self.points[rows], "labels": self.classes[rows]}


class Clouds:
    """Two clouds of points, one for each class."""

    name, labels, notes = "clouds", ("left", "right"), ()

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        classes = {split: random.integers(0, 2, size) for split, size in SIZES.items()}
        self.splits = {
            split: ((random.normal(size=(len(c), 2)) + 2 * c[:, None] - 1).astype("f4"), c)
            for split, c in classes.items()
        }
        self.parts = {"valid": self.splits["dev"], "test": self.splits["test"]}
        self.fingerprint = hashlib.sha256(self.splits["train"][0].tobytes()).hexdigest()

    def load(self, split):
        points, classes = self.splits[split]
        return [{"points": p, "labels": int(c)} for p, c in zip(points, classes, strict=True)]

    def collate(self, examples):
        names = ("points", "labels")
        return {n: torch.as_tensor(np.stack([e[n] for e in examples])) for n in names}

    def build_model(self, seed=0):
        torch.manual_seed(seed)
        return Plane()

    def windows(self, device):
        return Rows(*self.splits["train"], device), None

    def predict(self, model, part):
        with torch.no_grad():
            logits = model(torch.as_tensor(part[0])).float().numpy()
        return Predictions.from_logits(logits, part[1], label_names=self.labels)

    def outside(self, model):
        return None


class LabelledClouds(LabelledExamples):
    """The test split with the model of a run."""

    def __init__(self, target):
        self.model = Plane()
        self.model.load_state_dict(torch.load(target.run.model / "weights.pt"))

    def predict(self, corruption, seed):
        data = Clouds()
        points, classes = data.parts["test"]
        wider = 1 if corruption is None else corruption[1]
        return data.predict(self.model, (points / wider, classes))


class Points(Task):
    """One class for each point of a plane."""

    name, embedded = "points", "clouds"
    summary = "points: one class for each point of a plane"
    corruptions = ("shrink",)
    defaults = {"data": "clouds", "model": "plane", "epochs": 4, "batch": 20,  # noqa: RUF012
                "learning_rate": 0.05, "dtype": "float32"}  # fmt: skip

    def open(self, data, directory=None, seed=0):
        return Clouds(seed)

    def tiny(self, seed=0):
        return Clouds(seed)

    def check(self, recipe, directory=None):
        pass

    def prepare(self, recipe, directory=None):
        return Clouds()

    def build_model(self, recipe, data):
        return data.build_model(recipe.seed)

    def write_model(self, recipe, data, model, folder):
        torch.save(model.state_dict(), folder / "weights.pt")

    def shifted(self, recipe, data, directory):
        return {}

    def examples(self, target):
        return LabelledClouds(target)


@pytest.fixture
def points(monkeypatch):
    """The row of the table."""
    monkeypatch.setitem(TASKS, "points", f"{__name__}:Points")


def test_a_new_task_is_trained_and_evaluated(points, tmp_path):
    recipe = Recipe.from_dict({"task": "points"})
    record = train(recipe, tmp_path / "run", device="cpu", bootstrap=0)
    test = record.results["identity"]["test"]
    assert test["accuracy"] > 0.85
    found = evaluate(tmp_path / "run", corrupt=["shrink-5"], device="cpu")
    assert found["identity"]["test"] == pytest.approx(test)
    shifted = found["identity"]["shift"]["shrink-5"]
    assert shifted["mean_confidence"] < test["mean_confidence"]


def test_the_command_line_knows_a_new_task(points, tmp_path, capsys):
    assert main(["list", "tasks"]) == 0
    assert "one class for each point of a plane" in capsys.readouterr().out
    run = str(tmp_path / "run")
    command = ["train", "--task", "points", "--data", "clouds", "--device", "cpu"]
    assert main([*command, "--bootstrap", "0", "--json", "-o", run]) == 0
    assert json.loads(capsys.readouterr().out)["training"]["steps"] >= 40
    assert main(["evaluate", run, "--device", "cpu"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert main(["predict", run, "some text"]) == 2
    assert "run of task 'points'" in capsys.readouterr().err


def test_a_new_task_keeps_the_contract_of_data(points):
    data = open_task("points", tiny=True)
    assert isinstance(data, Data)
    assert isinstance(task_of("points"), Points)
