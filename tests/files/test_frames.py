"""Data frames, Arrow files, tabs and semicolons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant import Claims, InputError, Predictions, read
from calibrant.files import Columns, from_frame, rewrite, stream

SCORES = [[0.9, 0.1], [0.25, 0.75], [0.6, 0.4]]
LISTS: dict[str, Any] = {"probabilities": SCORES, "label": [0, 1, 0], "site": ["A", "B", "A"]}
TOPS: dict[str, Any] = {
    "pred_label": ["a", "b", "a"],
    "score": [0.9, 0.8, 0.7],
    "y_true": ["a", "a", None],
}


def frames(table: dict[str, Any]) -> list[Any]:
    made: list[Any] = [table, pa.table(table)]
    pandas = pytest.importorskip("pandas")
    made.append(pandas.DataFrame(table))
    try:
        import polars
    except ImportError:
        return made
    return [*made, polars.DataFrame(table)]


def test_scores_of_all_classes() -> None:
    for frame in frames(LISTS):
        p = Predictions.from_frame(frame)
        assert isinstance(p, Predictions)
        assert p.scores.tolist() == SCORES
        assert (p.labels.tolist(), p.groups["site"].tolist()) == ([0, 1, 0], ["A", "B", "A"])


def test_top_labels_and_missing_ones() -> None:
    for frame in frames(TOPS):
        claims = from_frame(frame)
        assert isinstance(claims, Claims)
        assert (claims.correct.tolist(), claims.unlabelled) == ([True, False], 1)


def test_one_column_per_class_and_categories() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"p_a": [0.9, 0.2], "p_b": [0.1, 0.8], "gold": [1, None]})
    frame["gold"] = frame["gold"].astype("Int64")
    p = from_frame(frame, Columns(probabilities="p_*"))
    assert isinstance(p, Predictions)
    assert (p.labels.tolist(), p.unlabelled, p.names) == ([1], 1, ("a", "b"))
    frame["gold"] = pandas.Categorical(["b", "a"])
    p = from_frame(frame, Columns(probabilities="p_*"))
    assert p.labels.tolist() == [1, 0]


def test_what_is_read_or_computed_first() -> None:
    """A stream of Arrow, as DuckDB gives its results, and a lazy frame of polars."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(LISTS)

    class Result:
        """A result of DuckDB: a column by name is a new query, not data."""

        columns = table.column_names

        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            return table.__arrow_c_stream__(schema)

        def __getitem__(self, name: str) -> Result:
            return self

    made = [Result(), pa.RecordBatchReader.from_batches(table.schema, table.to_batches())]
    try:
        import polars
    except ImportError:
        pass
    else:
        made.append(polars.DataFrame(LISTS).lazy())
    for frame in made:
        p = from_frame(frame)
        assert isinstance(p, Predictions)
        assert p.scores.tolist() == SCORES


def test_two_columns_of_one_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0.5, 0.5, 1]], columns=["y_prob", "y_prob", "label"])
    with pytest.raises(InputError, match="two columns that are called 'y_prob'"):
        from_frame(frame)


