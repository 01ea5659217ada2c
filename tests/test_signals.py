"""Signals: finite numbers for each prediction, kept by everything that keeps its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions
from calibrant.calibrators import Temperature
from calibrant.files import Columns, read, rewrite, suffixes

LOGITS = [[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.5, 0.0]]
LABELS = [0, 1, -100, 1]


def make(**signals: Any) -> Predictions:
    return Predictions.from_logits(LOGITS, LABELS, signals=signals or {"pieces": [1, 2, 3, 4]})


def test_signals_follow_the_rows() -> None:
    p = make()
    assert p.signals["pieces"].tolist() == [1, 2, 4]
    assert p.signals["pieces"].dtype == np.float64
    assert p[1:].signals["pieces"].tolist() == [2, 4]
    assert p[np.array([True, False, True])].signals["pieces"].tolist() == [1, 4]
    assert [part.signals["pieces"].tolist() for part in p.chunks(2)] == [[1, 2], [4]]
    assert Predictions.concatenate([p, p[:1]]).signals["pieces"].tolist() == [1, 2, 4, 1]
    assert Temperature().fit(p).transform(p).signals["pieces"].tolist() == [1, 2, 4]
    assert p.with_scores(p.probabilities(), "probabilities").signals == p.signals
    assert list(p.with_signals({"length": [1, 1, 1]}).signals) == ["pieces", "length"]


def test_one_value_per_sentence_is_repeated_for_its_words() -> None:
    scores, labels = np.zeros((2, 3, 2)), [[0, 1, -100], [1, -100, -100]]
    p = Predictions.from_logits(scores, labels, signals={"words": [2, 1], "at": np.ones((2, 3))})
    assert p.signals["words"].tolist() == [2, 2, 1]
    assert p.signals["at"].tolist() == [1, 1, 1]


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    p = Predictions.from_logits(torch.zeros(2, 3), [0, 1], signals={"norm": torch.ones(2).half()})
    assert isinstance(p.signals["norm"], np.ndarray)


@pytest.mark.parametrize("what", ["groups", "signals"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2, 3, 4], "columns by name, such as {'name': values}, got list"),
        (np.ones(4), "columns by name, .*got ndarray"),
        ("pieces", "columns by name, .*got str"),
        ({"pieces": None}, "one value per example in each column, got None as 'pieces'"),
        ({"pieces": 1.0}, "one value per example in each column, got 1.0 as 'pieces'"),
    ],
)
def test_what_is_no_table_of_columns_is_named(what: str, given: Any, message: str) -> None:
    p, confidence = make(), np.full(4, 0.5)
    both = np.full((4, 2), 0.5)
    makers = [
        lambda: Predictions.from_logits(LOGITS, LABELS, **{what: given}),
        lambda: Claims.from_top_label(None, confidence, correct=confidence > 0, **{what: given}),
        lambda: Claims.from_multi_label(both, both > 0.1, **{what: given}),
    ]
    if what == "signals":
        makers.append(lambda: p.with_signals(given))
    for maker in makers:
        with pytest.raises(InputError, match=message):
            maker()


def test_a_table_of_pandas_is_taken() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"pieces": [1, 2, 3, 4]})
    p = Predictions.from_logits(LOGITS, LABELS, signals=table, groups=table)
    assert p.signals["pieces"].tolist() == p.groups["pieces"].tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({"pieces": [1, 2, 3]}, "Signal 'pieces' has 3 values for 4 examples"),
        ({"pieces": [1, 2, 3, np.nan]}, "Signal 'pieces' must be finite, got nan at row 3"),
        ({"pieces": [np.inf, 2, 3, 1]}, "Signal 'pieces' must be finite, got inf at row 0"),
        ({"pieces": ["a", "b", "c", "d"]}, "Signal 'pieces' must hold numbers, got dtype <U1"),
        ({"pieces": [[1], [2], [3], [4]]}, r"must have one value per example, got \(4, 1\)"),
        ({"pieces": [1, None, 3, 4]}, "missing value"),
        ({"": [1, 2, 3, 4]}, "needs a name"),
        ({7: [1, 2, 3, 4]}, "needs a name, got 7"),
    ],
)
def test_bad_signals_are_named(signals: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Predictions.from_logits(LOGITS, LABELS, signals=signals)


def test_an_ignored_row_may_lack_its_signal() -> None:
    assert make(pieces=[1, 2, np.nan, 4]).signals["pieces"].tolist() == [1, 2, 4]


def test_parts_with_other_signals_are_refused() -> None:
    with pytest.raises(InputError, match=r"same signals, got \['pieces'\] and \['norm'\]"):
        Predictions.concatenate([make(), make(norm=[1, 2, 3, 4])])


def test_other_columns_may_be_read_as_signals(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("logits_0,logits_1,label,length\n1,0,0,7\n0,1,1,2.5\n")
    assert read(path).groups["length"].tolist() == ["7", "2.5"]
    found = read(path, Columns(signals=["length"]))
    assert found.signals["length"].tolist() == [7, 2.5]
    assert not found.groups
    with pytest.raises(InputError, match=r"no column 'lenght'.*Did you mean 'length'"):
        read(path, Columns(signals=["lenght"]))


@pytest.mark.parametrize("bad", ["", "many", "nan", "inf"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_bad_value_in_a_file_names_its_line(tmp_path: Path, suffix: str, bad: str) -> None:
    path = tmp_path / f"p{suffix}"
    make().write(path)
    lines = path.read_text().splitlines()
    old = "2.0" if suffix == ".csv" else '"signal.pieces": 2.0'
    new = bad if suffix == ".csv" else f'"signal.pieces": "{bad}"'
    at = 2 if suffix == ".csv" else 1
    head, _, tail = lines[at].rpartition(old)
    lines[at] = head + new + tail
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"signal.pieces|Signal 'pieces'.*line {at + 1}"):
        read(path)


@pytest.mark.parametrize("suffix", suffixes())
def test_a_group_may_not_take_the_name_of_a_signal(tmp_path: Path, suffix: str) -> None:
    p = Predictions.from_logits(LOGITS, LABELS, groups={"signal.x": [1, 2, 3, 4]})
    with pytest.raises(InputError, match=r"a group may not be called 'signal\.x'"):
        p.write(tmp_path / f"p{suffix}")


@pytest.mark.parametrize("suffix", suffixes())
def test_a_rewritten_file_keeps_its_signals(tmp_path: Path, suffix: str) -> None:
    path, target = tmp_path / f"p{suffix}", tmp_path / f"q{suffix}"
    make().write(path)
    seen: list[float] = []

    def note(part: Predictions) -> Predictions:
        seen.extend(part.signals["pieces"].tolist())
        return part

    rewrite(path, target, note)
    assert seen == [1, 2, 4]
    assert read(target).signals["pieces"].tolist() == [1, 2, 4]
