"""The calibrator that reads signals: what it promises beyond the contract of all."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from calibrator_samples import quiet_fit

from calibrant import InputError, Predictions
from calibrant.calibrators import ShiftAware, Temperature, load_calibrator
from calibrant.calibrators.backend import log_odds
from calibrant.calibrators.saving import from_dict, to_dict
from calibrant.calibrators.shift_fit import _basis, _Problem, fit_shares
from calibrant.calibrators.signals import signal_columns, top_of
from calibrant.files import read, rewrite, suffixes
from calibrant.metrics import ece, nll

PAGE = Path(__file__).parents[2] / "docs" / "under-shift.md"


def sample(n=3000, damage=0.0, seed=0, corruption=None):
    """Words whose pieces say how often they are wrong; logits do not."""
    rng = np.random.default_rng(seed)
    pieces = 1 + rng.poisson(0.2 + damage, n)
    labels = rng.integers(0, 3, n)
    shown = np.where(rng.random(n) < 0.12 * pieces, rng.integers(0, 3, n), labels)
    logits = 3 * np.eye(3)[shown] + rng.normal(size=(n, 3))
    groups = {"sentence": np.arange(n) // 10}
    if corruption is not None:
        groups["corruption"] = np.full(n, corruption)
    names = ("O", "B-X", "I-X")
    return Predictions.from_logits(
        logits, labels, label_names=names, groups=groups, signals={"pieces": pieces}
    )


@pytest.fixture(scope="module")
def valid():
    copies = [sample(damage=s, seed=s, corruption=f"typos-{s}") for s in (1, 3)]
    return Predictions.concatenate([sample(corruption=""), *copies])


@pytest.fixture(scope="module")
def fitted(valid):
    return ShiftAware().fit(valid)


def test_examples_of_the_page_run():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


def test_it_is_honest_on_more_damage_than_it_saw(fitted):
    clean, damaged = sample(seed=8), sample(damage=5, seed=9)
    temperature = Temperature().fit(sample())
    assert ece(fitted.transform(damaged)) < ece(temperature.transform(damaged)) / 4
    assert ece(fitted.transform(clean)) < 0.03


def test_it_is_monotone_in_the_confidence_for_equal_signals(fitted):
    logits = np.zeros((200, 3))
    logits[:, 1] = np.linspace(0, 12, 200)
    columns = {name: np.full(200, 1.5) for name in fitted.signals_}
    # The row signals change with the confidence; held still, only g₁ and g₂ move.
    slopes = fitted.log_odds_slopes_
    assert (slopes >= 0).all()
    nodes = fitted.log_odds_nodes_[0]
    for k in range(2):
        lines = fitted.log_odds_intercepts_[k, 0], slopes[k, 0]
        at = [lines[0][j] + lines[1][j] * nodes[j] for j in range(len(nodes))]
        after = [lines[0][j + 1] + lines[1][j + 1] * nodes[j] for j in range(len(nodes))]
        np.testing.assert_allclose(at, after, atol=1e-9)  # No jump at a node.
    values = {**fitted.learned(), **columns}
    assert np.isfinite(fitted.apply(logits, "logits", values)).all()


def test_row_signals_against_plain_loops():
    rng = np.random.default_rng(0)
    logits = 5 * rng.normal(size=(50, 4))
    top = top_of(logits)
    np.testing.assert_allclose(top.log_odds, log_odds(logits).max(axis=1), rtol=1e-9)
    for i, row in enumerate(logits):
        p = np.exp(row) / np.exp(row).sum()
        ordered = np.sort(row)
        assert top.margin[i] == pytest.approx(ordered[-1] - ordered[-2])
        assert np.exp(top.entropy[i]) == pytest.approx(max(-(p * np.log(p)).sum(), 1e-6))
        np.testing.assert_allclose(top.below[i], np.log(p) - np.log(p.max()), atol=1e-12)


def test_context_against_plain_loops():
    p = sample(n=95)
    p = p[np.random.default_rng(3).permutation(95)]
    names = ["pieces", "sentence.pieces", "sentence.log_odds", "sentence.unsure", "sentence.size"]
    found = signal_columns("X", names, p.scores, "logits", 0.0, p.groups, p.signals)
    z = log_odds(p.scores).max(axis=1)
    for i, sentence in enumerate(p.groups["sentence"]):
        same = p.groups["sentence"] == sentence
        assert found["sentence.pieces"][i] == pytest.approx(p.signals["pieces"][same].mean())
        assert found["sentence.log_odds"][i] == pytest.approx(z[same].mean())
        assert found["sentence.unsure"][i] == pytest.approx((z[same] < np.log(9)).mean())
        assert found["sentence.size"][i] == pytest.approx(np.log(same.sum()))


def test_copies_of_a_sentence_are_sentences_of_their_own():
    p = Predictions.concatenate([sample(n=20, corruption=""), sample(n=20, corruption="ocr-1")])
    both = signal_columns("X", ["sentence.size"], p.scores, "logits", 0.0, p.groups, p.signals)
    np.testing.assert_allclose(both["sentence.size"], np.log(10))


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    signals, z = rng.normal(size=(60, 2)), rng.normal(size=60)
    nodes = [np.array([-1.0, 0.0, 1.0, 2.0]), np.array([-1.0, 1.0])]
    basis, curve = _basis(nodes, signals), _basis([np.array([-2.0, 0, 2])], z[:, None])
    problem = _Problem(basis, curve, rng.random(60).round(), np.full(60, 1 / 60), 0.3)
    x = problem.start + 0.3 * rng.normal(size=len(problem.start))
    steps = 1e-6 * np.eye(len(x))
    slow = [(problem(x + s)[0] - problem(x - s)[0]) / 2e-6 for s in steps]
    np.testing.assert_allclose(problem(x)[1], slow, atol=1e-7)


def flat_or_sharp(n=3000, seed=0):
    """Wrong rows whose true class is drawn from p^e of the others: e is 3 or 0.3, as π says."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 5))
    logits[:, 2] += 15
    gate = rng.integers(0, 2, n).astype(float)
    drawn = np.where(gate > 0, 0.3, 3.0)[:, None] * logits + rng.gumbel(size=logits.shape)
    drawn[:, 2] = -np.inf
    return logits, drawn.argmax(1), gate


