"""Every command that writes, with the files that it reads."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from stopping import run

from calibrant import Predictions
from calibrant.calibrators import Temperature
from calibrant.files import write


@dataclass
class Case:
    """A command, what it needs, and how often it is stopped for each hundred kills."""

    name: str
    command: list[str]
    share: int
    before: Callable[[Path], None] = field(default=lambda folder: None)
    fresh: bool = False
    resumes: bool = False  # What has its name may be a part, which the next attempt completes.
    seconds: float = 0.0
    lines: int = 0
    whole: dict[str, str] = field(default_factory=dict)


def prepared(inputs: Path, args: argparse.Namespace) -> list[Case]:
    """The cases, with the files that they read."""
    inputs.mkdir(parents=True)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6000, 5)) * 3
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    valid = Predictions.from_logits(logits, labels, groups={"sentence": np.arange(6000) // 6})
    for suffix in ("parquet", "csv.gz"):
        valid.write(inputs / f"valid.{suffix}")
    write(valid.chunks(1000), inputs / "shards")
    Temperature().fit(valid).save(inputs / "map.json")
    (inputs / "text.txt").write_text("The mayor of Port Tim, Rosa Lind, joined Ford.\n" * 3000)
    table = ["--report", "r.html", "--bootstrap", "20"]
    at = str(inputs)
    cases = [
        Case("fit", ["fit", f"{at}/valid.parquet", "-o", "m.json"], 10),
        Case("fit-fresh", ["fit", f"{at}/valid.parquet", "-o", "m.json"], 12, fresh=True),
        Case(
            "fit-over",
            ["fit", f"{at}/valid.parquet", "-o", "m.safetensors", "--overwrite"],
            6,
            before=lambda folder: (folder / "m.safetensors").write_text("an older map"),
        ),
        Case("apply", ["apply", f"{at}/map.json", f"{at}/valid.parquet", "-o", "p.parquet"], 8),
        Case("apply-gz", ["apply", f"{at}/map.json", f"{at}/valid.csv.gz", "-o", "p.csv.gz"], 5),
        Case("shards", ["apply", f"{at}/map.json", f"{at}/shards", "-o", "out"], 9),
        Case(
            "shards-over",
            ["apply", f"{at}/map.json", f"{at}/shards", "-o", "out", "--overwrite"],
            7,
            before=lambda folder: shutil.copytree(inputs / "shards", folder / "out"),
            resumes=True,
        ),
        Case("audit", ["audit", f"{at}/valid.parquet", *table], 8),
        Case(
            "corrupt",
            ["corrupt", f"{at}/text.txt", "--kind", "typos", "-o", "t.txt"],
            6,
        ),
    ]
    if args.only is None or any(with_torch(name) for name in args.only):
        cases += cases_with_torch(inputs, at)
    return cases


def with_torch(name: str) -> bool:
    return name in (
        "corrupt-images", "train", "train-trainer", "train-fresh", "bench", "predict", "evaluate",
        "report", "report-over",
    )  # fmt: skip


def cases_with_torch(inputs: Path, at: str) -> list[Case]:
    import torch

    torch.set_num_threads(1)
    import PIL.Image

    import calibrant.experiments.evaluation
    import calibrant.experiments.grid
    import calibrant.experiments.trainer_engine
    import calibrant.plots
    import calibrant.study  # noqa: F401

    write_corpus(inputs / "corpus")
    for number in range(12):
        path = inputs / "images" / f"class-{number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(number).integers(0, 255, (24, 24), np.uint8)
        PIL.Image.fromarray(values).save(path)
    tiny = ["--model", "tiny", "--epochs", "2", "--batch", "16", "--head-width", "16", "--device",
            "cpu", "--dtype", "float32", "--bootstrap", "0", "--save-every", "0"]  # fmt: skip
    train = ["train", "--data", f"{at}/corpus", *tiny, "-o", "run"]
    grid = inputs / "grid.toml"
    grid.write_text(
        f'[defaults]\ndata = "{at}/corpus"\nmodel = "tiny"\nepochs = 1\nbatch = 16\n'
        'dtype = "float32"\nhead_width = 16\n[[grid]]\nmethod = ["cross_entropy", "focal"]\n'
        "seed = [0, 1]\n"
    )
    bench = ["bench", str(grid), "-o", "runs", "--device", "cpu", "--workers", "1"]
    run(["train", "--data", f"{at}/corpus", *tiny, "-o", f"{at}/run"], inputs)
    run(["bench", str(grid), "-o", f"{at}/records", "--device", "cpu", "--workers", "1"], inputs)
    (inputs / "texts.txt").write_text("The mayor of Port Tim , Rosa Lind , joined Ford .\n" * 40)
    study = ["report", f"{at}/records", "-o", "out"]
    images = ["corrupt", f"{at}/images", "--kind", "jpeg", "-o", "out"]
    predict = ["predict", f"{at}/run", f"{at}/texts.txt", "-o", "e.jsonl", "--device", "cpu"]
    evaluate = ["evaluate", f"{at}/run", "--corrupt", "typos-1", "--figure", "f.svg", "--device",
                "cpu"]  # fmt: skip
    return [
        Case("corrupt-images", images, 6),
        Case("predict", predict, 6),
        Case("evaluate", evaluate, 4),
        Case("report", study, 6),
        Case(
            "report-over",
            [*study, "--overwrite"],
            5,
            before=lambda folder: older_report(folder / "out"),
            resumes=True,
        ),
        Case("train", train, 12, resumes=True),
        Case("train-trainer", [*train, "--engine", "trainer"], 4, resumes=True),
        Case("train-fresh", train, 1, resumes=True, fresh=True),
        Case("bench", bench, 3, resumes=True),
    ]


def write_corpus(folder: Path) -> None:
    from calibrant.tasks.language.synthetic import generate_splits

    folder.mkdir()
    for split, sentences in generate_splits(0, train=64, dev=32, test=24, ood=0).items():
        blocks = (
            "".join(f"{word}\t{tag}\n" for word, tag in zip(s.words, s.tags, strict=True))
            for s in sentences
        )
        if sentences:
            (folder / f"{split}.conll").write_text("\n".join(blocks))


def older_report(folder: Path) -> None:
    (folder / "tables").mkdir(parents=True)
    for name in ("index.html", "tables/stale.csv"):
        (folder / name).write_text("older")
    (folder / "study.json").write_text(json.dumps({"files": ["tables/stale.csv"]}))
