"""Every task keeps one contract, on its tiny form: it loads, collates, and its model learns."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calibrant.errors import InputError  # noqa: E402
from calibrant.predictions import IGNORED  # noqa: E402
from calibrant.tasks.task import TASKS, Task, open_task  # noqa: E402
from calibrant.training.head import find_head  # noqa: E402
from calibrant.training.head_hook import logits_of  # noqa: E402


@pytest.fixture(scope="module", params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return open_task(request.param, tiny=True)


def test_is_a_task(task: Task) -> None:
    assert isinstance(task, Task)
    assert len(set(task.labels)) == len(task.labels) > 1
    assert all(isinstance(note, str) for note in task.notes)


@pytest.mark.parametrize("split", ["train", "dev", "test", "ood"])
def test_labels_are_classes_or_ignored(task: Task, split: str) -> None:
    examples = task.load(split)
    assert len(examples) >= 10
    batch = task.collate([examples[i] for i in range(len(examples))])
    labels = batch["labels"]
    assert labels.dtype == torch.long
    assert len(labels) == len(examples)
    kept = labels[labels != IGNORED]
    assert kept.min() >= 0
    assert kept.max() < len(task.labels)
    assert len(kept) >= len(examples)


def test_unknown_split(task: Task) -> None:
    with pytest.raises(InputError, match=r"Unknown split 'tset'\. Did you mean 'test'\?"):
        task.load("tset")


def test_seed_decides_data_and_weights(task: Task) -> None:
    kind = next(name for name, made in TASKS.items() if isinstance(task, made))
    again, other = open_task(kind, tiny=True), open_task(kind, tiny=True, seed=1)
    first, same, different = (
        t.collate([t.load("train")[0]])["labels"].tolist()
        + [v.tolist() for k, v in t.collate([t.load("train")[0]]).items() if k != "labels"]
        for t in (task, again, other)
    )
    assert first == same != different
    one, two, three = (task.build_model(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], three[name]) for name in one)


def test_model_learns_its_training_data(task: Task) -> None:
    examples = task.load("train")
    batch = task.collate([examples[i] for i in range(32)])
    labels = batch.pop("labels")
    model = task.build_model()
    assert find_head(model)[0] == "classifier"
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(40):
            optimizer.zero_grad()
            logits = logits_of(model(**batch))
            assert logits.shape == (*labels.shape, len(task.labels))
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
            loss.backward()
            optimizer.step()
    right = (logits.argmax(-1) == labels)[labels != IGNORED].float().mean()
    assert right > 0.9


def test_unknown_task() -> None:
    with pytest.raises(InputError, match=r"Unknown task 'txt'\. Did you mean 'text'\?"):
        open_task("txt")
