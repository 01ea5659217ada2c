"""Records in their places: read once, separated where they differ, in a fixed order."""

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from calibrant import InputError
from calibrant.json_values import json_values
from calibrant.study import build_study
from calibrant.study.figures import figures_of
from calibrant.study.runs import arrange
from calibrant.study.study import read_all
from calibrant.study.summary import missing, origins


def write_lines(path, *records):
    path.write_text("\n".join(json.dumps(json_values(asdict(record))) for record in records) + "\n")
    return path


def test_folders_and_files_are_read_as_one(tmp_path, make_record):
    first, second, third = (make_record(seed=seed) for seed in range(3))
    (tmp_path / "runs").mkdir()
    first.write(tmp_path / "runs")
    (tmp_path / "runs" / ".half.json").write_text("{")
    lines = write_lines(tmp_path / "more.jsonl", second, third, first)
    found = read_all([tmp_path / "runs", lines])
    assert [record.recipe.seed for record in found] == [0, 1, 2]
    alone = third.write(tmp_path)
    assert read_all([alone]) == [third]


def test_the_same_run_twice_with_other_numbers_is_refused(tmp_path, make_record):
    one, other = make_record(ece=0.01), make_record(ece=0.02)
    (tmp_path / "a").mkdir()
    one.write(tmp_path / "a")
    lines = write_lines(tmp_path / "b.jsonl", one, other)
    with pytest.raises(InputError) as error:
        read_all([tmp_path / "a", lines])
    message = str(error.value)
    assert one.recipe.key in message
    assert str(tmp_path / "a" / f"{one.recipe.key}.json") in message
    assert f"{lines}, line 2" in message
    assert "differ in" in message
    assert "ece: 0.01 and 0.02" in message


def test_a_repeated_or_rounded_run_is_the_same(tmp_path, make_record):
    """It took other seconds, with another commit, and one file has six digits."""
    one, again = make_record(ece=0.0123456789), make_record(ece=0.0123457)
    later = {**again.circumstances, "git": "another"}
    again = replace(again, circumstances=later, training={**again.training, "seconds": 99.0})
    assert read_all([write_lines(tmp_path / "a.jsonl", one, again)]) == [one]


def test_records_of_the_same_run_that_lack_a_calibrator_are_refused(tmp_path, make_record):
    one, other = make_record(), make_record()
    (first, *_) = other.results
    other = replace(other, results={k: v for k, v in other.results.items() if k != first})
    with pytest.raises(InputError, match=f"differ in its results: {first}"):
        read_all([write_lines(tmp_path / "a.jsonl", one, other)])


def test_folders_of_runs_are_read_too(tmp_path, make_record):
    records = [make_record(seed=seed) for seed in range(2)]
    for record in records:
        run = tmp_path / f"run-{record.recipe.seed}"
        run.mkdir()
        (run / "recipe.json").write_text("{}")
        record.write(run, "metrics.json")
    assert read_all([tmp_path]) == records
    assert read_all([tmp_path / "run-1"]) == records[1:]


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"recipe": {}}', '{"recipe": {"sede": 1}}'])
def test_what_is_no_record_is_named(tmp_path, text):
    (tmp_path / "bad.jsonl").write_text(f"\n{text}\n")
    with pytest.raises(InputError, match=r"bad\.jsonl, line 2 is not a record"):
        read_all([tmp_path])


