"""Cases around calibrators, recipes, records, corpora and label names."""

import functools
import json
from pathlib import Path

import numpy as np
from content import csv_bytes, file_bytes, npz_bytes, some_content
from families_predictions import nothing_left
from hostile_arrays import changed_flags
from nasty import CELLS, NAMES, VALUES, as_bytes, mutate_bytes, mutated_json
from oracles import call

RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "pilot-methods.jsonl"


@functools.lru_cache
def _tags():
    """Sound predictions of tags, for calibrators of every kind."""
    from calibrant import Predictions

    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    logits = random.normal(size=(200, 3)) + 2 * np.eye(3)[labels]
    groups = {"sentence": np.arange(200) // 5, "position": np.arange(200) % 5}
    return Predictions.from_logits(logits, labels, label_names=["O", "B-X", "I-X"], groups=groups)


@functools.lru_cache
def _maps(folder=None):
    """A sound calibrator of every kind, as data, and as the bytes of a safetensors file."""
    import tempfile
    import warnings

    from calibrant.calibrators import CALIBRATORS

    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, entry in CALIBRATORS.items():
            for suffix in ("json", "safetensors"):
                path = Path(folder) / f"{name}.{suffix}"
                entry.calibrator().fit(_tags()).save(path)
                found.append((suffix, path.read_bytes()))
    return found


def maps(random, folder, run):
    """apply, or audit --calibrator, of a damaged file."""
    suffix, data = random.choice(_maps())
    if suffix == "json" and random.random() < 0.8:
        data = as_bytes(mutated_json(random, json.loads(data), random.choice((1, 1, 2))))
    else:
        data = mutate_bytes(random, data)
    path, predictions, out = folder / f"m.{suffix}", folder / "p.npz", folder / "o.npz"
    path.write_bytes(data)
    _tags()[:20].write(predictions)
    if random.random() < 0.5:
        nothing_left(folder, run(["apply", str(path), str(predictions), "-o", str(out)]), out)
    else:
        run(["audit", str(predictions), "--calibrator", str(path), "--bootstrap", "0", "--json"])


_TOML = (
    "1", "-1", "1.5", "nan", "inf", "true", '""', '"a"', '"gum"', "[]", "[1, 2]", '["a", "a"]',
    "[[]]", "{}", "{a = 1}", "{a = nan}", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00",
    "9" * 400, "0x7fffffffffffffffffff", "[" * 100_000, '"\\u0000"', "[[1], [2]]", "''''''",
    "{a = {b = {c = 1979-05-27}}}", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", '"focal"', '["identity"]',
)  # fmt: skip
_KEYS = (
    "data", "model", "method", "method_options", "head_width", "head_depth", "seed", "epochs",
    "batch", "learning_rate", "warm_up", "dtype", "task", "engine", "accumulate", "shift",
    "measure", "calibrator", "optimizer", "momentum", "augment", "image_size", "variant", "sede",
    "patience",
)  # fmt: skip


_TABLES = (
    ["[defaults]"], ["[[grid]]"], ["[defaults]", "[[grid]]"], ["[grid]"], ["grid = 1"], ["[other]"],
    ["[defaults]", "[[grid]]", "[[grid]]"],
)  # fmt: skip


def recipes(random, folder, run):
    """bench --dry-run of recipes with odd values."""
    lines = []
    for title in random.choice(_TABLES):
        lines.append(title)
        for key in random.sample(_KEYS, random.randrange(6)):
            lines.append(f"{key} = {random.choice(_TOML)}")
    data = "\n".join(lines).encode()
    path = folder / "r.toml"
    path.write_bytes(mutate_bytes(random, data) if random.random() < 0.3 else data)
    run(["bench", str(path), "-o", str(folder / "runs"), "--dry-run"])


@functools.lru_cache
def _records():
    return [json.loads(line) for line in RECORDS.read_text().splitlines()[:12]]


def records(random, folder, run):
    """report of records with odd values."""
    some = random.sample(_records(), random.choice((1, 2, 4)))
    texts = [json.dumps(record) for record in some]
    at = random.randrange(len(texts))
    texts[at] = mutated_json(random, some[at], random.choice((1, 1, 2)))
    if random.random() < 0.5:
        data, path = as_bytes("\n".join(texts)), folder / "r.jsonl"
    else:
        data, path = as_bytes(texts[at]), folder / "r.json"
    path.write_bytes(mutate_bytes(random, data) if random.random() < 0.2 else data)
    arguments = ["report", str(path if random.random() < 0.7 else folder)]
    run([*arguments, "--json"] if random.random() < 0.7 else arguments)


_CONLL = "-DOCSTART- O\n\nAnna NNP B-PER\nsings VBZ O\n\nBerlin\tB-LOC\nNew\tB-LOC\nYork\tI-LOC\n"
_SENTENCES = (
    {"tokens": ["Anna", "sings"], "tags": ["B-PER", "O"]},
    {"text": "Anna sings", "entities": [{"start": 0, "end": 4, "label": "PER"}]},
    {"text": "a fine day", "label": "good"},
    {"words": ["U.N."], "ner_tags": ["S-ORG"]},
)
_INTENTS = {
    "train": [["hello", "greet"], ["bye", "leave"]],
    "val": [["hi", "greet"]],
    "test": [["ciao", "leave"]],
    "oos_test": [["xyz", "oos"]],
}
_LINES = ("", "a", "a b", "\t", "a\tB", "a\tB-", "a\tX-Y", " O", "a\tO\tO")


def _corpus(random):
    """The name of a file and its bytes."""
    kind = random.randrange(6)
    if kind == 0:
        lines = _CONLL.split("\n")
        for _ in range(random.randrange(3)):
            cell = random.choice(CELLS[:36])
            lines[random.randrange(len(lines))] = random.choice(
                (*_LINES, f"{cell}\tO", f"a\t{cell}")
            )
        return "conll", as_bytes("\n".join(lines))
    if kind in (1, 2):
        some = [random.choice(_SENTENCES) for _ in range(3)]
        lines = [json.dumps(record) for record in some]
        lines[1] = mutated_json(random, some[1])
        return "jsonl", as_bytes("\n".join(lines))
    if kind == 3:
        texts, labels = (*CELLS, "fine", "day"), (*CELLS, "a", "b")
        rows = [[random.choice(texts), random.choice(labels)] for _ in range(4)]
        header = random.choice((["text", "label"], ["text", "text"], ["a", "b"]))
        return "csv", csv_bytes(header, rows)
    if kind == 4:
        return "json", as_bytes(mutated_json(random, _INTENTS))
    images = np.zeros((4, 3, 3), random.choice((np.uint8, np.uint8, np.float64)))
    labels = np.array(random.choice(([0, 1, 0, 1], [0, 1, 0, 1], "a", [], [0], [[0]] * 4)))
    made = npz_bytes({"train_images": images, "train_labels": labels, "test_images": images})
    return "npz", changed_flags(random, made) if random.random() < 0.3 else made


def corpora(random, folder, run):
    """corrupt of a corpus, and what reads it for training."""
    from calibrant.tasks.image.pictures import load_pictures
    from calibrant.tasks.ner.corpus import load_corpus, load_test
    from calibrant.tasks.text.corpus import load_texts

    suffix, data = _corpus(random)
    data = mutate_bytes(random, data) if random.random() < 0.4 else data
    path = folder / f"train.{suffix}"
    path.write_bytes(data)
    if suffix != "npz":
        (folder / f"test.{suffix}").write_bytes(data)
    if suffix == "npz" and random.random() < 0.5:
        out = folder / "out.npz"
        words = ["corrupt", str(path), "--kind", "jpeg", "-o", str(out)]
        nothing_left(folder, run(words), out)
    elif random.random() < 0.4 and suffix != "npz":
        kind = random.choice(("typos", "ocr", "upper-case", "dropped-words", "gaussian-noise"))
        out = folder / f"out.{suffix}"
        nothing_left(folder, run(["corrupt", str(path), "--kind", kind, "-o", str(out)]), out)
    elif suffix == "npz":
        call(lambda: load_pictures(str(path)))
    elif suffix in ("csv", "json"):
        call(lambda: load_texts(str(path)))
    else:
        call(lambda: random.choice((load_corpus, load_texts))(str(folder)))
        call(lambda: load_test(str(path)))


def label_names(random, folder, run):
    """audit --labels of an odd file of label names."""
    content = some_content(random, names=True)
    (folder / "p.npz").write_bytes(file_bytes(content, "npz"))
    suffix = random.choice(("txt", "json"))
    names = content.names
    if suffix == "json":
        config = {"id2label": {str(k): name for k, name in enumerate(names)}}
        data = as_bytes(mutated_json(random, random.choice((names, config))))
    else:
        data = as_bytes("\n".join([*names[:-1], random.choice((*CELLS, *NAMES, *VALUES[:30]))]))
    path = folder / f"names.{suffix}"
    path.write_bytes(mutate_bytes(random, data) if random.random() < 0.3 else data)
    run(["audit", str(folder / "p.npz"), "--labels", str(path), "--bootstrap", "0"])
