"""Cases around arguments, file names, things that are not files, and folders of runs."""

import json
import os
import shutil
from pathlib import Path

from content import file_bytes, some_content
from families_predictions import nothing_left
from nasty import as_bytes, mutate_bytes, mutated_json

RUN = "CALIBRANT_FUZZ_RUN"  # Where a sound run is that folders of runs are made from.

_WORDS = (
    "", " ", "-1", "0", "1", "2", "2.5", "nan", "inf", "-inf", "1e400", "9" * 30, "9" * 5000, "abc",
    "é", "\udcff", "\ud800", "\x1b[31m", "a\nb", "a,b", ",", "*", "**", "[", "?", "~", ".", "..",
    "/dev/null", "/dev/zero", "/nowhere/x", "x" * 300, "--", "-", "none", "auto", "label", "logits",
    "p_*", "logits_*", "{}", "null", "true", "0x10", "1_000", "²", "\u2028",
)  # fmt: skip
_OPTIONS = {
    "audit": ("--bins", "--closed", "--bootstrap", "--level", "--keep-together", "--reduction",
              "--sample", "--seed", "--kind", "--logits-column", "--probabilities-column",
              "--label-column", "--group-columns", "--labels", "--calibrator", "--report"),
    "fit": ("--calibrator", "--set", "--kind", "--logits-column", "--label-column",
            "--group-columns"),
    "compare": ("--calibrators", "--folds", "--bins", "--seed", "--kind", "--label-column"),
    "corrupt": ("--kind", "--strength", "--seed", "--layout", "--column", "--split", "--device"),
    "report": ("--by", "--baseline", "--metrics", "--calibrators"),
    "list": ("--json",),
}  # fmt: skip
# What calibrators may be asked for with --set, and what none of them knows.
_SETTINGS = (
    "bins", "equal", "floor", "models", "ridge", "shrinkage", "off_diagonal", "intercept",
    "most_classes", "keep_prediction", "spread", "fewest", "knots", "edges", "x",
)  # fmt: skip
_ODD_NAMES = (
    "a b", "é", "\x1b[31m", "a\nb", "\udcff", "-x", "[a]", "*", "x" * 200, "{where}", "%s",
)  # fmt: skip
_NOWHERE = ("/dev/zero", "/dev/null", "/dev/full", "/nowhere", ".", "/proc/self/mem")
_METHODS = (
    "temperature", "histogram", "histogram-top-label", "bbq", "beta", "isotonic", "vector",
    "matrix", "dirichlet", "spline", "platt", "ensemble-temperature", "position-temperature",
    "type-temperature",
)  # fmt: skip


def arguments(random, folder, run):
    """A command on sound files with odd arguments."""
    content = some_content(random)
    path, out = folder / "p.npz", folder / "out.json"
    path.write_bytes(file_bytes(content, "npz"))
    command = random.choice(
        (*_OPTIONS, "audit", "fit", "fit", "apply", "train", "predict", "evaluate")
    )
    words = [command]
    if command in ("audit", "fit"):
        words.append(str(path))
    elif command == "compare":
        words += [str(path), str(path), "--bootstrap", "0"]
    elif command == "corrupt":
        words += [str(path), "-o", str(folder / "out.npz")]
    elif command == "list":
        words.append(random.choice(("methods", "calibrators", "tasks", "noises", *_WORDS)))
    elif command == "apply":
        words += [str(folder / "none.json"), str(path), "-o", str(out)]
    elif command in ("predict", "evaluate"):
        words += [str(folder / "none"), random.choice(_WORDS)]
    elif command == "train":
        words += ["--data", str(folder / "none"), "-o", str(folder / "run")]
    else:
        words.append(str(folder))
    if command == "fit":
        words += ["-o", str(out)]
    if command == "fit" and random.random() < 0.7:
        value = random.choice((*_WORDS, "[1]", "[1, 2]", "1e15", "Infinity", "[" * 100_000))
        setting = f"{random.choice(_SETTINGS)}={value}"
        words += ["--calibrator", random.choice(_METHODS), "--set", setting]
    else:
        for _ in range(random.choice((0, 1, 1, 2))):
            option = random.choice((*_OPTIONS.get(command, ()), "--seed", "--nonsense"))
            words += [option, random.choice(_WORDS)]
        if random.random() < 0.2:
            words.insert(random.randrange(len(words) + 1), random.choice(_WORDS))
    if command == "audit" and "--bootstrap" not in words:
        words += ["--bootstrap", "0"]
    run(words)


def special_files(random, folder, run):
    """Files that are none: pipes, devices, folders, links to nowhere, odd names."""
    sound = folder / "sound.csv"
    sound.write_bytes(file_bytes(some_content(random), "csv"))
    name = random.choice(("p.csv", "p.jsonl", "p.npz", "p.parquet", "p.safetensors", "p.csv.gz"))
    path = folder / name
    kind = random.randrange(8)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(path)
    elif kind == 2:
        path.symlink_to(random.choice(_NOWHERE))
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.touch()
    elif kind == 5:
        path = folder / f"{random.choice(_ODD_NAMES)}.csv"
        path.write_bytes(sound.read_bytes())
    elif kind == 6:
        path = folder / "sound.csv" / name  # Below a file.
    else:
        path = folder / ("x" * 300 + ".csv")
    pattern = random.choice(
        (path, path, path, folder / "*.csv", folder / "**", folder / "**" / "*")
    )
    audit = ["audit", str(sound), "--bootstrap", "0"]
    command = random.choice(
        (
            ["audit", "--bootstrap", "0"],
            ["fit", "-o", str(folder / "m.json")],
            ["report"],
            ["bench", "--dry-run", "-o", str(folder / "r")],
            [*audit, "--labels"],
            [*audit, "--calibrator"],
            ["corrupt", "--kind", "typos", "-o", str(folder / "o.csv")],
        )
    )
    run([*command, str(pattern)])


def run_folders(random, folder, run):
    """predict and evaluate of a run's folder in which something is damaged or missing."""
    run_path = folder / "run"
    shutil.copytree(Path(os.environ[RUN]), run_path)
    files = sorted(path for path in run_path.rglob("*") if path.is_file())
    for _ in range(random.choice((1, 1, 2))):
        path = random.choice(files)
        kind = random.randrange(4)
        if not path.exists():
            continue
        if kind == 0:
            path.unlink()
        elif kind == 1 and path.suffix == ".json":
            try:
                path.write_bytes(as_bytes(mutated_json(random, json.loads(path.read_bytes()))))
            except ValueError:
                path.unlink()
        elif kind == 2:
            path.write_bytes(b"")
        else:
            path.write_bytes(mutate_bytes(random, path.read_bytes()))
    out = folder / "out.jsonl"
    if random.random() < 0.8:
        outcome = run(
            [
                "predict",
                str(run_path),
                "Rosa Lind moved to Paris .",
                "-o",
                str(out),
                "--device",
                "cpu",
            ]
        )
        nothing_left(folder, outcome, out)
    else:
        run(["evaluate", str(run_path), "--device", "cpu", "--json"])