def test_no_records_are_an_error(tmp_path):
    with pytest.raises(InputError, match="No records in"):
        read_all([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        read_all([tmp_path / "none"])
    with pytest.raises(InputError, match="at least one record"):
        arrange([])
    (tmp_path / "picture.jsonl").write_bytes(b"\x89PNG\xff")
    with pytest.raises(InputError, match="holds no text"):
        read_all([tmp_path])


def test_other_settings_are_other_units(make_record):
    records = [make_record(seed=s) for s in range(3)]
    records += [make_record(seed=s, batch=3, learning_rate=5e-5) for s in range(2)]
    runs = arrange(records)
    assert [run.unit for run in runs] == ["gum"] * 3 + ["gum (batch 3, learning rate 5e-05)"] * 2
    by = arrange(records, ["batch", "learning_rate"])
    assert {run.unit for run in by} == {"gum"}
    assert [run.by for run in by] == [(3, 5e-5)] * 2 + [(32, 1e-4)] * 3


def test_a_corpus_may_have_a_batch_of_its_own(make_record):
    batches = {"conll2003": 64, "gum": 32, "wikiann-en": 64}
    records = [make_record(data=d, batch=b, seed=s) for d, b in batches.items() for s in range(3)]
    records.append(make_record(data="gum", batch=3))
    runs = arrange(records)
    assert sorted({run.unit for run in runs}) == ["conll2003", "gum", "gum (batch 3)", "wikiann-en"]
    found = origins(runs)["settings unless a unit says otherwise"]
    assert found["batch"] == "64 (32 on gum)"
    assert found["epochs"] == 10


def test_the_main_setting_is_one_that_was_run(make_record):
    pairs = [(32, 1e-4)] * 2 + [(64, 1e-4)] * 2 + [(32, 2e-4)] * 3
    records = [
        make_record(batch=batch, learning_rate=rate, seed=s)
        for s, (batch, rate) in enumerate(pairs)
    ]
    # Most have batch 32 and most have 1e-4, but most have 32 with 2e-4.
    counts = Counter(run.unit for run in arrange(records))
    assert counts["gum"] == 3
    assert counts["gum (learning rate 0.0001)"] == counts["gum (batch 64, learning rate 0.0001)"]


def test_a_tie_of_settings_goes_to_what_other_corpora_have(make_record):
    records = [make_record(batch=batch) for batch in (32, 64)]
    records += [make_record(data="wnut17", batch=64, seed=s) for s in range(3)]
    units = {run.record.recipe.batch: run.unit for run in arrange(records) if run.corpus == "gum"}
    assert units == {64: "gum", 32: "gum (batch 32)"}


def test_corpora_of_the_same_name_are_not_mixed(make_record):
    places = ("a/corpus", "b/corpus", "c/gum")
    runs = arrange([make_record(data=place, seed=s) for place in places for s in range(2)])
    assert [run.unit for run in runs] == ["a/corpus"] * 2 + ["b/corpus"] * 2 + ["gum"] * 2


def test_a_tie_of_settings_is_broken_the_same_way_each_time(make_record):
    records = [make_record(batch=32), make_record(batch=64)]
    assert [r.unit for r in arrange(records)] == [r.unit for r in arrange(records[::-1])]


def architectures(make_record, **more):
    """Each model with the training that it usually has."""
    usual = {"task": "image", "data": "cifar10", "shift": ("jpeg-1", "jpeg-5"), "head_depth": 0}
    trained = {
        "resnet18": {"optimizer": "sgd", "epochs": 10},
        "lenet": {"optimizer": "sgd", "epochs": 15},
        "vit_tiny": {"optimizer": "adamw", "epochs": 15},
    }
    return [
        make_record(model=model, seed=seed, **{**usual, **settings, **more.get(model, {})})
        for model, settings in trained.items()
        for seed in range(2)
    ]


def test_models_shown_side_by_side_are_each_trained_in_their_own_way(make_record):
    records = architectures(make_record)
    assert len({run.unit for run in arrange(records)}) == 3
    study = build_study(records, by=["model"])
    assert set(study.units) == {"cifar10"}
    message = "Trained with epochs 15 (10 on resnet18), optimizer sgd (adamw on vit_tiny)."
    assert message in study.summary
    settings = study.origins["settings unless a unit says otherwise"]
    assert settings["epochs"] == "15 (10 on resnet18)"
    assert settings["batch"] == 32


def test_two_trainings_of_one_model_stand_apart_among_models_too(make_record):
    records = architectures(make_record)
    records += architectures(make_record, lenet={"epochs": 30})[2:4]
    units = {run.unit for run in arrange(records, ["model"])}
    # The optimizer still follows from the model; how long it is trained does not.
    assert units == {"cifar10", "cifar10 (epochs 10)", "cifar10 (epochs 30)"}


def test_accuracy_and_ece_against_strength_have_a_line_for_each_model(make_record):
    study = build_study(architectures(make_record), by=["model"])
    figure = next(f for f in figures_of(study) if f.name == "cifar10-shift-jpeg")
    panels = {chart.title: chart for chart in figure.charts}
    assert {"accuracy", "ECE"} <= set(panels)
    lines = [curve.label for curve in panels["accuracy"].curves]
    assert lines == ["lenet", "resnet18", "vit_tiny"]
    assert [place.x for place in panels["ECE"].curves[0].places] == [0, 1, 5]


def test_options_by_which_results_are_shown_leave_the_name(make_record):
    options = [{"weight": w, "noise": {"name": "shell"}} for w in (1.0, 0.1, 10.0)]
    records = [make_record(method="head_noise", method_options=o) for o in options]
    runs = arrange([*records, make_record()], ["weight"])
    assert [run.by for run in runs] == [(None,), (0.1,), (1.0,), (10.0,)]
    assert {run.shown for run in runs[1:]} == {"head_noise (noise shell)"}
    assert runs[1].method == "head_noise (noise shell, weight 0.1)"


def test_unknown_keys_are_refused(make_record):
    records = [make_record(method="focal", method_options={"gamma": 3.0})]
    with pytest.raises(InputError, match="Did you mean 'learning_rate'"):
        arrange(records, ["learning_rat"])
    with pytest.raises(InputError, match="have a place for seed"):
        arrange(records, ["seed"])
    with pytest.raises(InputError, match="names batch 2 times"):
        arrange(records, ["batch", "batch"])
    arrange(records, ["gamma"])


def test_a_training_that_was_also_tested_on_other_data_counts_once(make_record):
    plain, shifted = make_record(), make_record(shift=["typos-1"])
    assert plain.recipe.key != shifted.recipe.key
    for order in ([plain, shifted], [shifted, plain]):
        (run,) = arrange(order)
        assert run.record is shifted
    other = make_record(calibrator="temperature")
    assert other.recipe.key != plain.recipe.key
    assert [run.unit for run in arrange([plain, other])] == ["gum"]


def test_values_are_found_or_nan(make_record):
    (run,) = arrange([make_record(f1=0.5, ece=0.1, shift=["typos-1"])])
    assert run.value("entity_f1") == 0.5
    assert run.value("ece", "temperature") == 0.05
    assert run.value("ece", part="shift/typos-1") == pytest.approx(0.11)
    for nothing in (("no",), ("ece", "no"), ("ece", "identity", "no"), ("ece", "identity", "x/y")):
        assert run.value(*nothing) != run.value(*nothing)


def test_missing_seeds_and_numbers_are_reported(make_record):
    records = [make_record(seed=s) for s in range(4)]
    records += [make_record(seed=s, method="focal") for s in (0, 2)]
    assert missing(arrange(records)) == ["gum: seeds 1, 3 of focal 128×1."]
    lame = make_record(seed=4)
    del lame.results["temperature"]
    message = missing(arrange([*records, lame]))
    assert any(sentence.startswith("gum: ECE (T) in gum-cross_entropy") for sentence in message)


def test_many_missing_cells_are_counted(make_record):
    records = [make_record(seed=s) for s in range(2)]
    records += [make_record(head_width=w) for w in range(1, 9)]
    (message,) = missing(arrange(records))
    assert message.startswith("gum: seed 1 of cross_entropy 1×1, ")
    assert message.endswith(" and 2 more.")


def test_origins_by_hand(make_record):
    records = [make_record(seed=0), make_record(seed=1, circumstances={"git": "abc+"})]
    found = origins(arrange(records))
    assert found["records"] == 2
    assert found["circumstances"]["git"] == {"abc+": 1, "unknown": 1}
    assert found["circumstances"]["device"] == {"NVIDIA H200": 2}
    training = found["training"]
    assert training["steps"] == 1400
    assert training["examples, at most"] == 1400 * 32
    assert training["examples a second within one run"] == pytest.approx(1400 * 32 / 40)
    settings = found["settings unless a unit says otherwise"]
    assert settings["batch"] == 32
    assert "train_file" not in settings  # Empty.
    records[0].training.clear()
    records[1].training.update(seconds=0)
    assert origins(arrange(records))["training"] == {"steps and seconds": "not recorded"}


def test_a_wrapped_model_is_not_called_one_that_calibrant_trained(make_record):
    trained = make_record()
    wrapped = replace(trained, recipe=replace(trained.recipe, engine="wrapped", model="mine"))
    alone = build_study([wrapped])
    assert {run.method for run in alone.runs} == {"fine-tuned elsewhere"}
    assert "heads of width" not in " ".join(alone.summary)
    both = build_study([trained, wrapped])
    assert {run.method for run in both.runs} == {"cross_entropy", "fine-tuned elsewhere"}
