"""Names that could control a terminal, a spreadsheet or a page are escaped when shown."""

import csv
import io
import json
import os

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.cli import main
from calibrant.cli.table import render_table
from calibrant.study.markdown import markdown_table
from calibrant.study.table import Table, TableEntry, TableRow
from calibrant.study.writing import csv_table

ESCAPE = "\x1b]0;owned\x07"


@pytest.fixture
def predictions(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3))
    names = [f"a{ESCAPE}\nb", "c\rd", "e\u202ef"]
    made = Predictions.from_logits(logits, rng.integers(0, 3, 300), label_names=names)
    made.write(tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def acts(text):
    """Whether a terminal would do something else than to show it."""
    return any(sign in text for sign in "\x1b\x07\r\u202e\x9b")


def test_nothing_that_is_printed_acts_on_the_terminal(predictions, tmp_path, capsys):
    folder = tmp_path / f"out{ESCAPE}\n"
    folder.mkdir()
    saved, applied = folder / "m.json", folder / "q.parquet"
    commands = [
        ["fit", str(predictions), "-o", str(saved)],
        ["apply", str(saved), str(predictions), "-o", str(applied)],
        ["audit", str(applied), "--report", str(folder / "r.html"), "--bootstrap", "0"],
        [
            "compare",
            str(predictions),
            str(applied),
            "--calibrators",
            "temperature",
            "--bootstrap",
            "0",
        ],
    ]
    for command in commands:
        main(command)
        shown = capsys.readouterr()
        assert not acts(shown.out + shown.err), command
    assert main(["fit", str(folder / "none.csv"), "-o", str(saved)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_cell_of_a_table_is_on_one_line():
    lines = render_table(["na\nme", "x"], [[f"a{ESCAPE}", "b\nc"]]).splitlines()
    assert len(lines) == 3
    assert not acts("".join(lines))


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_sees_no_formula(sign):
    name = f"{sign}HYPERLINK(1)"
    row = TableRow((name,), (TableEntry("−0.5", -0.5, n=3), TableEntry(name)), (name,))
    table = Table("t", "T", (name,), ("ECE", name), (row,))
    read = list(csv.reader(io.StringIO(csv_table(table), newline="")))
    shown = {"\t": "\\tHYPERLINK(1)", "\r": "\\rHYPERLINK(1)"}.get(sign, f"'{name}")
    assert read[0] == [shown, "ECE", shown, "records"]
    assert read[1] == [shown, "-0.5", shown, shown]


def test_markdown_holds_no_html_and_no_link():
    name = "<img src=x onerror=alert(1)> [a](javascript:b) `c` &lt; x\ny"
    text = markdown_table(
        Table("t", "T", (name,), ("ECE",), (TableRow((name,), (TableEntry(name, bold=True),)),))
    )
    assert "<img" not in text
    assert "[a](" not in text
    assert "&amp;lt;" in text
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
@pytest.mark.parametrize("command", ["fit", "audit", "apply", "apply-map"])
def test_label_files_and_maps_are_never_written_over(predictions, tmp_path, capsys, command, link):
    names, saved = tmp_path / "names.json", tmp_path / "map.json"
    names.write_text(json.dumps(["a", "b", "c"]))
    assert main(["fit", str(predictions), "-o", str(saved)]) == 0
    victim = saved if command == "apply-map" else names
    suffix = {"fit": ".json", "audit": ".html"}.get(command, ".parquet")
    target = tmp_path / f"other{suffix}"
    if link == "itself":
        target = victim
    else:
        (os.symlink if link == "symbolic" else os.link)(victim, target)
    arguments = {
        "fit": ["fit", str(predictions), "-o", str(target)],
        "audit": ["audit", str(predictions), "--report", str(target)],
        "apply": ["apply", str(saved), str(predictions), "-o", str(target)],
    }[command.removesuffix("-map")]
    before = victim.read_bytes()
    capsys.readouterr()
    assert main([*arguments, "--labels", str(names), "--overwrite"]) == 2
    assert "it is read here" in capsys.readouterr().err
    assert victim.read_bytes() == before


def test_a_failing_apply_leaves_what_another_process_has_written(
    predictions, tmp_path, monkeypatch
):
    """It removed every target that was not there when it began."""
    shards, out, saved = tmp_path / "shards", tmp_path / "out", tmp_path / "map.json"
    shards.mkdir()
    whole = Predictions.read(predictions)
    for number, part in enumerate(whole.chunks(100)):
        part.write(shards / f"{number}.parquet")
    assert main(["fit", str(predictions), "-o", str(saved)]) == 0
    from calibrant.calibrators import Temperature

    transform, calls = Temperature.transform, []

    def fails(*given, **named):
        calls.append(1)
        if len(calls) > 1:
            out.mkdir(exist_ok=True)
            (out / "0.parquet").write_text("another's")
            raise MemoryError
        return transform(*given, **named)

    monkeypatch.setattr(Temperature, "transform", fails)
    assert main(["apply", str(saved), str(shards), "-o", str(out)]) == 2
    assert [path.name for path in out.iterdir()] == ["0.parquet"]
    assert (out / "0.parquet").read_text() == "another's"
    assert not list(tmp_path.glob(".calibrant-*"))
