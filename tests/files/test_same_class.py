"""A label means the class that its writer meant, whatever the order and the type of the columns."""

import json
import math
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import pytest

import calibrant
from calibrant import Claims, Predictions
from calibrant.errors import InputError
from calibrant.files import Columns, read, rewrite, stream, write

TRUTH = [("True", "False"), ("true", "false"), ("1", "0"), ("yes", "no")]


def written(path, text):
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("names", TRUTH)
@pytest.mark.parametrize("true", ["true", "True", "TRUE"])
def test_true_is_the_class_of_that_name_in_csv(tmp_path, names, true):
    lines = ["prob:{},prob:{},label".format(*names), f"0.9,0.1,{true}", "0.2,0.8,FALSE"]
    found = read(written(tmp_path / "a.csv", "\n".join(lines)))
    assert found.labels.tolist() == [0, 1]
    lines[0] = "prob:{},prob:{},label".format(*names[::-1])
    assert read(written(tmp_path / "a.csv", "\n".join(lines))).labels.tolist() == [1, 0]


@pytest.mark.parametrize("names", TRUTH)
def test_truth_values_are_the_class_of_that_name(tmp_path, names):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"prob:{names[0]}": [0.9, 0.2], f"prob:{names[1]}": [0.1, 0.8]}
    table = {**columns, "label": [True, False]}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    lines = [{k: table[k][i] for k in table} for i in range(2)]
    written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = [
        read(tmp_path / "a.parquet"),
        read(tmp_path / "a.jsonl"),
        Predictions.from_frame(table),
        Predictions.from_probabilities(scores, [True, False], label_names=names),
        Predictions.from_probabilities(scores, np.array([True, False]), label_names=names),
    ]
    assert [each.labels.tolist() for each in found] == [[0, 1]] * len(found)
    some = Predictions.from_probabilities(scores, [True, None], label_names=names)
    assert (some.labels.tolist(), some.unlabelled) == ([0], 1)


def test_truth_tensors_and_categories():
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    scores = [[0.9, 0.1], [0.2, 0.8]]
    for labels in (torch.tensor([True, False]), pandas.Categorical([True, False])):
        for names, wanted in ((("True", "False"), [0, 1]), (("ham", "spam"), [1, 0])):
            found = Predictions.from_probabilities(scores, labels, label_names=names)
            assert found.labels.tolist() == wanted


@pytest.mark.parametrize("gap", [None, ""])
def test_truth_values_with_gaps_equal_those_without(tmp_path, gap):
    rows = [(True, True), (False, True), (True, gap)]
    lines = [{"predicted": p, "confidence": 0.9, "label": y} for p, y in rows]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert read(path).correct.tolist() == [True, False]


