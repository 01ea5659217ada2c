"""csv and jsonl by pyarrow are what the plain readers give: values, types, chunks and words."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrant import InputError, Predictions
from calibrant.files import arrow_text, stream
from calibrant.files.csv import CsvSource
from calibrant.files.jsonl import JsonlSource

pytest.importorskip("pyarrow")

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
CELLS |= st.sampled_from(["", "1", "2", "007", "2.5", 'a"b', '"', "a,b", "a\nb", "a\r\nb", "nan"])
NUMBERS = st.floats(-1e6, 1e6).map(repr)
NUMBERS |= st.sampled_from(["1", " 2", "+3", "1_0", "1e3", "-0", ".5", "1e-320", "4.", "0x1", "x"])


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_text, "find_spec", lambda _: None)


def outcome(path: Path, rows: int) -> list[object]:
    """Everything that a reader gives, up to an error and its words."""
    seen: list[object] = []
    try:
        for part in stream(path, rows=rows):
            columns = {name: (c.dtype, repr(c.tolist())) for name, c in part.groups.items()}
            seen.append((part.scores.tolist(), part.labels.tolist(), part.ignored, columns))
    except InputError as error:
        seen.append(str(error))
    return seen


def assert_same(path: Path, rows: int) -> list[object]:
    quick = outcome(path, rows)
    with pytest.MonkeyPatch.context() as monkeypatch:
        plainly(monkeypatch)
        assert outcome(path, rows) == quick
    return quick


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    records=st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from("01"), CELLS, CELLS), max_size=12),
    rows=st.integers(1, 6),
    ending=st.sampled_from(["\n", "\r\n"]),
    blank=st.booleans(),
    style=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_any_file_is_read_alike(tmp_path, records, rows, ending, blank, style):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=ending, quoting=style)
    writer.writerow(["logits_0", "logits_1", "label", "group", "two\nlines"])
    for record in records:
        writer.writerow(record)
        text.write(ending if blank else "")
    path = tmp_path / "p.csv"
    path.write_text(text.getvalue(), encoding="utf-8-sig" if blank else "utf-8", newline="")
    assert_same(path, rows)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("1,x,0,g", "expected a number in column 'logits_1' at line 9, got 'x'"),
        ("1,2,0", "line 9: 3 values, but the header has 4"),
        ("1,nan,0,g", "must be finite, got nan at line 9"),
        ("1,2,7,g", "Label 7 at line 9 is outside"),
        ("1,2,cat,g", "at line 9"),
    ],
)
@pytest.mark.parametrize("rows", [2, 100])
def test_lines_of_errors_are_those_of_the_file(tmp_path, bad, says, rows):
    lines = ["", "logits_0,logits_1,label,group", "1,2,0,g", "", "1,2,0,g", '3,4,1,"a', 'b"']
    path = tmp_path / "p.csv"
    path.write_text("\n".join([*lines, "1,2,1,g", bad, "1,2,1,g"]) + "\n")
    assert says in assert_same(path, rows)[-1]


def test_the_plain_reader_continues_where_arrow_stops(tmp_path):
    path = tmp_path / "p.csv.gz"
    records = [f"{i},{'+' * (i == 11)}{i + 1},0,{i}" for i in range(30)]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(["logits_0,logits_1,label,row", *records]) + "\n")
    found = assert_same(path, 4)
    assert [len(part[0]) for part in found] == [4] * 7 + [2]
    assert "[28, 29]" in found[-1][3]["row"][1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert "damaged after line" in assert_same(path, 4)[-1]


def test_what_calibrant_writes(tmp_path):
    generator = np.random.default_rng(0)
    groups = {"sentence": np.arange(50) // 7, "text": [f'w"{i},\n' for i in range(50)]}
    p = Predictions.from_logits(
        generator.normal(size=(50, 3)),
        generator.integers(0, 3, 50),
        label_names=["O", "B-X", "I, X"],
        groups=groups,
    )
    p.write(tmp_path / "p.csv")
    quick = assert_same(tmp_path / "p.csv", 20)
    assert [row for part in quick for row in part[0]] == p.scores.tolist()


VALUES = st.integers(-5, 5) | st.floats(-1e3, 1e3) | CELLS | st.booleans() | st.none()
SCORES = st.lists(st.integers(-9, 9) | st.floats(-1e6, 1e6), min_size=2, max_size=2)
ODD = st.sampled_from([[1], [1, None], [True, 2], "x", None, [10**20, 1], [1e300, 2], {"a": 1}])


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), rows=st.integers(1, 6), form=st.sampled_from(["list", "dict", "columns"]))
def test_any_jsonl_is_read_alike(tmp_path, data, rows, form):
    kinds = data.draw(st.lists(st.sampled_from([st.integers(), CELLS, st.booleans(), VALUES])))
    lines = []
    for scores in data.draw(st.lists(SCORES, max_size=9)):
        record = {"logits": scores, "label": data.draw(st.integers(0, 1))}
        if form == "dict":
            record["logits"] = {"a": scores[0], "b": scores[1]}
        elif form == "columns":
            record = {"logits_0": scores[0], "logits_1": scores[1], "label": record["label"]}
        record |= {f"g{i}": data.draw(kind) for i, kind in enumerate(kinds)}
        lines.append(json.dumps(record, ensure_ascii=data.draw(st.booleans())))
        if form == "list" and data.draw(st.integers(0, 9)) == 0:
            lines.append(json.dumps(record | {"logits": data.draw(ODD)}))
        if data.draw(st.integers(0, 9)) == 0:
            lines.append(data.draw(st.sampled_from(["", "  ", "{", "[1]", '{"label": 1}', "NaN"])))
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    assert_same(path, rows)


def test_arrow_reads_plain_jsonl_to_its_end(tmp_path, monkeypatch):
    """Otherwise the tests above would compare the plain reader with itself."""
    p = Predictions.from_logits(
        np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3, groups={"s": range(40)}
    )
    for suffix in ("csv", "jsonl", "jsonl.gz"):
        p.write(tmp_path / f"p.{suffix}")
        for source in (CsvSource, JsonlSource):
            monkeypatch.setattr(source, "plain_blocks", lambda *_: pytest.fail("plain reader"))
        read = outcome(tmp_path / f"p.{suffix}", 15)
        assert len(read) == 3
        assert read[0][0] == p.scores[:15].tolist()