def test_bad_frames() -> None:
    for frame, expected in [
        (
            [1, 2],
            "takes a pandas or polars DataFrame, an Arrow table, a result of DuckDB or a dict",
        ),
        ({"y_prob": [0.5]}, "frame: no column 'label'"),
        ({"y_prob": [0.5], "label": [0, 1]}, "columns of one length"),
        (
            {"probabilities": [[0.5, 0.5], [1.0]], "label": [0, 1]},
            "lists of different lengths|rows of",
        ),
        ({"y_prob": [0.5, 1.7], "label": [0, 1]}, "frame: Probabilities must be .* at row 1"),
        ({}, "the file is empty"),
    ]:
        with pytest.raises(InputError, match=expected):
            from_frame(frame)


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_arrow_files_of_others(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p{suffix}"
    if suffix == ".feather":
        from pyarrow import feather

        feather.write_feather(pa.table(LISTS), str(path))
    else:
        with pa.ipc.new_file(str(path), pa.table(LISTS).schema) as writer:
            writer.write_table(pa.table(LISTS), max_chunksize=2)
    for rows in (1, 2, None):
        p = Predictions.concatenate(stream(path, rows=rows))
        assert p.scores.tolist() == SCORES
        assert p.groups["site"].tolist() == ["A", "B", "A"]
    target = tmp_path / f"q{suffix}"
    rewrite(path, target, lambda q: q.with_scores(q.scores[:, ::-1], "probabilities"))
    assert np.allclose(read(target).scores, np.array(SCORES)[:, ::-1])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a whole arrow file") as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("plain", [True, False])
def test_semicolons_and_decimal_commas(tmp_path: Path, plain: bool) -> None:
    mark = "." if plain else ","
    rows = ["y_prob;y_true;site", f"0{mark}9;1;A, B", f"0{mark}25;0;C"]
    path = tmp_path / "p.csv"
    path.write_text("\n".join(rows) + "\n")
    p = read(path)
    assert p.scores[:, 1].tolist() == [0.9, 0.25]
    assert p.groups["site"].tolist() == ["A, B", "C"]
    rewrite(path, tmp_path / "q.csv", lambda q: q.with_scores(q.scores / 1, "probabilities"))
    assert (tmp_path / "q.csv").read_text() == path.read_text()


def test_the_decimal_sign_is_that_of_the_first_score_with_one(tmp_path: Path) -> None:
    path, target = tmp_path / "p.csv", tmp_path / "q.csv"
    path.write_text("logits:a;logits:b;label;price\n0;1;a;1.5\n2,5;-1;b;2.5\n")
    rewrite(path, target, lambda q: q.with_scores(q.probabilities(), "probabilities"))
    lines = target.read_text().splitlines()
    assert lines[0] == "probabilities:a;probabilities:b;label;price"
    assert lines[1].startswith("0,2689414")
    assert lines[1].endswith(";a;1.5")
    assert "." not in lines[2].removesuffix("2.5")
    assert np.allclose(read(target).scores, read(path).probabilities(), rtol=0, atol=1e-15)
    path.write_text("y_prob;y_true\n0;1\n1;0\n")  # No sign at all.
    rewrite(
        path, target, lambda q: q.with_scores(q.scores * 0 + 0.5, "probabilities"), overwrite=True
    )
    assert target.read_text() == "y_prob;y_true\n0.5;1\n0.5;0\n"


def test_tabs(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("true_label\tpred_label\tconfidence\na\ta\t0.9\nb, c\ta\t0.5\n")
    claims = read(path)
    assert isinstance(claims, Claims)
    assert claims.correct.tolist() == [True, False]
    rewrite(path, tmp_path / "q.tsv", lambda c: c.with_confidence(c.confidence / 2))
    assert (tmp_path / "q.tsv").read_text().splitlines()[2] == "b, c\ta\t0.25"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("values", [["a", "b"], [0, 1]])
def test_nulls_of_arrow_dictionaries_are_missing(values: list, chunked: bool) -> None:
    """By itself, pyarrow makes the last category of a null."""
    codes = pa.array([0, None, 1, None], pa.int8())
    column: Any = pa.DictionaryArray.from_arrays(codes, pa.array(values))
    column = pa.chunked_array([column[:1], column[1:]]) if chunked else column
    given = {"confidence": [0.9, 0.8, 0.7, 0.6], "pred_label": [values[1]] * 4}
    expected = ([False, True], 2)
    for claims in (
        Predictions.from_frame({**given, "label": column}),
        Predictions.from_frame(pa.table({**given, "label": column})),
        Claims.from_top_label(given["pred_label"], given["confidence"], column),
    ):
        assert (claims.correct.tolist(), claims.unlabelled) == expected
    names = ["a", "b"] if values[0] == "a" else None
    p = Predictions.from_probabilities([0.9, 0.8, 0.7, 0.6], column, label_names=names)
    assert (p.labels.tolist(), p.unlabelled) == ([0, 1], 2)
