"""Cases around files of predictions: hostile ones, the same in all formats, and damaged ones."""

import gzip
import json

import numpy as np
from content import FORMATS, file_bytes, some_content
from hostile_arrays import hostile_npz, hostile_safetensors
from hostile_tables import hostile_csv, hostile_jsonl, hostile_parquet
from nasty import mutate_bytes
from oracles import FailureError, call, same_numbers, strict_json

HOSTILE = {
    "csv": hostile_csv,
    "jsonl": hostile_jsonl,
    "parquet": hostile_parquet,
    "npz": hostile_npz,
    "safetensors": hostile_safetensors,
}


def hostile_file(format_):
    """A case: some command on a file of that format with something odd in it."""

    def case(random, folder, run):
        content = some_content(random)
        data, suffix = HOSTILE[format_](random, content)
        path = folder / f"p.{suffix}"
        path.write_bytes(data)
        command = random.choice(("audit", "audit", "audit", "audit", "fit", "apply", "compare"))
        if command == "audit":
            run(_audit(random, path))
        elif command == "fit":
            method = random.choice(("temperature", "vector", "histogram", "isotonic-top-label"))
            out = folder / "m.json"
            outcome = run(["fit", str(path), "--calibrator", method, "-o", str(out)])
            nothing_left(folder, outcome, out)
        elif command == "apply":
            (folder / "m.json").write_text(json.dumps(identity(content.classes)))
            out = folder / f"out.{suffix}"
            outcome = run(["apply", str(folder / "m.json"), str(path), "-o", str(out)])
            nothing_left(folder, outcome, out)
        else:
            sound = folder / "sound.npz"
            sound.write_bytes(file_bytes(content, "npz"))
            pair = [str(path), str(sound)]
            random.shuffle(pair)
            run(["compare", *pair, "--calibrators", "identity,temperature", "--bootstrap", "0"])

    return case


def _audit(random, path):
    arguments = ["audit", str(path), "--bootstrap", random.choice(("0", "0", "0", "20"))]
    for share, *option in (
        (0.5, "--json"),
        (0.1, "--kind", "logits"),
        (0.1, "--keep-together", "none"),
        (0.1, "--group-columns", ""),
        (0.03, "--labels", str(path)),
    ):
        arguments += option if random.random() < share else []
    return arguments


def identity(classes):
    """A calibrator that leaves scores as they are."""
    return {
        "signature": "calibrant calibrator", "format": 1, "version": "0", "method": "identity",
        "hyperparameters": {}, "classes": classes, "label_names": None, "fell_back": False,
        "fitted_on": {}, "learned": {},
    }  # fmt: skip


def nothing_left(folder, outcome, out):
    """A command that refuses leaves no output, and none that is half done."""
    hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    if hidden or (outcome.refused and out.exists()):
        raise FailureError("nothing left", f"{hidden}, {out.name} there: {out.exists()}")


def agreement(random, folder, run):
    """The same content as csv, jsonl, parquet, npz and safetensors gives the same audit."""
    content, found = some_content(random), {}
    replicates = random.choice(("0", "0", "0", "20"))
    for suffix in (*FORMATS, random.choice(("csv.gz", "jsonl.gz"))):
        path = folder / f"p.{suffix}"
        path.write_bytes(file_bytes(content, suffix))
        outcome = run(["audit", str(path), "--bootstrap", replicates, "--json"])
        if outcome.refused:
            raise FailureError("sound files are read", outcome.err)
        found[suffix] = _numbers(outcome.out)
    for suffix, numbers in found.items():
        if where := same_numbers(found["npz"], numbers):
            raise FailureError("formats agree", f"npz and {suffix}: {where}")


def _numbers(text):
    """The document without what names files and time."""
    document = strict_json(text)
    for audit in document.values():
        if isinstance(audit, dict):
            audit.pop("provenance", None)
    return document


def two_readers(format_):
    """A case: pyarrow's reader and the plain one give the same of a hostile csv or jsonl."""

    def case(random, folder, run):
        from calibrant.files import arrow_text, read, stream

        content = some_content(random)
        data, suffix = HOSTILE[format_](random, content)
        path = folder / f"p.{suffix}"
        path.write_bytes(data)
        rows = random.choice((None, 1, 2, 7))

        def whole():
            return read(path) if rows is None else list(stream(path, rows=rows))

        quick = _outcome(call(whole))
        there, arrow_text.find_spec = arrow_text.find_spec, lambda _: None
        try:
            plain = _outcome(call(whole))
        finally:
            arrow_text.find_spec = there
        if repr(quick) != repr(plain):  # NaN is not NaN, but its name is.
            raise FailureError("readers agree", f"{quick!r:.400} and {plain!r:.400}")

    return case


def _outcome(found):
    parts, refused = found
    if refused is not None:
        return refused
    parts = parts if isinstance(parts, list) else [parts]
    return [
        (p.kind, p.label_names, p.ignored, p.scores.tolist(), p.labels.tolist(),
         {name: column.tolist() for name, column in p.groups.items()})
        for p in parts
    ]  # fmt: skip


def damage(random, folder, run):
    """A file with checksums that is damaged gives what the sound one gave, or is refused."""
    from calibrant import Predictions

    content = some_content(random)
    suffix = random.choice(("npz", "parquet", "csv.gz", "jsonl.gz"))
    path = folder / f"p.{suffix}"
    if suffix.endswith("gz"):
        path.write_bytes(file_bytes(content, suffix))
    else:
        make = (
            Predictions.from_logits if content.kind == "logits" else Predictions.from_probabilities
        )
        make(np.array(content.scores), np.array(content.labels), label_names=content.names,
             groups={n: np.array(v) for n, v in content.groups.items()}).write(path)  # fmt: skip
    arguments = ["audit", str(path), "--bootstrap", "0", "--json"]
    sound = run(arguments)
    if sound.refused:
        raise FailureError("sound files are read", sound.err)
    data = path.read_bytes()
    path.write_bytes(
        _flipped(random, data) if random.random() < 0.6 else mutate_bytes(random, data)
    )
    found = run(arguments)
    if found.refused:
        return
    documents = [_numbers(outcome.out)["audit"] for outcome in (sound, found)]
    if suffix == "parquet":  # Its pages have checksums; the footer, with the names, has none.
        documents = [{"measures": document["measures"]} for document in documents]
    if where := same_numbers(*documents):
        raise FailureError("damage is noticed", f"{suffix}: {where}")


def _flipped(random, data):
    data = bytearray(data)
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def truncated_text(random, folder, run):
    """A text file that ends early never has more examples than the whole one."""
    content = some_content(random)
    suffix = random.choice(("csv", "jsonl"))
    path = folder / f"p.{suffix}"
    data = file_bytes(content, suffix)
    path.write_bytes(data[: random.randrange(len(data))])
    outcome = run(["audit", str(path), "--bootstrap", "0", "--json"])
    if outcome.code == 0:
        n = strict_json(outcome.out)["audit"]["provenance"]["n"]
        if n > sum(label >= 0 for label in content.labels):
            raise FailureError("damage is noticed", f"{n} examples of {len(content.labels)}")


def gzip_bomb(random, folder, run):
    """What unpacks to far more than its size is refused, soon."""
    path = folder / "p.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"logits_0,logits_1,label\n")
        line = b"1,2,0\n" if random.random() < 0.5 else b"1"
        file.write(line * random.choice((1 << 10, 1 << 17)))
    run(["audit", str(path), "--bootstrap", "0"])
