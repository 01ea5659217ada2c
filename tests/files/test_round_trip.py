"""Written data is read back, in every format, at once, in chunks and from shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calibrant import Predictions
from calibrant.calibrators import Identity
from calibrant.files import read, rewrite, stream, suffixes, write
from calibrant.files.lines import CsvWriter, csv_records, text_file

TEXT = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".jsonl",
    ".jsonl.gz",
)  # Their numbers come back as float64.

NAMES = ["O", "B-PER", 'a "quoted", name', "naïve\nname: 3 ", "7"]
GROUPS = {
    "sentence": np.arange(23) // 4,
    "mass": np.linspace(0, 1, 23),
    "document": np.array([f"d,{i // 9} 'ü'\n\"" for i in range(23)]),
    "long": np.array([str(i) * 70 for i in range(23)], dtype=object),
}


WEIGHTS = np.linspace(0.5, 3, 23)
SIGNALS = {"pieces": np.arange(23) % 5, "log odds, 1": np.linspace(-9, 1e9, 23)}


def make(kind: str, dtype: str = "float32", n: int = 23, **options: object) -> Predictions:
    rng = np.random.default_rng(n)
    logits = rng.normal(size=(n, 5))
    labels = rng.integers(0, 5, n)
    if kind == "logits":
        return Predictions.from_logits(logits.astype(dtype), labels, **options)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return Predictions.from_probabilities(p.astype(dtype), labels, **options)


def assert_same(a: Predictions, b: Predictions, *, dtype: bool = True) -> None:
    assert (a.kind, a.label_names) == (b.kind, b.label_names)
    assert np.array_equal(a.scores, b.scores)
    assert not dtype or a.scores.dtype == b.scores.dtype
    assert np.array_equal(a.labels, b.labels)
    assert list(a.groups) == list(b.groups)
    assert list(a.signals) == list(b.signals)
    assert (a.weights is None) == (b.weights is None)
    assert a.weights is None or a.weights.tolist() == b.weights.tolist()
    for name in a.signals:
        assert a.signals[name].tolist() == b.signals[name].tolist()
        assert a.signals[name].dtype.kind == "f"
    for name in a.groups:
        assert a.groups[name].tolist() == b.groups[name].tolist()
        assert a.groups[name].dtype == b.groups[name].dtype or a.groups[name].dtype.kind in "OU"


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["plain", "groups"])
@pytest.mark.parametrize("names", [None, NAMES], ids=["numbers", "names"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("suffix", suffixes())
def test_round_trip(
    tmp_path: Path, suffix: str, kind: str, dtype: str, names: object, groups: object
) -> None:
    predictions = make(kind, dtype, label_names=names, groups=groups)
    path = tmp_path / f"p{suffix}"
    predictions.write(path)
    assert_same(read(path), predictions, dtype=suffix not in TEXT)
    assert_same(Predictions.read(path), read(path))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("rows", [1, 2, 7, 22, 23, 1000])
@pytest.mark.parametrize("suffix", suffixes())
def test_chunk_size_does_not_matter(tmp_path: Path, suffix: str, rows: int) -> None:
    predictions = make("logits", label_names=NAMES, groups=GROUPS, signals=SIGNALS, weights=WEIGHTS)
    path = tmp_path / f"p{suffix}"
    predictions.write(path)
    chunks = list(stream(path, rows=rows))
    assert max(map(len, chunks)) <= rows
    assert_same(Predictions.concatenate(chunks), predictions, dtype=suffix not in TEXT)


@pytest.mark.parametrize("suffix", suffixes())
def test_several_files_are_read_as_one(tmp_path: Path, suffix: str) -> None:
    predictions = make(
        "probabilities", label_names=NAMES, groups=GROUPS, signals=SIGNALS, weights=WEIGHTS
    )
    paths = [tmp_path / f"p{i}{suffix}" for i in range(4)]
    for path, part in zip(paths, predictions.chunks(6), strict=True):
        part.write(path)
    assert_same(read(paths), predictions, dtype=suffix not in TEXT)
    assert_same(read(str(tmp_path / f"p*{suffix}")), read(paths))


@pytest.mark.parametrize("suffix", suffixes())
def test_a_stream_is_written_as_the_whole(tmp_path: Path, suffix: str) -> None:
    predictions = make("logits", label_names=NAMES, groups=GROUPS, signals=SIGNALS, weights=WEIGHTS)
    write(predictions, tmp_path / f"whole{suffix}")
    write(predictions.chunks(5), tmp_path / f"parts{suffix}")
    assert_same(read(tmp_path / f"parts{suffix}"), read(tmp_path / f"whole{suffix}"))


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    predictions = make("logits", "float64", label_names=NAMES, groups=GROUPS)
    paths = [tmp_path / f"p{i}{suffix}" for i, suffix in enumerate(suffixes())]
    for path in paths:
        predictions.write(path)
    assert_same(read(paths), Predictions.concatenate([predictions] * len(paths)))


@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
@pytest.mark.parametrize("suffix", suffixes())
def test_any_values_come_back(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 5))
    floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
    logits = data.draw(arrays.arrays(np.float32, (n, k), elements=floats))
    labels = data.draw(arrays.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
    names = data.draw(st.none() | st.lists(text, min_size=k, max_size=k, unique=True))
    group = data.draw(
        st.lists(text, min_size=n, max_size=n)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n)
    )
    predictions = Predictions.from_logits(logits, labels, label_names=names, groups={"g": group})
    path = tmp_path / f"p{suffix}"
    predictions.write(path, overwrite=True)
    found = read(path)
    assert np.array_equal(found.scores, logits)
    assert np.array_equal(found.labels, labels)
    assert found.label_names == predictions.label_names
    # A csv has no types: text that looks like a number becomes one.
    assert [str(v) for v in found.groups["g"].tolist()] == [str(v) for v in group]


CELLS = ["one\rtwo", " cat", "a\r\nb", "a\nb", 'a "b", c', "", "a; b", "'"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_texts_of_a_rewritten_table_come_back(tmp_path: Path, suffix: str) -> None:
    """The writer of Python leaves a carriage return bare, and a space where a cell begins."""
    predictions = make("logits", groups={"text": (CELLS * 3)[:23], "two words ": ["x"] * 23})
    predictions.write(tmp_path / f"a{suffix}")
    identity = Identity().fit(predictions)
    rewrite(tmp_path / f"a{suffix}", tmp_path / f"b{suffix}", identity.transform)
    found = read(tmp_path / f"b{suffix}")
    assert found.groups["text"].tolist() == (CELLS * 3)[:23]
    assert np.allclose(found.probabilities(), predictions.probabilities())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.text(' \r\n",;a', max_size=4), min_size=2, max_size=2), min_size=1),
    delimiter=st.sampled_from(",;"),
)
def test_any_rows_come_back(tmp_path: Path, rows: list[list[str]], delimiter: str) -> None:
    with text_file(tmp_path / "a.csv") as file:
        CsvWriter(file, delimiter).writerows([["b", "c"], *rows])
    found = [row for _, row in csv_records(tmp_path / "a.csv", "bc", delimiter)]
    assert found == rows


def test_torch_tensors_are_written_in_half_precision_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.randn(8, 3).to(torch.bfloat16)
    predictions = Predictions.from_logits(logits, torch.arange(8) % 3)
    for suffix in suffixes():
        predictions.write(tmp_path / f"p{suffix}")
        found = read(tmp_path / f"p{suffix}").scores
        assert np.array_equal(found, logits.float().numpy())


@pytest.mark.parametrize("suffix", suffixes())
def test_equal_predictions_are_equal_bytes(tmp_path: Path, suffix: str) -> None:
    for name in "ab":
        make("logits", label_names=NAMES, groups=GROUPS, signals=SIGNALS, weights=WEIGHTS).write(
            tmp_path / f"{name}{suffix}"
        )
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
