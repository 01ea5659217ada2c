"""Runs tested on more than their test split: corrupted text, and other corpora."""

import numpy as np
import pytest

from calibrant.errors import InputError
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.measure import measure_run
from calibrant.experiments.outcome import record_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_file import expand_grid
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks import task_of
from calibrant.tasks.ner.data import prepare
from calibrant.tasks.ner.shift import shifted_tests
from calibrant.tasks.ner.word_predictions import predict_words

pytest.importorskip("transformers")

POSTS = "Anna\tB-person\nlikes\tO\nNutella\tB-product\nfrom\tO\nAcme\tB-corporation\n.\tO\n"


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    path = tmp_path_factory.mktemp("posts") / "posts.conll"
    path.write_text(POSTS)
    return str(path)


def recipe(corpus, *shift, **changes):
    settings = {
        "data": str(corpus), "model": "tiny", "epochs": 1, "batch": 8, "learning_rate": 5e-3,
        "dtype": "float32", "head_width": 16, "shift": shift,
    }  # fmt: skip
    return Recipe(**{**settings, **changes})


def test_what_the_pieces_hold(corpus, posts):
    made = recipe(corpus, "typos-1", "typos-5", "dropped-words-5", posts)
    data = prepare(made)
    parts = shifted_tests(made, data)
    assert list(parts) == list(made.shift)
    clean = data.splits["test"]
    for name in ("typos-1", "typos-5"):
        labels = parts[name].labels
        np.testing.assert_array_equal(
            labels[labels != IGNORED], clean.labels[clean.labels != IGNORED]
        )
    assert (parts["typos-5"].labels != IGNORED).sum() > (
        parts["dropped-words-5"].labels != IGNORED
    ).sum()
    assert not np.array_equal(parts["typos-1"].ids, parts["typos-5"].ids)
    other = parts[posts]
    kept = other.labels != IGNORED
    assert other.words[kept].tolist() == [0, 1, 3, 4, 5]
    named = [data.labels[label] for label in other.labels[kept]]
    assert named == ["B-PER", "O", "O", "B-ORG", "O"]


def test_they_are_made_once_and_do_not_depend_on_the_run(corpus):
    made = recipe(corpus, "typos-3")
    first = shifted_tests(made, prepare(made))["typos-3"]
    other = recipe(corpus, "casing-1", "typos-3", seed=7, method="focal")
    assert shifted_tests(other, prepare(other))["typos-3"] is first


def test_words_that_are_not_judged_across_windows(corpus, tmp_path):
    """A sentence of several windows: each word once, and those of other types not at all."""
    long = "".join(f"w{i}\t{'B-product' if i % 3 == 0 else 'B-person'}\n" for i in range(40))
    (tmp_path / "long.conll").write_text(long + "\nAnna\tB-person\n")
    made = recipe(corpus, str(tmp_path / "long.conll"), max_length=16)
    data = prepare(made)
    part = shifted_tests(made, data)[made.shift[0]]
    assert (part.sentences == 0).sum() > 2
    owner = np.repeat(part.sentences, part.lengths)
    kept = part.labels != IGNORED
    words = sorted(part.words[kept & (owner == 0)].tolist())
    assert words == [i for i in range(40) if i % 3]
    assert part.words[kept & (owner == 1)].tolist() == [0]


def test_the_numbers_are_those_of_the_map_fitted_in_domain(corpus, posts):
    made = recipe(corpus, "casing-5", posts)
    data = prepare(made)
    model = task_of("ner").build_model(made, data).eval()
    found = {**data.parts, **shifted_tests(made, data)}
    p = {k: predict_words(model, v, data.labels, padding=data.padding) for k, v in found.items()}
    shift = {name: p[name] for name in made.shift}
    results = measure_run(p["valid"], p["test"], shift=shift)
    scale = results["temperature"]["temperature"]
    for name, part in shift.items():
        assert results["identity"]["shift"][name] == pytest.approx(
            task_of("ner").measure(part), nan_ok=True
        )
        more = {"label_names": part.label_names, "groups": part.groups}
        cooled = Predictions.from_logits(part.scores / np.float32(scale), part.labels, **more)
        shown = results["temperature"]["shift"][name]
        assert shown["nll"] == pytest.approx(task_of("ner").measure(cooled)["nll"], rel=1e-5)
        assert {"entity_f1", "ece", "aurc", "auroc", "accuracy"} <= set(shown)
    assert "shift" not in measure_run(p["valid"], p["test"])["identity"]


def test_a_cell_and_a_run_measure_the_same(corpus, posts, tmp_path):
    made = recipe(corpus, "typos-2", posts)
    outcome = next(o for o in run_cell([made], None, "cpu") if o is not None)
    assert list(outcome.shift) == list(made.shift)
    record = train(made, tmp_path / "run", device="cpu", bootstrap=0, say=str)
    one, other = (r.results["identity"]["shift"] for r in (record, record_of(outcome, {})))
    assert list(one) == list(made.shift)
    for name in made.shift:
        assert one[name] == pytest.approx(other[name], nan_ok=True)
    again = read_record(tmp_path / "run" / "metrics.json")
    assert again.recipe == made
    assert list(again.results["temperature"]["shift"]) == list(made.shift)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("typos-6", "1, 2, 3, 4 or 5, got 'typos-6'"),
        ("typos-0", "got 'typos-0'"),
        ("typo-3", "Did you mean 'typos-3'"),
        ("wnut18", "Did you mean 'wnut17'"),
        ("nonsense", "Unknown shift 'nonsense'"),
    ],
)
def test_bad_names_are_refused_before_training(corpus, tmp_path, name, message):
    made = recipe(corpus, name)
    with pytest.raises(InputError, match=message):
        train(made, tmp_path / "run", device="cpu", say=str)
    with pytest.raises(InputError, match=message):
        next(run_cell([made], None, "cpu"))
    assert not (tmp_path / "run").exists()


def test_another_corpus_without_a_shared_type(corpus, tmp_path):
    (tmp_path / "diseases.conll").write_text("flu\tB-Disease\n")
    made = recipe(corpus, str(tmp_path / "diseases.conll"))
    with pytest.raises(InputError, match="it has Disease, training has LOC, ORG, PER"):
        shifted_tests(made, prepare(made))


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        ("typos-1", "shift is a list of names"),
        ([1], "shift is a list of names"),
        ([""], "shift is a list of names"),
        (["typos-1", "typos-1"], "twice"),
    ],
)
def test_bad_lists(shift, message):
    with pytest.raises(InputError, match=message):
        Recipe(shift=shift)


def test_in_a_grid_the_names_are_one_setting():
    names = ["typos-1", "wnut17"]
    assert [r.shift for r in expand_grid({}, [{"shift": names, "seed": [0, 1]}])] == [
        tuple(names)
    ] * 2
    assert [r.shift for r in expand_grid({"shift": names}, [{}])] == [tuple(names)]
    assert [r.shift for r in expand_grid({}, [{"shift": [names, []]}])] == [tuple(names), ()]
    assert [r.shift for r in expand_grid({}, [{"shift": []}])] == [()]