def test_shares_of_the_other_classes_are_found():
    logits, labels, gate = flat_or_sharp()
    found = fit_shares(logits, labels, gate, np.ones(len(labels)), 0.1)
    np.testing.assert_allclose(found, [3.0, 0.3], atol=0.15)


def test_shares_minimise_what_a_plain_loop_adds_up():
    logits, labels, gate = flat_or_sharp(n=60)
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    gate = np.clip(gate, 0.2, 0.9)

    def loss(e):
        total = 0.0
        for row, label, share, w in zip(logits, labels, gate, weight, strict=True):
            power = np.exp(row * ((1 - share) * e[0] + share * e[1]))
            total -= w * np.log(power[label] / (power.sum() - power[2]))
        examples = weight.sum() ** 2 / (weight**2).sum()
        return total / weight.sum() + 0.5 * 8.0 / examples * ((np.asarray(e) - 1) ** 2).sum()

    found = fit_shares(logits, labels, gate, weight, 8.0)
    for step in (0.01, -0.01):
        for moved in (np.array([step, 0]), np.array([0, step])):
            assert loss(found) < loss(found + moved)


@pytest.mark.parametrize("classes", [2, 5])
def test_without_mistakes_or_other_classes_the_shares_stay(classes):
    rows = 0 if classes > 2 else 3  # Of which the prediction is wrong.
    logits, labels = np.eye(classes)[[0] * rows], np.ones(rows, int)
    found = fit_shares(logits, labels, np.zeros(rows), np.ones(rows), 8.0)
    np.testing.assert_array_equal(found, 1)
    p = Predictions.from_logits(np.eye(classes)[[0, 1, 0]], [0, 1, 0])
    np.testing.assert_array_equal(quiet_fit(ShiftAware(), p).share_exponents_, 1)


def test_transformed_rows_have_these_shares(fitted):
    logits = np.array([[4.0, 1.0, 0.5]])
    columns = {name: np.zeros(1) for name in fitted.signals_}
    learned = {**fitted.learned(), "temperature_": 1.0}
    values = {**learned, **columns, "share_exponents_": np.array([2.0, 2.0])}
    found = fitted.apply(logits, "logits", values)[0]
    assert found[1] / found[2] == pytest.approx(np.exp(2.0 * 0.5))
    plain = {**values, "share_exponents_": np.ones(2)}
    before = fitted.apply(logits, "logits", plain)[0]
    assert found[0] == before[0]
    assert before[1] / before[2] == pytest.approx(np.exp(0.5))


