"""Audits in parts are those of the whole: counts to the bit, numbers to rounding."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.distributed.shards import random_predictions, write_shards

import calibrant
from calibrant import Claims, Predictions
from calibrant.auditing import run as auditing_run
from calibrant.auditing.partial import PartialAudit
from calibrant.distributed import LocalEngine, Parts, audit, fit
from calibrant.distributed import auditing as distributed_auditing
from calibrant.distributed.left_out import LeftOut
from calibrant.distributed.parquet_parts import FilePart, Segment
from calibrant.errors import InputError
from calibrant.files import Columns, write

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
OPTIONS = {"bootstrap": 100, "per": "site"}


def weighted(p):
    random = np.random.default_rng(3)
    return Predictions.from_logits(
        p.scores, p.labels, groups=p.groups, weights=random.integers(0, 4, len(p))
    )


def ignored(p):
    labels = p.labels.copy()
    labels[5000:5500] = -100
    return Predictions.from_logits(p.scores, labels, groups=p.groups)


def top_labels(p):
    predicted = p.scores.argmax(axis=1)
    names = np.array(["a", "b", "c", "d"])
    confidence = p.probabilities().max(axis=1)
    return Claims.from_top_label(names[predicted], confidence, names[p.labels], groups=p.groups)


def pixels(p):
    groups = {"image": np.arange(len(p)) // 130, "border": np.arange(len(p)) % 3 == 0}
    return Predictions.from_logits(p.scores, p.labels, groups={**groups, "site": p.groups["site"]})


CASES = {
    "rows": random_predictions,
    "binary": lambda: random_predictions(classes=2),
    "many classes": lambda: random_predictions(3000, classes=150),
    "sentences": lambda: random_predictions(sentences=7),
    "tags": lambda: random_predictions(classes=5, sentences=7, names=TAGS),
    "long sentences": lambda: random_predictions(classes=5, sentences=2500, names=TAGS),
    "weights": lambda: weighted(random_predictions()),
    "pixels": lambda: pixels(random_predictions(3000)),
    "top labels": lambda: top_labels(random_predictions()),
}


def assert_same(found, expected, tolerance=1e-9):
    """Compare two audits; the only metric that may be missing needs all scores at once."""
    mine, theirs = found.to_dict(), expected.to_dict()
    for key in ("verdict", "warnings"):
        assert mine[key] == theirs[key], key
    assert sorted(mine["label_names"]) == sorted(theirs["label_names"])
    for key in ("classes", "findings", "at_risk", "per", "entities", "pixels", "positive", "top"):
        loose = tolerance if key == "entities" else 1e-9
        assert_close(mine[key], theirs[key], key, loose)
    assert theirs["measures"].keys() - mine["measures"].keys() <= {"adaptive_classwise_ece"}
    for name, measure in mine["measures"].items():
        assert_close(measure, theirs["measures"][name], name)
    same_order = mine["label_names"] == theirs["label_names"]  # Parts of claims sort theirs.
    for name, values in mine["state"].items():
        if not same_order and name.startswith(("label", "predicted")):
            continue
        if "confidence" in name or name in ("nll", "brier"):
            np.testing.assert_allclose(values, theirs["state"][name], rtol=1e-12, err_msg=name)
        elif not found.state.weighted:
            assert values == theirs["state"][name], name
    assert [m["row"] for m in mine["mistakes"]] == [m["row"] for m in theirs["mistakes"]]


def assert_close(mine, theirs, what, tolerance=1e-9):
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), what
        for key in mine:
            assert_close(mine[key], theirs[key], f"{what}.{key}", tolerance)
    elif isinstance(mine, list):
        assert len(mine) == len(theirs), what
        for k, pair in enumerate(zip(mine, theirs, strict=True)):
            assert_close(*pair, f"{what}[{k}]", tolerance)
    elif isinstance(mine, float):
        assert mine == pytest.approx(theirs, rel=tolerance, abs=tolerance), what
    elif mine is None or theirs is None or isinstance(mine, str):
        assert tolerance > 1e-9 or mine == theirs, what
    else:
        assert mine == theirs, what


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sketched", [False, True])
def test_parts_are_the_whole(case, sketched, tmp_path, monkeypatch):
    if sketched:
        for module in (auditing_run, distributed_auditing):
            monkeypatch.setattr(module, "MOST_SORTED", 1000)
    p = CASES[case]()
    cuts = [cut for cut in (1, 8, 1000, 2003, 4500, 5999) if cut < len(p)]
    folder = write_shards(p, tmp_path / "shards", cuts, groups=3)
    whole = tmp_path / "whole.parquet"
    write(p, whole)
    expected = calibrant.audit(calibrant.read(whole), **OPTIONS)
    for scores in (2000, 15_000):
        monkeypatch.setattr(distributed_auditing, "open_dataset", _opened_with(scores))
        # One process sorts the confidences of entities; parts sketch them too.
        assert_same(audit(str(folder), **OPTIONS), expected, 1e-3 if sketched else 1e-9)


def _opened_with(scores):
    from calibrant.distributed.engine import LocalEngine, Parts
    from calibrant.distributed.engines import Opened
    from calibrant.distributed.parquet_parts import plan_parts

    def opened(source, engine, *, skip_damaged=False):
        plan = plan_parts(source, scores=scores, skip_damaged=skip_damaged)
        assert len(plan.parts) > 1
        parts = list(reversed(plan.parts))  # The order of parts means nothing.
        dataset = Parts(engine or LocalEngine(), parts, plan.schemas[0], plan.rows)
        return Opened(dataset, list(zip(plan.files, plan.schemas, strict=True)), plan.damaged)

    return opened


class Measured(LocalEngine):
    """Notes how many bytes each part returns."""

    def __init__(self):
        self.sizes = []

    def map(self, task, parts):
        for result in super().map(task, parts):
            self.sizes.append(len(result))
            yield result


def test_without_intervals_parts_return_sums_without_blocks(tmp_path):
    folder = str(write_shards(random_predictions(3000), tmp_path / "shards", [1000]))
    engines = [Measured(), Measured()]
    for engine, bootstrap in zip(engines, (0, 100), strict=True):
        audit(folder, engine=engine, bootstrap=bootstrap)
    assert 5 * max(engines[0].sizes) < min(engines[1].sizes)


def test_ignored_rows_are_counted_once(tmp_path):
    p = random_predictions()
    labels = p.labels.copy()
    labels[1000:3100] = -100
    labels[5999] = -100
    import pyarrow as pa
    import pyarrow.parquet as pq

    scores = pa.FixedSizeListArray.from_arrays(pa.array(p.scores.ravel()), 4)
    table = pa.table({"logits": scores, "label": labels})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    found = audit(str(tmp_path / "a.parquet"), bootstrap=0)
    expected = calibrant.audit(calibrant.read(tmp_path / "a.parquet"), bootstrap=0)
    assert found.provenance["ignored"] == 2101
    assert found["ece"].value == pytest.approx(expected["ece"].value, rel=1e-12)
    assert [m.row for m in found.mistakes] == [m.row for m in expected.mistakes]


def test_many_labels_of_a_row_are_one_group(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    p = random.random((3000, 4))
    columns = {"probabilities": p, "label": (random.random(p.shape) < p**1.5).astype(np.int64)}
    lists = {n: pa.FixedSizeListArray.from_arrays(c.ravel(), 4) for n, c in columns.items()}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(lists), path, row_group_size=700)
    expected = calibrant.audit(calibrant.read(path, kind="multi-label"), bootstrap=100)
    opened = _opened_with(3000)(str(path), None)
    found = audit(opened.dataset, kind="multi-label", bootstrap=100)
    assert_same(found, expected)


def test_a_calibrator_is_applied_on_the_workers(tmp_path):
    p = random_predictions()
    calibrator = calibrant.Temperature().fit(p)
    folder = write_shards(p, tmp_path / "shards", [3000])
    found = audit(str(folder), calibrator=calibrator, bootstrap=0)
    expected = calibrant.audit(calibrator.transform(p), bootstrap=0)
    assert found["ece"].value == pytest.approx(expected["ece"].value, rel=1e-9)


def test_a_part_survives_the_way_as_bytes(tmp_path):
    from calibrant.auditing.collect import Collector
    from calibrant.metrics import Bins

    p = random_predictions(500, classes=5, sentences=7, names=TAGS)
    part = PartialAudit(Collector(Bins(15)), "a.parquet").add([p])
    data = part.to_bytes()
    assert PartialAudit.from_bytes(data).to_bytes() == data
    damaged = data[:2000] + bytes([data[2000] ^ 1]) + data[2001:]
    with pytest.raises(InputError, match="damaged"):
        PartialAudit.from_bytes(damaged)


def test_damage_in_what_is_left_out_is_refused():
    messages = ("a.parquet: row group 3 is damaged.",)
    data = LeftOut(2, 500, messages).before(b"CLBR the state")
    assert LeftOut.split(data) == (LeftOut(2, 500, messages), b"CLBR the state")
    for place in range(data.index(b"CLBR the state")):
        with pytest.raises(InputError, match="from_bytes"):
            LeftOut.split(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])


def answers_in_parts(folder, predicted, true):
    """Return two parts with these predicted and true labels, and their schema."""
    parts = []
    for k, (mine, theirs) in enumerate(zip(predicted, true, strict=True)):
        table = pa.table({"pred_label": [mine] * 40, "label": [theirs, "a"] * 20})
        table = table.append_column("confidence", [[0.6] * 40])
        pq.write_table(table, folder / f"{k}.parquet")
        parts.append(FilePart((Segment(str(folder / f"{k}.parquet"), (0,), (40,), 0),), 40 * k))
    return parts, table.schema


def test_texts_such_as_na_have_one_reading_in_all_parts(tmp_path):
    """In memory a predicted NA makes every NA a class; parts do not know of each other."""
    parts, schema = answers_in_parts(tmp_path, ("a", "NA"), ("NA", "NA"))
    for order in (parts, parts[::-1]):
        dataset = Parts(LocalEngine(), order, schema, 80)
        for task in (audit, lambda d, **_: fit(d, "temperature")):
            with pytest.raises(InputError, match="'NA' is predicted, but was read as a missing"):
                task(dataset, bootstrap=0)
    named = Columns(label_names=("a", "NA"))
    assert audit(Parts(LocalEngine(), parts, schema, 80), columns=named).provenance["n"] == 80


def test_each_part_tells_which_texts_it_read_as_no_label(tmp_path):
    parts, schema = answers_in_parts(tmp_path, ("a", "a"), ("NA", "None"))
    found = audit(Parts(LocalEngine(), parts, schema, 80), bootstrap=0)
    assert any("'NA', 'None' were read as no label" in line for line in found.warnings)
