"""``calibrant watch`` and ``calibrant adapt`` as people and programs use them."""

import json

import numpy as np
import pytest

from calibrant import Predictions, Temperature, load_calibrator
from calibrant.cli import main

NAMES = ("ant", "<b>bee", "cat")


def sample(n, shares=None, signal=2.0, seed=0, **more):
    random = np.random.default_rng(seed)
    labels = random.choice(3, n, p=shares)
    logits = 2 * (random.normal(size=(n, 3)) + signal * np.eye(3)[labels])
    return Predictions.from_logits(logits, labels, label_names=NAMES, **more)


@pytest.fixture
def folder(tmp_path):
    valid = sample(1500)
    valid.write(tmp_path / "valid.npz")
    Temperature().fit(valid).save(tmp_path / "map.json")
    sample(2500, seed=1).write(tmp_path / "stream.npz")
    sample(2000, [0.7, 0.2, 0.1], seed=2).write(tmp_path / "new.npz")
    for number, signal in enumerate((1.7, 1.4, 1.1, 0.8)):
        sample(1000, signal=signal, seed=3 + number).write(tmp_path / f"copy{number}.npz")
    sample(2000, signal=1.2, seed=9).write(tmp_path / "hard.npz")
    return tmp_path


def call(command, capsys):
    status = main(command.split())
    out = capsys.readouterr()
    return status, out.out, out.err


def test_watch_prints_a_table_and_a_page(folder, capsys):
    watch = (
        f"watch {folder}/stream.npz --calibrator {folder}/map.json --reference {folder}/valid.npz"
    )
    status, out, err = call(f"{watch} --report {folder}/page.html", capsys)
    assert (status, err) == (0, "")
    assert "2,500 rows in 3 chunks" in out
    assert "Expected accuracy of the stream" in out
    assert "No alarm" in out
    page = (folder / "page.html").read_text()
    settings = page[page.index("<h2>Settings</h2>") :]
    assert "estimator" in settings
    for unset in ("None", "inflation", ">by<"):
        assert unset not in settings
    assert "<b>bee" not in page
    assert "Expected accuracy" in page
    assert "nan" not in page.lower().replace("covariance", "")
    status, _, err = call(f"{watch} --report {folder}/page.html", capsys)
    assert status == 2
    assert "--overwrite" in err
    assert call(f"{watch} --report {folder}/page.html --overwrite", capsys)[0] == 0


def test_watch_per_day_with_some_labels(folder, capsys):
    p = sample(600, seed=4)
    lines = ["when,label,logits_0,logits_1,logits_2"]
    for i, (row, label) in enumerate(zip(p.scores.tolist(), p.labels.tolist(), strict=True)):
        known = label if i % 3 == 0 else ""
        lines.append(f"2024-06-0{1 + i // 200} 12:0{i % 10},{known},{','.join(map(str, row))}")
    (folder / "days.csv").write_text("\n".join(lines) + "\n")
    status, out, _ = call(f"watch {folder}/days.csv --per when --json", capsys)
    found = json.loads(out)
    assert status == 0
    assert [c["name"] for c in found["chunks"]] == ["2024-06-01", "2024-06-02", "2024-06-03"]
    assert found["total"]["labelled"] == 200
    bounds = found["total"]["accuracy_so_far"]
    assert bounds["low"] < bounds["value"] < bounds["high"]
    assert "assumed to be honest" in found["warnings"][0]


def test_watch_takes_top_labels(folder, capsys):
    """Files with a predicted label and its confidence: no F1, the same page."""
    for name, seed, labelled in (("valid", 0, True), ("stream", 1, False)):
        p = sample(1500, seed=seed)
        shown, confidence = p.scores.argmax(1), p.probabilities().max(1)
        rows = zip(shown, confidence, p.labels, strict=True)
        lines = [f"{NAMES[k]},{c},{NAMES[y] if labelled else ''}" for k, c, y in rows]
        (folder / f"{name}.csv").write_text("\n".join(["predicted,confidence,label", *lines]))
    fit = f"fit {folder}/valid.csv --calibrator isotonic-top-label -o {folder}/top.json"
    assert call(fit, capsys)[0] == 0
    watch = f"watch {folder}/stream.csv --calibrator {folder}/top.json"
    watch += f" --reference {folder}/valid.csv"
    status, out, err = call(f"{watch} --report {folder}/top.html", capsys)
    assert (status, err) == (0, "")
    assert "F1" not in out
    assert "of classes" in out
    page = (folder / "top.html").read_text()
    assert "Expected accuracy" in page
    assert "nan" not in page.lower().replace("covariance", "")
    found = json.loads(call(f"{watch} --json", capsys)[1])
    truth = (sample(1500, seed=1).scores.argmax(1) == sample(1500, seed=1).labels).mean()
    low, high = (found["total"]["expected_accuracy"][end] for end in ("low", "high"))
    assert low < truth < high
    assert found["total"]["expected_macro_f1"]["value"] is None
    status, _, err = call(f"watch {folder}/stream.csv --reference {folder}/valid.npz", capsys)
    assert status == 2
    assert "both must be of one kind" in err


