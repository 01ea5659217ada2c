"""Every task keeps one contract, on its tiny form: it loads, collates, and its model learns."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calibrant.calibrators import CALIBRATORS  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.experiments.recipe import Recipe  # noqa: E402
from calibrant.metrics import METRICS  # noqa: E402
from calibrant.predictions import IGNORED  # noqa: E402
from calibrant.tasks import TASKS, open_task, task_of  # noqa: E402
from calibrant.tasks.data import Data  # noqa: E402
from calibrant.training.head import find_head  # noqa: E402
from calibrant.training.head_hook import logits_of  # noqa: E402


@pytest.fixture(scope="module", params=TASKS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def data(kind: str) -> Data:
    return open_task(kind, tiny=True)


def test_keeps_the_protocol(data: Data) -> None:
    assert isinstance(data, Data)
    assert len(set(data.labels)) == len(data.labels) > 1
    assert all(isinstance(note, str) for note in data.notes)


@pytest.mark.parametrize("split", ["train", "dev", "test", "ood"])
def test_labels_are_classes_or_ignored(data: Data, split: str) -> None:
    examples = data.load(split)
    assert len(examples) >= 10
    batch = data.collate([examples[i] for i in range(len(examples))])
    labels = batch["labels"]
    assert labels.dtype == torch.long
    assert len(labels) == len(examples)
    kept = labels[labels != IGNORED]
    assert kept.min() >= 0
    assert kept.max() < len(data.labels)
    assert len(kept) >= len(examples)


def test_unknown_split(data: Data) -> None:
    with pytest.raises(InputError, match=r"Unknown split 'tset'\. Did you mean 'test'\?"):
        data.load("tset")


def test_seed_decides_data_and_weights(kind: str, data: Data) -> None:
    again, other = open_task(kind, tiny=True), open_task(kind, tiny=True, seed=1)
    first, same, different = (
        t.collate([t.load("train")[0]])["labels"].tolist()
        + [v.tolist() for k, v in t.collate([t.load("train")[0]]).items() if k != "labels"]
        for t in (data, again, other)
    )
    assert first == same != different
    one, two, three = (data.build_model(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], three[name]) for name in one)


def test_model_learns_its_training_data(data: Data) -> None:
    examples = data.load("train")
    batch = data.collate([examples[i] for i in range(32)])
    labels = batch.pop("labels")
    model = data.build_model()
    assert find_head(model)[0] == "classifier"
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(40):
            optimizer.zero_grad()
            logits = logits_of(model(**batch))
            assert logits.shape == (*labels.shape, len(data.labels))
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
            loss.backward()
            optimizer.step()
    right = (logits.argmax(-1) == labels)[labels != IGNORED].float().mean()
    assert right > 0.9


def test_says_how_it_is_shown_and_what_it_has(kind: str) -> None:
    task = task_of(kind)
    assert task.name == kind
    assert {task.score_metric, *task.shown} <= set(METRICS)
    settings = {field.name for field in dataclasses.fields(Recipe)}
    assert {*task.defaults, *task.own_settings} <= settings
    assert set(task.own_calibrators) <= set(CALIBRATORS)


def test_the_score_is_that_of_the_record(kind: str, data: Data) -> None:
    task, model = task_of(kind), data.build_model().eval()
    predictions = data.predict(model, data.parts["test"])
    numbers = task.measure(predictions)
    assert task.score(predictions) == pytest.approx(numbers[task.score_metric])
    assert set(task.shown) <= set(numbers)


def test_unknown_task() -> None:
    with pytest.raises(InputError, match=r"Unknown task 'txt'\. Did you mean 'text'\?"):
        open_task("txt")