def test_a_file_of_an_earlier_version_keeps_the_raw_shares(fitted, tmp_path):
    content = to_dict(fitted)
    assert not np.allclose(fitted.share_exponents_, 1)
    del content["learned"]["share_exponents_"], content["learned"]["temperature_"]
    again, p = from_dict(content, "map.json"), sample(n=50)
    np.testing.assert_array_equal(again.share_exponents_, 1)
    assert again.temperature_ == 1
    before, after = p.probabilities(), again.transform(p).scores
    rows, top = np.arange(50), p.scores.argmax(1)
    ratio = after / before
    ratio[rows, top] = np.nan
    assert np.nanmax(ratio, 1) == pytest.approx(np.nanmin(ratio, 1))


def test_damaged_shares_are_refused(fitted):
    content = to_dict(fitted)
    content["learned"]["share_exponents_"]["values"] = [1.0, -1.0]
    with pytest.raises(InputError, match="share_exponents_ of shift-aware is below 0"):
        from_dict(content, "map.json")


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({}, "the signal 'pieces', which is missing; got signals"),
        ({"piece": np.ones(30)}, "Did you mean 'piece'"),
        ({"pieces": np.ones(29)}, "30 examples, 29 values"),
        ({"pieces": np.full(30, np.nan)}, "must be finite, got nan at row 0"),
    ],
)
def test_bad_signals_are_named(fitted, signals, message):
    p = sample(n=30)
    with pytest.raises(InputError, match=message):
        fitted.transform_scores(p.scores, "logits", p.groups, signals)


def test_a_missing_group_is_named(fitted):
    p = sample(n=30)
    with pytest.raises(InputError, match=r"needs groups\['sentence'\]"):
        fitted.transform_scores(p.scores, "logits", {}, p.signals)