def test_adapt_saves_an_ordinary_calibrator(folder, capsys):
    adapt = f"adapt {folder}/map.json --valid {folder}/valid.npz --unlabelled {folder}/new.npz"
    status, out, err = call(f"{adapt} -o {folder}/new.json", capsys)
    assert (status, err) == (0, "")
    assert "Class frequencies have changed: 'ant'" in out
    assert "before" in out
    assert load_calibrator(folder / "new.json").fitted_on_["adapted"]["rows"] == 2000
    done = call(f"apply {folder}/new.json {folder}/new.npz -o {folder}/honest.npz", capsys)
    assert done[0] == 0
    assert call(f"fit {folder}/valid.npz -o {folder}/new.json", capsys)[0] == 2


def test_adapt_with_copies(folder, capsys):
    files = " ".join(f"{folder}/copy{i}.npz" for i in range(4))
    status, out, _ = call(
        f"adapt {folder}/map.json --valid {folder}/valid.npz --unlabelled {folder}/hard.npz "
        f"--copies {files} -o {folder}/hard.json",
        capsys,
    )
    assert status == 0
    assert "method: set-level" in out
    assert "copy3.npz" in out
    assert load_calibrator(folder / "hard.json").learned()["correction_shift_"] < 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("watch {f}/none.npz", "no such file"),
        ("watch {f}/stream.npz --calibrator {f}/valid.npz", "not a calibrator"),
        ("watch {f}/stream.npz --run {f}", "not the folder of a finished"),
        ("watch {f}/stream.npz --chunk 0", "chunk"),
        ("watch {f}/stream.npz --per day", "no column 'day'"),
        ("watch {f}/stream.npz --keep-together day", "no column 'day'"),
        ("watch {f}/stream.npz --estimator atc", "needs a reference"),
        ("watch {f}/stream.npz --level 2", "level"),
        ("watch {f}/stream.npz --false-alarms 0", "false_alarms"),
        ("watch {f}/stream.npz --report {f}/stream.npz --overwrite", "stream.npz"),
        ("watch {f}/empty.csv", "no rows"),
        ("watch {f}/map.json", "unknown kind of file"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/hard.npz -o {f}/x.json",
         "do not explain"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz -o {f}/x.txt",
         ".json"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz -o {f}/hard.npz",
         "exists"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz --overwrite "
         "-o {f}/map.json", "read"),
        ("adapt {f}/valid.npz --valid {f}/valid.npz --unlabelled {f}/new.npz -o {f}/x.json",
         "not a calibrator"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz --method em2 "
         "-o {f}/x.json", "em2"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/hard.npz --copies "
         "{f}/copy0.npz -o {f}/x.json", "at least 4"),
        ("adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz --method em --copies "
         "{f}/copy0.npz -o {f}/x.json", "copies for the method set-level, got em"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(folder, command, words, capsys):
    (folder / "empty.csv").write_text("probability,label\n")
    try:
        status = main(command.format(f=folder).split())
    except SystemExit as exit_:
        status = exit_.code
    err = capsys.readouterr().err
    assert status == 2, err
    assert words in err
    assert err.count("\n") == 1
    assert not (folder / "x.json").exists()


def test_a_narrow_terminal_has_whole_rows(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = call(f"watch {folder}/stream.npz --reference {folder}/valid.npz", capsys)
    table, _, note = out[out.index("chunk  ") :].partition("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    assert note.startswith("The terminal is too narrow for drift of classes, labels")
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = call(f"watch {folder}/stream.npz --reference {folder}/valid.npz", capsys)
    assert "of classes" in out
    assert "narrow" not in out


@pytest.mark.parametrize(
    "command",
    [
        "watch {f}/stream.npz --tokens",
        "watch {f}/stream.npz --device cpu",
        "adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz -o {f}/x.json "
        "--corrupt typos",
        "adapt {f}/map.json --valid {f}/valid.npz --unlabelled {f}/new.npz -o {f}/x.json "
        "--data-dir {f}",
    ],
)
def test_options_of_runs_are_refused_without_one(folder, command, capsys):
    status, _, err = call(command.format(f=folder), capsys)
    assert status == 2
    assert "is for a run" in err
    assert err.count("\n") == 1
    assert not (folder / "x.json").exists()


def test_the_page_of_a_long_stream_numbers_its_chunks_and_says_what_is_drawn(folder):
    from calibrant.report.watch_page import render_watch
    from calibrant.watching import watch

    valid = sample(400)
    found = watch(sample(3200, seed=1), reference=valid, chunk=10)
    assert len(found.chunks) == 320
    page = render_watch(found)
    assert "Of the 320 chunks, one in 3 is drawn" in page
    assert "Chunk 319\n" in page  # The last that is drawn; it was called the 107th.
    assert "is drawn" not in render_watch(watch(valid, reference=valid, chunk=100))


def test_a_chunk_without_a_name_has_a_page():
    from calibrant.report.watch_page import render_watch
    from calibrant.watching import watch

    stream = sample(50, groups={"day": [""] * 50})
    assert "<svg" in render_watch(watch(stream, per="day"))


def test_a_level_is_printed_as_it_was_given(folder, capsys):
    command = f"watch {folder}/stream.npz --reference {folder}/valid.npz"
    _, out, _ = call(f"{command} --level 0.975 --false-alarms 0.025", capsys)
    assert "With 97.5 % confidence" in out
    assert "at most 2.5 % of streams" in out
