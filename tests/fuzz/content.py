"""Sound files of predictions in every format, written without calibrant."""

import csv
import gzip
import io
import json
from dataclasses import dataclass

import numpy as np

FORMATS = ("csv", "jsonl", "parquet", "npz", "safetensors")


@dataclass
class Content:
    """A few rows of scores with labels and groups."""

    kind: str
    scores: list
    labels: list
    names: list | None
    groups: dict

    @property
    def classes(self):
        return len(self.scores[0])


def some_content(random, *, names=None):
    """Rows that every format can hold exactly."""
    n, classes = random.choice((1, 2, 3, 8, 30)), random.choice((2, 2, 3, 5))
    kind = random.choice(("logits", "probabilities"))
    scores = [[round(random.gauss(0, 2), 3) for _ in range(classes)] for _ in range(n)]
    if kind == "probabilities":
        exponentials = [np.exp(row) for row in scores]
        scores = [(row / row.sum()).tolist() for row in exponentials]
    labels = [random.randrange(classes) for _ in range(n)]
    if random.random() < 0.3:
        labels[random.randrange(n)] = -100 if n > 1 else 0
    groups = {}
    if random.random() < 0.5:
        groups["sentence"] = [i // 3 for i in range(n)]
    if random.random() < 0.3:
        groups["word"] = [random.choice(("a", "Bé", "c d", "O'x")) for _ in range(n)]
    named = random.random() < 0.4 if names is None else names
    all_names = (
        ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"] if random.random() < 0.5 else list("abcde")
    )
    return Content(kind, scores, labels, all_names[:classes] if named else None, groups)


def records(content):
    """One object per row, as jsonl has it."""
    for i, (row, label) in enumerate(zip(content.scores, content.labels, strict=True)):
        scores = row if content.names is None else dict(zip(content.names, row, strict=True))
        yield {
            content.kind: scores,
            "label": label_text(content, label),
            **{name: values[i] for name, values in content.groups.items()},
        }


def label_text(content, label):
    return label if content.names is None or label < 0 else content.names[label]


def table(content):
    """Header and rows, as csv has them."""
    mark, names = ("_", range(content.classes)) if content.names is None else (":", content.names)
    header = [f"{content.kind}{mark}{name}" for name in names] + ["label", *content.groups]
    rows = [
        [
            *map(repr, row),
            str(label_text(content, label)),
            *(str(g[i]) for g in content.groups.values()),
        ]
        for i, (row, label) in enumerate(zip(content.scores, content.labels, strict=True))
    ]
    return header, rows


def csv_bytes(header, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode("utf-8", "surrogatepass")


def jsonl_bytes(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def arrays(content):
    found = {content.kind: np.array(content.scores), "labels": np.array(content.labels)}
    return found | {name: np.array(values) for name, values in content.groups.items()}


def npz_bytes(members, compressed=False, names=None):
    file = io.BytesIO()
    extra = {} if names is None else {"label_names": np.array(names)}
    (np.savez_compressed if compressed else np.savez)(file, **members, **extra)
    return file.getvalue()


def safetensors_parts(content):
    """The header as data, and the bytes after it."""
    types = {"f": "F64", "i": "I64"}
    header, data, texts = {}, b"", {}
    for name, array in arrays(content).items():
        if array.dtype.kind == "U":
            known, array = np.unique(array, return_inverse=True)
            texts[name] = known.tolist()
        place = [len(data), len(data) + array.nbytes]
        header[name] = {
            "dtype": types[array.dtype.kind],
            "shape": list(array.shape),
            "data_offsets": place,
        }
        data += array.tobytes()
    metadata = {"texts": json.dumps(texts)} if texts else {}
    if content.names is not None:
        metadata["label_names"] = json.dumps(content.names)
    return ({"__metadata__": metadata} if metadata else {}) | header, data


def safetensors_bytes(text, data):
    text = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + data


def parquet_bytes(columns, metadata=None, **options):
    """Columns as (name, array) pairs, so that two may have one name."""
    import pyarrow
    from pyarrow import parquet

    made = [pyarrow.array(v) if isinstance(v, (list, np.ndarray)) else v for _, v in columns]
    whole = pyarrow.Table.from_arrays(made, names=[name for name, _ in columns])
    file = io.BytesIO()
    parquet.write_table(whole.replace_schema_metadata(metadata), file, **options)
    return file.getvalue()


def parquet_columns(content):
    groups = list(content.groups.items())
    labels = [label_text(content, label) for label in content.labels]
    if content.names is not None:
        labels = list(map(str, labels))
    return [(content.kind, content.scores), ("label", labels), *groups]


def file_bytes(content, suffix):
    """The content as a file of that format."""
    plain = suffix.removesuffix(".gz")
    if plain == "csv":
        made = csv_bytes(*table(content))
    elif plain == "jsonl":
        made = jsonl_bytes(records(content))
    elif plain == "npz":
        made = npz_bytes(arrays(content), names=content.names)
    elif plain == "safetensors":
        header, data = safetensors_parts(content)
        made = safetensors_bytes(json.dumps(header), data)
    else:
        names = None if content.names is None else {"label_names": json.dumps(content.names)}
        made = parquet_bytes(parquet_columns(content), names)
    return gzip.compress(made, 1) if suffix.endswith(".gz") else made