@pytest.mark.parametrize("name", ["size", "log_odds", "unsure", "margin", "a.b"])
def test_signals_of_any_name(name):
    """Some are names of what a group has anyway."""
    rows = np.random.default_rng(0).normal(size=(300, 5))
    labels = rows[:, :3].argmax(1)
    labels[::7] = 0
    groups = {"sentence": np.arange(300) // 5}
    signals = {name: rows[:, 3], "zz": rows[:, 4]}
    p = Predictions.from_logits(rows[:, :3], labels, groups=groups, signals=signals)
    fitted = ShiftAware().fit(p)
    assert len(set(fitted.signals_)) == len(fitted.signals_) == len(fitted.nodes_) - 3
    assert np.isfinite(fitted.transform(p).scores).all()


@pytest.mark.parametrize("name", ["sentence.x", "batch.size", "image.q"])
def test_names_of_means_are_refused(name):
    signals = {name: np.arange(4.0)}
    p = Predictions.from_logits(np.eye(2)[[0, 1, 0, 1]], [0, 1, 1, 0], signals=signals)
    with pytest.raises(InputError, match=f"may not be called '{name}'.*'{name.replace('.', '_')}'"):
        ShiftAware().fit(p)


def test_huge_signals_stay_finite_also_in_float32():
    """The sum over a sentence would be infinite, and so would the column in an export."""
    rows = np.random.default_rng(0).normal(size=(300, 3))
    far = np.where(np.arange(300) < 20, 1.7e308, rows[:, 2])
    groups = {"sentence": np.arange(300) // 5}
    labels = (rows[:, 1] > rows[:, 0]).astype(int)
    labels[::7] = 0
    p = Predictions.from_logits(rows[:, :2], labels, groups=groups, signals={"far": far})
    fitted = ShiftAware().fit(p[20:])
    assert np.isfinite(fitted.transform(p).scores).all()
    columns = fitted.signal_columns(p)
    assert all(np.isfinite(column.astype(np.float32)).all() for column in columns.values())


def test_signals_can_be_chosen(valid):
    more = valid.with_signals({"noise": np.random.default_rng(0).random(len(valid))})
    chosen = ShiftAware(signals=["pieces"]).fit(more)
    assert not any("noise" in name for name in chosen.signals_)
    with pytest.raises(InputError, match="the signal 'length', which is missing"):
        ShiftAware(signals=["length"]).fit(more)


def test_hyperparameters_are_checked():
    for wrong in ({"clean_weight": 0}, {"penalty": -1}, {"rows": 1}):
        with pytest.raises(InputError, match="ShiftAware expects"):
            ShiftAware(**wrong)


def uninformed(rng, n, corruption):
    """Rows whose signals say nothing, with scores twice too large."""
    labels = rng.integers(0, 4, n)
    logits = 2 * (2 * np.eye(4)[labels] + 1.5 * rng.normal(size=(n, 4)))
    signals = {f"noise {i}": rng.normal(size=n) for i in range(6)}
    groups = {"corruption": np.full(n, corruption)}
    return Predictions.from_logits(logits, labels, groups=groups, signals=signals)


@pytest.mark.parametrize("weight", [3, 12])
def test_a_high_weight_does_not_learn_clean_rows_by_heart(weight):
    rng = np.random.default_rng(0)
    names = ["", *(f"typos-{n}" for n in range(10))]
    valid = Predictions.concatenate([uninformed(rng, 400, name) for name in names])
    test = uninformed(rng, 5000, "")
    temperature = Temperature().fit(valid[:400]).transform(test)
    found = ShiftAware(clean_weight=weight).fit(valid).transform(test)
    assert nll(found) < nll(temperature) + 0.008


def test_with_few_rows_it_is_near_the_temperature():
    rng = np.random.default_rng(1)
    valid = Predictions.concatenate([uninformed(rng, 40, name) for name in ("", "ocr-1")])
    found = ShiftAware().fit(valid)
    assert found.temperature_ == pytest.approx(Temperature().fit(valid[:40]).temperature_)
    test = uninformed(rng, 5000, "")
    assert nll(found.transform(test)) < nll(test) - 0.1


def test_few_rows_are_drawn_from_many(valid):
    small = quiet_fit(ShiftAware(rows=2000), valid)
    assert ece(small.transform(sample(damage=3, seed=5))) < 0.08


def test_it_survives_its_file(fitted, tmp_path):
    fitted.save(tmp_path / "map.json")
    again, p = load_calibrator(tmp_path / "map.json"), sample(n=500, damage=2, seed=4)
    assert again.signals_ == fitted.signals_
    assert again.groups_ == ("sentence",)
    assert np.array_equal(again.transform(p).scores, fitted.transform(p).scores)


@pytest.mark.parametrize("suffix", suffixes())
def test_a_file_is_mapped_whole_so_that_no_sentence_is_cut(fitted, suffix, tmp_path):
    p = sample(n=60, damage=2, seed=4)
    path, target = tmp_path / f"p{suffix}", tmp_path / f"q{suffix}"
    p.write(path)
    # Seven rows are less than a sentence.
    rewrite(path, target, fitted.transform, groups=fitted.groups_, rows=7, whole=True)
    np.testing.assert_allclose(read(target).scores, fitted.transform(p).scores, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.drop_columns(["signal.pieces"]), "the signal 'pieces', which is missing"),
        (lambda s: _renamed(s, "signal.pieces", "signal.piece"), "Did you mean 'piece'"),
        (lambda s: _renamed(s, "signal.pieces", "pieces"), "the signal 'pieces', which is missing"),
        (lambda s: _with_nan(s, "signal.pieces"), "must be finite, got nan at row 2"),
        (lambda s: s.drop_columns(["sentence"]), "sentence"),
    ],
)
def test_files_with_other_signals_end_in_one_line(fitted, change, message, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    from calibrant.cli import main

    sample(n=30).write(tmp_path / "whole.parquet")
    parquet.write_table(
        change(parquet.read_table(tmp_path / "whole.parquet")), tmp_path / "p.parquet"
    )
    fitted.save(tmp_path / "map.json")
    out = tmp_path / "out.parquet"
    command = ["apply", str(tmp_path / "map.json"), str(tmp_path / "p.parquet"), "-o", str(out)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()


def _renamed(table, old, new):
    return table.rename_columns([new if name == old else name for name in table.column_names])


def _with_nan(table, name):
    import pyarrow

    values = table[name].to_numpy().astype(float)
    values[2] = np.nan
    return table.set_column(table.column_names.index(name), name, pyarrow.array(values))


def test_signals_of_another_length_are_refused_with_their_predictions():
    with pytest.raises(InputError, match="pieces"):
        Predictions.from_logits(np.zeros((3, 2)), [0, 1, 0], signals={"pieces": [1, 2]})


def test_a_batch_is_a_context_like_a_sentence():
    p = sample(n=40)
    groups = {"batch": p.groups["sentence"]}
    flat = Predictions.from_logits(p.scores, p.labels, groups=groups, signals=p.signals)
    names = ["pieces", "batch.pieces", "batch.log_odds"]
    found = signal_columns("X", names, flat.scores, "logits", 0.0, flat.groups, flat.signals)
    same = ["pieces", "sentence.pieces", "sentence.log_odds"]
    expected = signal_columns("X", same, p.scores, "logits", 0.0, p.groups, p.signals)
    for one, other in zip(names, same, strict=True):
        np.testing.assert_array_equal(found[one], expected[other])