def test_truth_values_equal_texts_of_them(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = arrow.array(["true", "False", "True"]).dictionary_encode()
    for predicted, labels in (
        ([True, False, True], [True, True, None]),
        (texts, [True, True, False]),
        ([True, False, True], arrow.array(["True", "true", ""])),
    ):
        table = arrow.table({"pred": predicted, "confidence": [0.9] * 3, "label": labels})
        parquet.write_table(table, tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet").correct[:2].tolist() == [True, False]
    for labels in ([True, None], np.array([True, None], object), ["True", ""]):
        claims = Claims.from_top_label(np.array([True, False]), [0.9, 0.8], labels)
        assert claims.correct.tolist() == [True]


def test_other_texts_equal_no_truth_value():
    claims = Claims.from_top_label(["cat", "True"], [0.9, 0.8], np.array([True, True]))
    assert claims.correct.tolist() == [False, False]


def test_binary_texts_are_texts(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"pred": [b"cat", b"dog"], "confidence": [0.9, 0.8], "label": ["cat", "cat"]}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert (found.names, found.correct.tolist()) == (("cat", "dog"), [True, False])


@pytest.mark.parametrize("names", [("cat", "dog"), ("cat", "bird")])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz"])
def test_given_names_do_not_swap_those_of_the_file(tmp_path, suffix, names):
    scores = [[0.9, 0.1], [0.2, 0.8]]
    own = Predictions.from_probabilities(scores, [0, 1], label_names=["dog", "cat"])
    path = tmp_path / f"a{suffix}"
    own.write(path)
    with pytest.raises(InputError, match=r"'cat' as class 0, but in the file it is class 1.*\(dog"):
        read(path, Columns(label_names=names))
    assert read(path, Columns(label_names=("dog", "cat"))).names == ("dog", "cat")


def test_given_names_may_be_other_ones(tmp_path):
    path = written(tmp_path / "a.csv", "prob_0,prob_1,label\n0.9,0.1,cat\n0.2,0.8,dog\n")
    assert read(path, Columns(label_names=("cat", "dog"))).labels.tolist() == [0, 1]
    path = written(tmp_path / "a.csv", "prob:0,prob:1,label\n0.9,0.1,cat\n0.2,0.8,dog\n")
    assert read(path, Columns(label_names=("cat", "dog"))).labels.tolist() == [0, 1]


def test_the_positive_class_is_not_the_first_of_two_columns(tmp_path):
    path = written(tmp_path / "a.csv", "prob:spam,prob:ham,label\n0.9,0.1,spam\n0.2,0.8,ham\n")
    with pytest.raises(InputError, match=r"--positive spam is for one score per row.*spam, ham"):
        read(path, Columns(positive="spam"))
    assert read(path, Columns(positive="ham")).labels.tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_copies_of_objects_keep_each_score_at_its_name(tmp_path, kind):
    """Each line may have its own order, such as the largest first."""
    rows = [{"cat": 0.9, "dog": 0.1}, {"dog": 0.8, "cat": 0.2}]
    lines = [json.dumps({kind: row, "label": "cat"}) for row in rows]
    path = written(tmp_path / "a.jsonl", "\n".join(lines))
    rewrite(path, tmp_path / "b.jsonl", lambda part: part)
    before, after = read(path), read(tmp_path / "b.jsonl")
    np.testing.assert_allclose(after.scores, before.probabilities())
    written_rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert [list(row["probabilities"]) for row in written_rows] == [list(row) for row in rows]


def pipeline_lines(names, count=30):
    """Return lines of a pipeline, largest first, in which text i is of class i mod K."""
    for i in range(count):
        scores = [0.5 / (len(names) - 1)] * len(names)
        scores[i % len(names)] = 0.5
        order = sorted(range(len(names)), key=lambda k: -scores[k])
        yield [{"label": names[k], "score": scores[k]} for k in order]


def test_numbers_are_those_of_the_names_of_transformers(tmp_path):
    names = [f"LABEL_{k}" for k in range(12)]
    written(tmp_path / "scores.jsonl", "\n".join(map(json.dumps, pipeline_lines(names))))
    written(tmp_path / "labels.txt", "\n".join(str(i % 12) for i in range(30)))
    found = read(tmp_path / "scores.jsonl")
    assert found.names == tuple(names)
    assert found.labels.tolist() == [i % 12 for i in range(30)]
    assert math.isclose(calibrant.metrics.accuracy(found), 1)


@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0], ["0", "1"], [False, True]])
def test_numbers_beside_other_names_of_a_pipeline_are_refused(tmp_path, labels):
    lines = pipeline_lines(["human", "ai"])
    records = [
        {"output": each, "label": labels[i % 2], "gold": ["human", "ai", -100][i % 3]}
        for i, each in enumerate(lines)
    ]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    with pytest.raises(InputError, match=r"line 1 is a number.*\(ai, human\).*--labels FILE"):
        read(path)
    assert read(path, Columns(label_names=("ai", "human"))).labels[:2].tolist() == [0, 1]
    assert read(path, Columns(label="gold")).ignored == 10


@pytest.mark.parametrize("name", ["Weight", "SAMPLE_WEIGHT", "Sample_weights"])
def test_capitals_do_not_matter_for_weights_either(tmp_path, name):
    path = written(tmp_path / "a.csv", f"Probability,Label,{name}\n0.9,1,2\n0.2,1,1\n")
    assert read(path).weights.tolist() == [2, 1]
    assert read(path, Columns(groups=(name,))).weights is None
    with pytest.raises(InputError, match="may not be called"):
        write(read(path, Columns(groups=(name,))), tmp_path / "b.csv")


def test_the_label_beside_a_predicted_one_is_called_label_first(tmp_path):
    """As it is beside the scores of all classes: a column "target" may be anything."""
    text = "label,predicted,confidence,target\ncat,cat,0.9,headline\ndog,cat,0.8,body\n"
    found = read(written(tmp_path / "a.csv", text))
    assert found.correct.tolist() == [True, False]
    assert found.groups["target"].tolist() == ["headline", "body"]
    text = "label,score,y_true\ncat,0.9,cat\ndog,0.8,cat\n"  # Of a pipeline.
    assert read(written(tmp_path / "a.csv", text)).correct.tolist() == [True, False]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("later", ["007", "a7", "2.5"])
def test_no_text_becomes_a_number_in_a_stream(tmp_path, suffix, later):
    pytest.importorskip("pyarrow")
    rows = ["prob_0,prob_1,label,fold", "0.9,0.1,0,1", f"0.2,0.8,1,{later}"]
    path = written(tmp_path / "a.csv", "\n".join(rows))
    with pytest.raises(InputError, match=r"'fold' holds int64 in the first rows.*calibrant\.read"):
        write(stream(path, rows=1), tmp_path / f"b{suffix}")
    write(read(path), tmp_path / f"b{suffix}")
    assert read(tmp_path / f"b{suffix}").groups["fold"].tolist() == ["1", later]


