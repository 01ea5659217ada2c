"""One small finished run of each task, trained once."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The folder of a run by the name of its task; each is trained when it is first used."""
    pytest.importorskip("transformers")
    return Runs(tmp_path_factory.mktemp("runs"))


class Runs:
    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, task):
        from calibrant.experiments.recipe import Recipe
        from calibrant.experiments.run import train
        from calibrant.tasks import task_of

        if not (self.folder / task).exists():
            make, settings = SETTINGS[task]
            data = make if isinstance(make, str) else str(make(self.folder / f"{task}-data"))
            settings = {**settings, "data": data, "head_depth": 0, "head_width": 8}
            recipe = Recipe(**{"task": task, **task_of(task).defaults, **settings})
            train(recipe, self.folder / task, device="cpu", bootstrap=0)
        return self.folder / task


def sentences(folder):
    """A few generated sentences with tags."""
    from calibrant.tasks.language.synthetic import generate_splits

    folder.mkdir()
    for split, part in generate_splits(0, train=120, dev=60, test=20, ood=0).items():
        blocks = (
            "".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) for s in part
        )
        if part:
            (folder / f"{split}.conll").write_text("\n".join(blocks))
    return folder


def texts(folder):
    """Three classes whose texts share a few words."""
    random = np.random.default_rng(0)
    words = {"food": "bread soup apple rice", "sport": "ball goal team race", "rain": "wet cloud"}
    folder.mkdir()
    for split, count in (("train", 120), ("dev", 60), ("test", 30)):
        with (folder / f"{split}.csv").open("w") as file:
            file.write("text,label\n")
            for number in range(count):
                label = list(words)[number % 3]
                other = list(words)[random.integers(3)]
                chosen = [
                    *random.choice(words[label].split(), 2),
                    random.choice(words[other].split()),
                ]
                file.write(f"the {' '.join(chosen)} of today,{label}\n")
    return folder


def masks(folder):
    """Bright squares on dark ground, with their masks."""
    pillow = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 6), ("test", 4)):
        for part in ("images", "masks"):
            (folder / split / part).mkdir(parents=True)
        for number in range(count):
            mask = np.zeros((16, 20), np.uint8)
            y, x = random.integers(0, 10, 2)
            mask[y : y + 6, x : x + 6] = 1
            image = random.integers(0, 120, (16, 20, 3)) + 100 * mask[..., None]
            for part, values in (("images", image), ("masks", mask)):
                pillow.fromarray(values.astype(np.uint8)).save(
                    folder / split / part / f"{number}.png"
                )
    return folder


SETTINGS = {
    "ner": (sentences, {"model": "tiny", "epochs": 6, "learning_rate": 5e-3, "batch": 16}),
    "text": (texts, {"model": "tiny", "epochs": 3, "learning_rate": 3e-3}),
    "image": ("digits", {"model": "lenet", "epochs": 6}),
    "segmentation": (masks, {"epochs": 3}),
}
