"""``calibrant train`` and ``calibrant bench``: what they print, and bad input in one line."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant.cli import main
from calibrant.cli.run_numbers import show_over_seeds
from calibrant.experiments import grid as grid_module
from calibrant.experiments.grid import take_turns
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, read_record, read_records
from calibrant.metrics import entity_f1
from calibrant.predictions import Predictions
from calibrant.tasks import task_of

pytest.importorskip("transformers")


def command(corpus, output, *more):
    return [
        "train", "--data", str(corpus), "--model", "tiny", "--epochs", "1", "--device", "cpu",
        "--bootstrap", "0", "-o", str(output), *more,
    ]  # fmt: skip


def test_it_tells_every_epoch_and_the_test_numbers(trained):
    folder, out, err = trained
    assert "Epoch 6/6" in err
    assert all(word in err for word in ("loss", "F1", "ECE"))
    assert "with temperature" in out
    assert str(folder / "report.html") in out
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["method"] == "head_noise"
    assert recipe["method_options"] == {"weight": 0.05}
    assert recipe["dtype"] == "float32"


def test_a_finished_run_says_so(trained, small_corpus, capsys, request):
    folder, _, _ = trained
    arguments = json.loads((folder / "recipe.json").read_text())
    again = [
        "train", "--data", arguments["data"], "--model", "tiny", "--method", "head-noise", "--set",
        "weight=0.05", "--epochs", "6", "--batch", "16", "--learning-rate", "5e-3", "--head-width",
        "16", "--device", "cpu", "-o", str(folder),
    ]  # fmt: skip
    assert main(again) == 0
    assert "is finished; it is not trained again" in capsys.readouterr().out
    assert main([*again, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished_before"] is True
    assert main([*again, "--seed", "1"]) == 2
    assert "run of another recipe: seed 0 (now 1)" in capsys.readouterr().err


def test_several_seeds_are_runs_side_by_side_and_a_table_of_means(small_corpus, tmp_path, capsys):
    several = command(small_corpus, tmp_path / "run", "--seed", "0", "2")
    assert main(several) == 0
    captured = capsys.readouterr()
    assert "Seed 2: " in captured.err
    assert "±" in captured.out
    assert "over 2 seeds" in captured.out
    records = [read_record(tmp_path / f"run/seed-{seed}/metrics.json") for seed in (0, 2)]
    assert [record.recipe.seed for record in records] == [0, 2]
    values = [record.results["temperature"]["test"]["ece"] for record in records]
    assert f"{np.mean(values):.4f} ± {12.706 * abs(values[0] - values[1]) / 2:.4f}" in captured.out
    learned = [r.by_calibrator()[r.training["calibrator"]]["entities"]["ece"] for r in records]
    assert f"whole entities: ECE {np.mean(learned):.4f} ± " in captured.out
    assert main([*several, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    (scaled,) = (row for row in content["test"] if row["calibrator"] == "temperature")
    assert scaled["ece"]["mean"] == pytest.approx(np.mean(values))
    assert [run["finished_before"] for run in content["runs"]] == [True, True]


def test_several_seeds_that_cannot_be(small_corpus, trained, tmp_path, capsys):
    assert main(command(small_corpus, tmp_path / "run", "--seed", "1", "1")) == 2
    assert "--seed takes different seeds, got [1, 1]" in capsys.readouterr().err
    assert main(command(small_corpus, trained[0], "--seed", "0", "1")) == 2
    assert "run of one seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "focall"], "Unknown method 'focall'. Did you mean 'focal'?"),
        (["--method", "focal", "--set", "gamma"], "--set takes KEY=VALUE"),
        (["--method", "focal", "--set", "gama=2"], "'gama'"),
        (["--method", "focal", "--set", "gamma=high"], "cannot be trained with gamma='high'"),
        (["--method", "focal", "--set", "gamma=-1"], "focal takes gamma of 0 or more; got -1"),
        (["--bootstrap", "3"], "at least 20 bootstrap replicates"),
        (["--save-every", "-1"], "every 0 seconds or more, got -1.0"),
        (["--momentum", "0.5"], "momentum is a setting of optimizer 'sgd'"),
        (["--weight-decay", "nan"], "weight_decay must be a number of at least 0"),
        (["--data", "nowhere/"], "There is no folder nowhere/"),
        (["--data", __file__], "is a file: name the folder"),
        (["--model", str(Path(__file__).parent)], "the folder holds no model"),
        (["--data", "conll203"], "Did you mean 'conll2003'?"),
        (["--task", "nre"], "Unknown task 'nre'"),
        (["--engine", "trainr"], "Did you mean 'trainer'?"),
        (["--dtype", "float16"], "bfloat16"),
        (["--dtype", "half"], "Unknown dtype 'half'"),
        (["--epochs", "0"], "epochs must be a whole number of at least 1"),
        (["--batch", "8", "--accumulate", "3"], "equal parts"),
        (["--device", "cuda:99"], "cannot be used"),
        (["--head-activation", "swish"], "Unknown activation"),
        (["-o", "/dev/null/run"], "cannot be made"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(small_corpus, tmp_path, capsys, more, message):
    assert main(command(small_corpus, tmp_path / "run", *more)) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_setting_of_words_is_none_of_images(tmp_path, capsys):
    command = ["train", "--task", "image", "--data", "digits", "-o", str(tmp_path / "run")]
    assert main([*command, "--max-length", "64"]) == 2
    assert "max_length is a setting of task 'ner', not 'image'" in capsys.readouterr().err


def test_a_run_may_have_the_name_of_its_corpus_and_of_its_model(
    small_corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gum").symlink_to(small_corpus)
    for output in ("gum", "tiny"):
        for _ in range(2):
            assert main(command("gum", output, "--data-dir", "data")) == 0
        assert f"{output} is finished; it is not trained again" in capsys.readouterr().out


def test_a_tag_that_is_none_is_named_with_its_line(tmp_path, capsys):
    for split in ("train", "test"):
        (tmp_path / f"{split}.conll").write_text("Anna\tB-PER\nsings\tO\n\nRome\tPLACE\n")
    assert main(command(tmp_path, tmp_path / "run")) == 2
    assert "line 4" in capsys.readouterr().err


def test_a_mistyped_encoder_is_answered_with_the_nearest(
    small_corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("calibrant.tasks.reading.hub.reachable", lambda _: False)
    assert main(command(small_corpus, tmp_path / "run", "--model", "tinny")) == 2
    assert "Did you mean 'tiny'?" in capsys.readouterr().err


def test_an_encoder_of_a_hub_out_of_reach_is_one_line_at_once(
    small_corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("calibrant.tasks.reading.hub.reachable", lambda _: False)
    began = time.monotonic()
    assert main(command(small_corpus, tmp_path / "run", "--model", "bert-base-cased")) == 2
    assert time.monotonic() - began < 10  # The hub's own library would try for most of a minute.
    err = capsys.readouterr().err
    assert "Cannot load the tokenizer of 'bert-base-cased'" in err
    assert "Without the hub there are minilm and tiny" in err
    assert "Did you mean" not in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_method_may_keep_a_history(small_corpus, tmp_path, capsys):
    more = ["--method", "error-regularization", "--set", "error=history"]
    assert main(command(small_corpus, tmp_path / "run", *more)) == 0
    capsys.readouterr()
    assert main(command(small_corpus, tmp_path / "other", *more, "--engine", "trainer")) == 2
    assert "--engine lean" in capsys.readouterr().err


def test_bench_runs_a_grid_and_skips_what_is_done(small_corpus, tmp_path, capsys):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'[defaults]\ndata = "{small_corpus}"\nmodel = "tiny"\nepochs = 1\ndtype = "float32"\n'
        'batch = 16\n[[grid]]\nmethod = ["cross_entropy", "focal"]\n'
    )
    arguments = ["bench", str(grid), "-o", str(tmp_path / "runs"), "--device", "cpu"]
    assert main([*arguments, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "2 recipes, 0 of them done" in out
    assert not (tmp_path / "runs").exists()
    assert main([*arguments, "--jobs", "2", "--workers", "1"]) == 0
    records = {record.recipe.method: record for record in read_records(tmp_path / "runs")}
    assert set(records) == {"cross_entropy", "focal"}
    assert records["focal"].results["temperature"]["temperature"] > 0
    left = next((tmp_path / "runs").glob("*focal*"))
    left.with_name(".calibrant-0123456789abcdef.unfinished.json").write_text("half")
    capsys.readouterr()
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "2 recipes, 2 of them done" in out
    assert "Try: calibrant report " in out
    assert len(list(read_records(tmp_path / "runs"))) == 2


def test_bench_keeps_what_is_trained_when_its_time_is_up(
    small_corpus, tmp_path, capsys, monkeypatch
):
    head = f'[defaults]\ndata = "{small_corpus}"\nmodel = "tiny"\nepochs = 1\ndtype = "float32"\n'
    grids = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for grid, methods in zip(grids, (["mse", "focal"], ["focal", "flsd"]), strict=True):
        grid.write_text(f"{head}batch = 16\n[[grid]]\nmethod = {json.dumps(methods)}\n")
    now = [0.0]

    def turns(*args):
        for outcome in take_turns(*args):
            now[0] += 100.0 * (outcome is not None)  # Training one takes longer than there is.
            yield outcome

    monkeypatch.setattr(grid_module, "take_turns", turns)
    monkeypatch.setattr(grid_module, "monotonic", lambda: now[0])
    arguments = ["bench", *map(str, grids), "-o", str(tmp_path / "runs"), "--device", "cpu"]
    for left, left_over in ((2, "2 recipes are"), (1, "1 recipe is")):
        assert main([*arguments, "--workers", "1", "--time-limit", "50"]) == 3
        assert f"Time is up, and {left_over} left" in capsys.readouterr().out
        assert len(list(read_records(tmp_path / "runs"))) == 3 - left
    assert main([*arguments, "--workers", "1", "--time-limit", "150"]) == 0
    assert "Time is up" not in capsys.readouterr().out
    assert len(list(read_records(tmp_path / "runs"))) == 3
    grids[0].write_text(f'{head}method = "mmce"\n')
    for wrong, expected in (
        (["--time-limit", "0"], "above 0"),
        (["--time-limit", "nan"], "above 0"),
        (["--workers", "-1"], "workers must be a whole number of at least 1"),
        (["--device", "abacus"], "Device 'abacus' cannot be used"),
        (["--time-limit", "9", "--ray", "local"], "--ray"),
    ):
        assert main([*arguments, *wrong]) == 2
        assert expected in capsys.readouterr().err


def test_files_of_splits_are_given_one_by_one(small_corpus, tmp_path, capsys):
    for split, name in {"train": "one", "dev": "two", "test": "three"}.items():
        (tmp_path / name).write_text((small_corpus / f"{split}.conll").read_text())
    files = ["--train", str(tmp_path / "one"), "--test", str(tmp_path / "three")]
    options = ["--model", "tiny", "--epochs", "1", "--bootstrap", "0", "--device", "cpu"]
    run = ["train", *options, "-o", str(tmp_path / "run")]
    assert main([*run, *files, "--dev", str(tmp_path / "two")]) == 0
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert recipe["dev_file"] == str(tmp_path / "two")
    test = Predictions.read(tmp_path / "run" / "test.parquet")
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--json", "--device", "cpu"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    found = next(entry for entry in results if entry["calibrator"] == "identity")
    assert found["test"]["entity_f1"] == pytest.approx(float(entity_f1(test)), abs=1e-6)
    for wrong, expected in (
        ([], "--data NAME|FOLDER, or --train FILE --test FILE"),
        ([*files, "--data", "synthetic"], "--data NAME|FOLDER, or --train FILE --test FILE"),
        (files[:2], "name train_file and test_file"),
        ([*files[:3], str(tmp_path / "none")], "There is no file"),
        ([*files, "--task", "text"], "is a setting of task 'ner', not 'text'"),
        ([*files, "--unseen-types", "kep"], "Unknown unseen_types 'kep'"),
    ):
        assert main([*run[:-1], str(tmp_path / "new"), *wrong]) == 2
        assert expected in capsys.readouterr().err


def test_bench_refuses_what_a_grid_cannot_do(small_corpus, tmp_path, capsys):
    grid = tmp_path / "grid.toml"
    grid.write_text(f'[defaults]\ndata = "{small_corpus}"\nmodel = "tiny"\npatience = 2\n')
    assert main(["bench", str(grid), "-o", str(tmp_path / "runs"), "--device", "cpu"]) == 2
    assert "patience" in capsys.readouterr().err
    grid.write_text("[[grid]]\nsede = [0, 1]\n")
    assert main(["bench", str(grid), "-o", str(tmp_path / "runs")]) == 2
    assert f"{grid}: Unknown recipe key 'sede'" in capsys.readouterr().err
    assert main(["bench", str(tmp_path / "none.toml"), "-o", str(tmp_path / "runs")]) == 2
    assert "There is no file" in capsys.readouterr().err


def test_bench_keeps_the_folders_of_runs_when_asked(small_corpus, tmp_path, capsys):
    grid, runs = tmp_path / "grid.toml", tmp_path / "runs"
    grid.write_text(
        f'[defaults]\ndata = "{small_corpus}"\nmodel = "tiny"\ndtype = "float32"\npatience = 1\n'
        "epochs = 1\n"
    )
    arguments = ["bench", str(grid), "-o", str(runs), "--device", "cpu", "--keep"]
    assert main([*arguments, "--stack", "2"]) == 2
    assert "--stack is not for --keep" in capsys.readouterr().err
    assert main(arguments) == 0
    (record,) = read_records(runs)
    assert (runs / record.recipe.key / "model").is_dir()
    assert record.recipe.key in capsys.readouterr().err
    assert main(arguments) == 0
    assert "1 recipe, 1 of them done." in capsys.readouterr().out


def test_any_number_of_seeds_has_an_interval():
    part = {
        name: {"test": dict.fromkeys(task_of("ner").shown, 0.5)}
        for name in ("identity", "temperature")
    }
    runs = {Path(f"seed-{n}"): Record(Recipe(seed=n), part, {}, {}) for n in range(12)}
    assert "0.5000 ± 0.0000" in show_over_seeds(runs)
    assert "over 12 seeds" in show_over_seeds(runs)


def test_shift_is_measured_and_shown(small_corpus, tmp_path, capsys, monkeypatch):
    (tmp_path / "posts.conll").write_text("Anna\tB-person\nsings\tO\n")
    monkeypatch.chdir(tmp_path)
    asked = command(small_corpus, tmp_path / "run", "--shift", "typos-1", "typos-5", "posts.conll")
    assert main(asked) == 0
    out = capsys.readouterr().out
    record = read_record(tmp_path / "run" / "metrics.json")
    posts = str(tmp_path / "posts.conll")  # The same file from wherever the command is given.
    assert record.recipe.shift == ("typos-1", "typos-5", posts)
    numbers = record.results["identity"]["shift"]["typos-5"]
    shown = [numbers[name] for name in ("entity_f1", "accuracy", "ece", "aurc")]
    assert ["typos-5", *(f"{value:.4f}" for value in shown)] in map(str.split, out.splitlines())
    assert main(command(small_corpus, tmp_path / "other", "--shift", "typos-7")) == 2
    assert "1, 2, 3, 4 or 5, got 'typos-7'" in capsys.readouterr().err


def test_other_tasks_show_their_own_numbers(tmp_path, capsys):
    pytest.importorskip("sklearn")
    images = ["train", "--task", "image", "--data", "digits", "--model", "tiny", "--epochs", "1"]
    where = ["--device", "cpu", "--bootstrap", "0", "-o", str(tmp_path / "run")]
    assert main([*images, *where]) == 0
    captured = capsys.readouterr()
    assert "accuracy" in captured.err
    assert "classwise ECE" in captured.out
    assert f"calibrant predict {tmp_path / 'run'} images/" in captured.out
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (recipe["optimizer"], recipe["batch"], recipe["epochs"]) == ("sgd", 64, 1)
    assert main([*images, "--compile", *where]) == 2
    assert "compile False (now True)" in capsys.readouterr().err
    assert main(["list", "tasks"]) == 0
    assert "image classification" in capsys.readouterr().out


def test_the_report_shows_the_confidence_of_entities_that_predict_gives(trained):
    text = (trained[0] / "report.html").read_text()
    assert "learned on the validation split, as &#x27;calibrant predict&#x27; gives it" in text or (
        "learned on the validation split, as 'calibrant predict' gives it" in text
    )
    assert "Entity ECE (learned confidence)" in text
    assert "of words)" not in text
    record = read_record(trained[0] / "metrics.json")
    learned = record.by_calibrator()[record.training["calibrator"]]["entities"]["ece"]
    assert f"{learned:.4f}" in text