def test_tensors_and_missing_lists_in_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    tensor = arrow.FixedShapeTensorArray.from_numpy_ndarray(scores)
    parquet.write_table(arrow.table({"probs": tensor, "label": [0, 1]}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(read(tmp_path / "a.parquet").scores, scores)
    columns = {
        "probs": arrow.array(scores.tolist(), arrow.list_(arrow.float64(), 2)),
        "labels": arrow.array([[1, 0], None], arrow.list_(arrow.int64(), 2)),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="a missing value in 'labels' at row 1"):
        read(tmp_path / "b.parquet", kind="multi-label")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_frame_and_label_names_have_one_order(library):
    frames = pytest.importorskip(library)
    scores = frames.DataFrame({"dog": [0.9, 0.2], "cat": [0.1, 0.8]})
    with pytest.raises(InputError, match=r"called dog, cat, .* are cat, dog; pass label_names"):
        Predictions.from_probabilities(scores, ["dog", "cat"], label_names=["cat", "dog"])
    if library == "pandas":
        labels = frames.Categorical(["dog", "cat"])  # Its categories are in the alphabet's order.
        with pytest.raises(InputError, match="called dog, cat"):
            Predictions.from_probabilities(scores, labels)
        found = Predictions.from_probabilities(scores, labels, label_names=list(scores.columns))
        assert found.labels.tolist() == [0, 1]
    for names in (["dog", "cat"], ["a", "b"]):
        found = Predictions.from_probabilities(scores, [0, 1], label_names=names)
        assert (list(found.names), found.labels.tolist()) == (names, [0, 1])


def test_a_table_of_texts_is_no_list_of_names():
    scores = [[0.9, 0.2], [0.4, 0.7]]
    with pytest.raises(InputError, match="named twice at row 1; for a table of 0 and 1"):
        Claims.from_multi_label(scores, [["1", "0"], ["0", "0"]])
    named = Claims.from_multi_label(scores, [["1", "0"], ["0"]])
    assert named.correct.tolist() == [True, True, True, False]


def test_decimals_with_gaps_are_numbers(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = arrow.array([Decimal("1.00"), Decimal("0.00"), None])
    table = {"pred": [1, 1, 1], "confidence": [0.9, 0.8, 0.7], "label": labels}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").correct.tolist() == [True, False]
    table = {"prob": [0.9, 0.8, 0.7], "label": labels, "fold": labels}
    parquet.write_table(arrow.table(table), tmp_path / "b.parquet")
    found = read(tmp_path / "b.parquet")
    assert (found.labels.tolist(), found.groups["fold"].tolist()) == ([1, 0], ["1.0", "0.0"])


@pytest.mark.parametrize("kind", ["date32", "timestamp[us]", "timestamp[ns, tz=UTC]"])
def test_a_date_has_one_text_beside_gaps_and_without(tmp_path, kind):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    days = np.array(["2020-01-01", "2020-01-01", "2020-01-02", "NaT", "2020-01-02", "2020-01-03"])
    unit = "D" if kind == "date32" else "ns" if "ns" in kind else "us"
    types = {"D": arrow.date32(), "us": arrow.timestamp("us"), "ns": arrow.timestamp("ns", "UTC")}
    when = arrow.array(days.astype(f"datetime64[{unit}]")).cast(types[unit])
    table = arrow.table({"prob": [0.5] * 6, "label": [0, 1] * 3, "when": when})
    parquet.write_table(table, tmp_path / "a.parquet")
    whole = read(tmp_path / "a.parquet").groups["when"].tolist()
    parts = Predictions.concatenate(stream(tmp_path / "a.parquet", rows=2)).groups["when"].tolist()
    assert whole == parts
    assert (whole[3], len(set(whole))) == ("", 4)


def test_long_numbers_with_gaps_stay_apart_in_a_frame():
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    ids = [2**60 + 1, 2**60 + 2, None]
    table = arrow.table({"prob": [0.5] * 3, "label": [0, 1, 1], "id": ids})
    frame = pandas.DataFrame({"prob": [0.5] * 3, "label": [0, 1, 1]})
    frame["id"] = pandas.array(ids, dtype="Int64")
    frames = [table, frame]
    if find_spec("polars") is not None:
        frames.append(pytest.importorskip("polars").DataFrame(table.to_pydict()))
    for each in frames:
        groups = Predictions.from_frame(each).groups["id"].tolist()
        assert groups == [str(2**60 + 1), str(2**60 + 2), ""]
    few = Predictions.from_frame(arrow.table({"prob": [0.5] * 2, "label": [0, None]}))
    assert (few.labels.tolist(), few.unlabelled) == ([0], 1)


@pytest.mark.parametrize("gap", [False, True])
def test_dates_beyond_python_calendars_are_read(tmp_path, gap):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    days = arrow.array([2**31 - 1, None if gap else 0], arrow.int32())
    table = {"logits": [[1.0, 2.0]] * 2, "label": [0, 1], "when": days.cast(arrow.date32())}
    parquet.write_table(arrow.table(table), tmp_path / "p.parquet")
    found = read(tmp_path / "p.parquet").groups["when"]
    assert found.astype(str).tolist() == ["5881580-07-11", "" if gap else "1970-01-01"]
