"""Scores of fine-tuned encoders and image networks, for ``map_study.py --scores``.

python benchmarks/encoder_scores.py -o SCORES [--only conll2003 cifar10-resnet18] [--jobs 3]

Trains MiniLM on five NER corpora, CLINC150 and 20 Newsgroups, and three networks on CIFAR-10, by
``calibrant train``, and writes for each SCORES/NAME/valid.npz and test.npz: logits in float16, the
labels and groups. A run that is finished is not trained again.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from calibrant import Predictions

TAGS = "--model minilm --epochs 6 --batch 32 --learning-rate 1e-4 --dtype tf32"
CLINC = "--task text --model minilm --epochs 6 --batch 64 --learning-rate 2e-4 --max-length 64"
NEWS = "--task text --model minilm --epochs 3 --batch 32 --learning-rate 1e-4 --max-length 128"
IMAGES = "--task image --data cifar10 --batch 512 --warm-up 0.2 --augment crop+flip --compile"
CORPORA = ("conll2003", "gum", "ncbi-disease", "wikiann-en", "wnut17")
# The longest first: the others then fill the waiting jobs.
RUNS = {
    "cifar10-wide_resnet50_2": f"{IMAGES} --model wide_resnet50_2 --epochs 12 --learning-rate 0.4",
    "clinc150": f"--data clinc150 {CLINC} --dtype tf32",
    "20newsgroups": f"--data 20newsgroups {NEWS} --dtype tf32",
    **{name: f"--data {name} {TAGS}" for name in CORPORA},
    "cifar10-resnet18": f"{IMAGES} --model resnet18 --epochs 15 --learning-rate 0.4",
    "cifar10-lenet": f"{IMAGES} --model lenet --epochs 15 --learning-rate 0.1",
}


def train(name, runs, extra):
    """Call ``calibrant train``; its log is RUNS/NAME.log."""
    command = [sys.executable, "-m", "calibrant", "train", *RUNS[name].split(), *extra]
    command += ["--calibrator", "temperature", "--bootstrap", "100", "-o", str(runs / name)]
    with (runs / f"{name}.log").open("w") as log:
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode


def keep(run, folder):
    """Write the logits of both splits in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("valid", "test"):
        found = Predictions.read(next(run.glob(f"{split}.*")))
        short = found.with_scores(found.scores.astype(np.float16), "logits")
        short.write(folder / f"{split}.npz", overwrite=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--jobs", type=int, default=3, help="runs at a time (3)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("extra", nargs="*", help="after --: options of calibrant train")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)

    def one(name):
        code = train(name, args.runs, args.extra)
        if code == 0:
            keep(args.runs / name, args.output / name)
        print(f"{name}: {'done' if code == 0 else f'exit code {code}, see its log'}", flush=True)
        return code

    with ThreadPoolExecutor(args.jobs) as pool:
        sys.exit(max(pool.map(one, args.only)))


if __name__ == "__main__":
    main()
