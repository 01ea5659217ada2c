"""A study on paper: HTML, Markdown, LaTeX, CSV, JSON, figures; the same bytes each time."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest
from benchmarks.reproduction import reproduction_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrant import InputError
from calibrant.charts.chart import Dots
from calibrant.study import build_study, read_all, write_study
from calibrant.study.curves import labels_of
from calibrant.study.figures import figures_of
from calibrant.study.markdown import markdown_report, markdown_table
from calibrant.study.page import render_study
from calibrant.study.runs import arrange
from calibrant.study.table import Table, TableEntry, TableRow
from calibrant.study.writing import csv_table, latex_table

PILOT = Path(__file__).parents[2] / "benchmarks" / "results" / "pilot-methods.jsonl"


@pytest.fixture(scope="module")
def pilot():
    return build_study(read_all([PILOT]))


@pytest.fixture(scope="module")
def varied(make_record):
    """Widths, depths, other data, another batch, a missing seed."""
    records = [
        make_record(data=d, method=m, head_width=w, seed=s)
        for d in ("gum", "wnut17")
        for m in ("cross_entropy", "focal")
        for w in (64, 128)
        for s in range(3)
    ]
    shift = ["typos-1", "typos-2", "conll2003"]
    records += [make_record(method="mmce", seed=s, shift=shift) for s in range(2)]
    records += [make_record(head_depth=d, seed=s) for d in (2, 3) for s in range(3)]
    records += [make_record(batch=3, seed=s) for s in range(2)]
    return records


def test_every_link_of_the_page_leads_somewhere(pilot, varied):
    for study in (pilot, build_study(varied)):
        page = render_study(study)
        names = re.findall(r' id="([^"]+)"', page)
        assert len(set(names)) == len(names)
        links = re.findall(r'href="#([^"]+)"', page)
        assert len(links) > 100
        assert set(links) <= set(names)
        assert "http" not in re.sub(r"<meta[^>]*>", "", page)


def test_every_number_of_a_table_leads_to_its_records(pilot):
    page = render_study(pilot)
    table = next(t for t in pilot.tables if t.name == "gum-results")
    row = next(row for row in table.rows if row.labels[0].startswith("focal"))
    shown = re.search(r'<a href="#(set-\w+)"><b>11.7 ± 2.2</b></a>', page)
    listed = re.search(rf'<p class="source" id="{shown[1]}">(.*?)</p>', page)[1]
    assert tuple(re.findall(r">([^<>]+)</a>", listed)) == row.keys
    assert len(row.keys) == 3


def test_the_page_says_what_is_there(varied):
    page = render_study(build_study(varied))
    heads = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    plain = [re.sub("<[^>]+>", "", head) for head in heads]
    assert plain == [
        "Summary", "Contents", "Missing", "Over all corpora", "gum", "gum (batch 3)", "wnut17",
        "Records", "Records behind the rows", "Where the numbers come from",
    ]  # fmt: skip
    assert "seed 2 of mmce 128×1." in page
    assert "NVIDIA H200" in page


def test_few_runs_are_named_beside_the_bold_numbers(make_record):
    def note(seeds):
        records = [
            make_record(method=m, seed=s) for m in ("cross_entropy", "focal") for s in range(seeds)
        ]
        return markdown_report(build_study(records))

    words = "With fewer than five seeds of a method, the test separates only large"
    assert words in note(3)
    assert words not in note(5)


def test_notes_of_a_corpus_are_sentences(make_record):
    record = make_record()
    record.training["notes"] = ["No test split.", "No validation split."]
    text = markdown_report(build_study([record]))
    assert "- notes: gum: No test split. No validation split.\n" in text


def test_names_stay_text(make_record, tmp_path, undrawn):
    evil = "</script><b>&amp;x"
    record = make_record(data=f"a{evil}", circumstances={"device": evil})
    page = render_study(build_study([record]))
    assert evil not in page
    assert "&lt;/script&gt;" not in page.split("<main>")[0]
    write_study(tmp_path / "out", build_study([record]))  # Names of files are plain.


def test_drawings_have_words_and_marks(varied):
    page = render_study(build_study(varied))
    drawings = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(drawings) >= 10
    for drawing in drawings:
        assert re.search(r'aria-label="[^"]{30,}"', drawing)
        assert "data-tip=" in drawing
        assert "nan" not in drawing


def test_figures_show_the_numbers_of_the_tables(varied):
    study = build_study(varied)
    drawn = {figure.name: figure for figure in figures_of(study)}
    assert set(drawn) == {
        "ranks", "gum-trade-off", "gum-depth", "gum-shift-typos", "wnut17-trade-off",
    }  # fmt: skip
    depth = drawn["gum-depth"].charts[0]
    table = next(t for t in study.tables if t.name == "gum-depth")
    baseline = next(curve for curve in depth.curves if curve.label.startswith("cross_entropy"))
    rows = [row for row in table.rows if row.labels[0] == "cross_entropy"]
    assert [place.x for place in baseline.places] == [1, 2, 3]
    wanted = [row.entries[table.heads.index("ECE")] for row in rows]
    assert [place.y for place in baseline.places] == pytest.approx([e.value for e in wanted])
    assert [place.y_half for place in baseline.places] == pytest.approx([e.half for e in wanted])
    ranks = next(table for table in study.tables if table.name == "ranks")
    place = ranks.heads.index("ECE")
    chart = drawn["ranks"].charts[place]
    (dots,) = [mark for mark in chart.marks if isinstance(mark, Dots)]
    found = {name: dots.x[row] for row, name in chart.y.ticks}
    assert found == {row.labels[0]: row.entries[place].value for row in ranks.rows[:-1]}
    assert list(found.values()) == sorted(found.values(), reverse=True)  # The best on top.
    shift = drawn["gum-shift-typos"]
    assert [chart.title for chart in shift.charts][:4] == ["accuracy", "ECE", "AURC", "AUROC"]
    assert [place.x for place in shift.charts[0].curves[0].places] == [0, 1, 2]


def test_points_are_of_widths_that_all_methods_have(make_record):
    records = [
        make_record(method=m, head_width=w, seed=s, ece=w / 1000)
        for m in ("cross_entropy", "avuc")
        for w in (64, 128)
        for s in (0, 1)
    ]
    (figure,) = figures_of(build_study(records))
    assert figure.title == "F1 against ECE on gum"
    assert figure.charts[0].curves[0].places[0].x == pytest.approx(0.096)
    records += [make_record(method="focal", seed=s) for s in (0, 1)]
    (figure,) = figures_of(build_study(records))
    assert figure.title == "F1 against ECE on gum, width 128"
    assert figure.charts[0].curves[0].places[0].x == pytest.approx(0.128)


def test_points_are_of_the_seeds_that_the_tables_show(make_record):
    """Seed 2 lacks a width: its mean would be of one width where others have two."""
    records = [make_record(head_width=w, seed=s, ece=w / 1000) for w in (64, 128) for s in (0, 1)]
    records += [make_record(head_width=64, seed=2, ece=0.5)]
    assert not figures_of(build_study(records))  # One point has nothing to be weighed against.
    records += [
        make_record(method="focal", head_width=w, seed=s) for w in (64, 128) for s in (0, 1)
    ]
    study = build_study(records)
    (figure,) = figures_of(study)
    (table,) = [table for table in study.tables if table.name == "gum-pooled"]
    place, shown = figure.charts[0].curves[0].places[0], table.rows[0].entries[2]
    assert place.x == pytest.approx(0.096)
    assert (place.x, place.x_half) == pytest.approx((shown.value, shown.half))


def test_depths_of_runs_that_were_trained_otherwise_are_other_curves(make_record):
    records = [
        make_record(head_depth=d, batch=b, seed=s, ece=0.01 * d + (0.1 if b == 3 else 0))
        for d in (1, 2)
        for b in (3, 32)
        for s in (0, 1)
    ]
    records += [make_record(head_depth=3, batch=8)]  # A depth that no other has.
    [figure] = [f for f in figures_of(build_study(records, by=["batch"])) if "depth" in f.name]
    found = {c.label: [(p.x, round(p.y, 9)) for p in c.places] for c in figure.charts[0].curves}
    assert found == {
        "batch 3": [(1, 0.11), (2, 0.12)],
        "batch 32": [(1, 0.01), (2, 0.02)],
    }


def test_names_of_files_do_not_collide(make_record, tmp_path, undrawn):
    records = [
        make_record(data=name, seed=s, method=method)
        for name in ("my data", "my-data")
        for method in ("cross_entropy", "focal")
        for s in range(2)
    ]
    study = build_study(records)
    for things in (study.tables, figures_of(study)):
        names = [thing.name for thing in things]
        assert len(set(names)) == len(names)
        assert {"my-data-results", "my-data-trade-off"} & set(names)
        assert {"my-data-results-2", "my-data-trade-off-2"} & set(names)


def test_curves_are_named_by_what_differs(make_record):
    def names(records, by=("model", "batch")):
        runs = arrange(records, by)
        return [labels_of(runs, by)(run) for run in runs]

    models = [make_record(model=m) for m in ("lenet", "vit_tiny")]
    assert names(models) == ["lenet", "vit_tiny"]
    assert names([*models, make_record(model="lenet", batch=3)]) == [
        "lenet, batch 3", "lenet, batch 32", "vit_tiny, batch 32",
    ]  # fmt: skip
    assert names([*models, make_record(model="lenet", method="focal")]) == [
        "cross_entropy, lenet", "cross_entropy, vit_tiny", "focal, lenet",
    ]  # fmt: skip
    assert names(models[:1]) == ["cross_entropy"]
    weighed = [make_record(method="head_noise", method_options={"weight": 0.5}), make_record()]
    assert names(weighed, ["weight"]) == ["cross_entropy", "head_noise, weight 0.5"]
    runs = arrange(models, ["model"])
    assert {labels_of(runs, ["model"], without=["model"])(run) for run in runs} == {"cross_entropy"}


def test_a_key_of_numbers_has_a_figure(make_record):
    weights = (0.001, 0.01, 0.1)
    records = [
        make_record(method="head_noise", method_options={"weight": w}, seed=s)
        for w in weights
        for s in range(2)
    ]
    study = build_study([*records, make_record()], by=["weight"])
    (sweep,) = [figure for figure in figures_of(study) if figure.name == "gum-weight"]
    assert sweep.charts[0].x.logarithmic
    assert [place.x for place in sweep.charts[0].curves[0].places] == list(weights)


def test_markdown_keeps_its_columns():
    row = TableRow(("a|b",), (TableEntry("x*y"), TableEntry("1", bold=True)))
    text = markdown_table(Table("t", "T", ("m",), ("p|q", "r"), (row,)))
    assert text.splitlines()[0] == "| m | p\\|q | r |"
    assert text.splitlines()[2] == "| a\\|b | x\\*y | **1** |"


def test_markdown_of_the_pilot(pilot):
    text = markdown_report(pilot, [("figures/a.svg", "A")])
    assert "| focal (gamma 3) | 128 | 3 | **0.511 ± 0.020** |" in text
    assert "![A](figures/a.svg)" in text
    assert text.startswith("# Report of runs\n\n- 72 records of 3 corpora")


def test_markdown_names_its_details(varied):
    study = build_study(varied)
    text = markdown_report(study)
    titles = re.findall(r"^### (.*)", text, re.M)
    assert titles == [table.title for table in study.tables if not table.closed]
    named = re.findall(r"\(`([\w-]+)`\)", text)
    assert named == [table.name for table in study.tables if table.closed]
    assert all(f"- {sentence}" in text for sentence in (*study.summary, *study.missing))


def test_long_tables_are_cut_and_say_so():
    rows = tuple(TableRow((str(i),), (TableEntry("1"),), (f"key-{i}",)) for i in range(5))
    table = Table("t", "T", ("m",), ("p",), rows, most=2)
    assert len(markdown_table(table).splitlines()) == 4
    assert csv_table(table).count("\n") == 6
    assert latex_table(table).count("& 1") == 5


def test_a_real_report_fits_on_a_few_pages():
    paths = [PILOT.parent / name for name in ("table1.jsonl", "others.jsonl")]
    study = build_study(read_all(paths), extra_tables=reproduction_tables)
    assert len(study.units) == 5
    assert len(markdown_report(study).splitlines()) < 1000
    page = render_study(study)
    assert "more rows</summary>" in page
    assert page.count("<tr") > 1000


def test_latex_rules_are_under_titles():
    row = TableRow(("a",), (TableEntry("1"), TableEntry("2"), TableEntry("3")))
    table = Table("t", "T", ("m",), ("n", "p", "q"), (row,), groups=(("", 1), ("G", 2)))
    assert re.findall(r"\\cmidrule\(lr\)\{(.*?)\}", latex_table(table)) == ["3-4"]
    assert table.full_heads == ("n", "G p", "G q")


def test_latex_of_our_own_words_is_plain(pilot, varied):
    """Whatever engine sets it, without packages for other letters."""
    for table in (*pilot.tables, *build_study(varied).tables):
        assert latex_table(table).isascii()


def test_every_number_has_records(pilot, varied):
    for study in (pilot, build_study(varied)):
        for table in study.tables:
            assert all(row.keys for row in table.rows), table.name


def test_the_list_of_records_shows_the_score_of_the_task():
    record = read_all([PILOT.with_name("cifar10-train.jsonl")])[0]
    page = render_study(build_study([record]))
    shown = page[page.index('id="records"') :]
    assert ">accuracy<" in shown
    assert f">{record.results['identity']['test']['accuracy']:.4f}<" in shown


def test_latex_is_balanced(pilot, varied):
    for table in (*pilot.tables, *build_study(varied).tables):
        text = latex_table(table)
        body = re.sub(r"\\[{}]", "", text)
        assert body.count("{") == body.count("}")
        columns = len(table.label_heads) + len(table.heads)
        lines = [line for line in text.splitlines() if line.endswith(r"\\")]
        plain = [line for line in lines if "multicolumn" not in line]
        assert {line.replace(r"\&", "").count("&") for line in plain} == {columns - 1}
        assert not re.search(
            r"(?<!\\)[_%#](?!.*booktabs)", re.sub(r"\\label.*|% Needs.*", "", text)
        )


def test_csv_gives_the_numbers_back(pilot):
    for table in pilot.tables:
        rows = list(csv.DictReader(io.StringIO(csv_table(table))))
        for row, line in zip(table.rows, rows, strict=True):
            assert line["records"].split() == list(row.keys)
            for head, entry in zip(table.full_heads, row.entries, strict=True):
                if entry.n and entry.value == entry.value:
                    assert float(line[head]) == pytest.approx(entry.value, rel=1e-9)
                if entry.half == entry.half:
                    assert float(line[f"{head} ±"]) == pytest.approx(entry.half, rel=1e-9)


def test_json_holds_everything(pilot):
    content = json.loads(json.dumps(pilot.to_dict(), allow_nan=False))
    keys = {key for keys in content["record_sets"].values() for key in keys}
    assert len(keys) == 72
    for table in content["tables"]:
        for row in table["rows"]:
            assert row["records"] is None or row["records"] in content["record_sets"]


@settings(
    max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_the_order_of_records_does_not_matter(data, varied):
    mixed = data.draw(st.permutations(varied))
    one, other = build_study(varied), build_study([*mixed, mixed[0]])
    assert one.to_dict() == other.to_dict()
    assert render_study(one) == render_study(other)


@pytest.fixture
def undrawn(monkeypatch):
    """No matplotlib."""
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_records_give_the_same_bytes(varied, tmp_path):
    pytest.importorskip("matplotlib")
    few = [record for record in varied if record.recipe.data == "gum"]
    for name, records in (("a", few), ("b", few[::-1])):
        assert write_study(tmp_path / name, build_study(records)) == []
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one == other
    for ending in (".html", ".md", ".csv", ".tex", ".svg", ".png", ".json"):
        assert any(name.endswith(ending) for name in one)
    assert sorted(one) == json.loads(one["study.json"])["files"]


def test_nothing_is_overwritten_unless_requested(varied, tmp_path, undrawn):
    out = tmp_path / "out"
    write_study(out, build_study(varied))
    before = contents(out)
    with pytest.raises(InputError, match="--overwrite"):
        write_study(out, build_study(varied[:4]))
    assert contents(out) == before
    (out / "tables" / "mine.csv").write_text("mine")
    write_study(out, build_study(varied[:4]), overwrite=True)
    after = contents(out)
    assert after.pop("tables/mine.csv") == b"mine"
    assert sorted(after) == json.loads(after["study.json"])["files"]
    assert len(after) < len(before)


def test_the_records_are_not_written_over(varied, tmp_path):
    with pytest.raises(InputError, match="holds the records"):
        write_study(tmp_path, build_study(varied), inputs=[tmp_path])
    assert contents(tmp_path) == {}


def test_without_matplotlib_it_says_so(varied, tmp_path, undrawn):
    (remark,) = write_study(tmp_path / "out", build_study(varied))
    assert "pip install 'calibrant[plots]'" in remark
    assert not (tmp_path / "out" / "figures").exists()
    assert "![" not in (tmp_path / "out" / "report.md").read_text()


def test_a_foreign_list_of_files_removes_nothing_else(varied, tmp_path, undrawn):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious.csv").write_text("keep")
    (out / "notes.txt").write_text("keep")
    files = ["../precious.csv", "tables/../../precious.csv", "notes.txt", 3]
    (out / "study.json").write_text(json.dumps({"files": files}))
    write_study(out, build_study(varied[:3]), overwrite=True)
    assert (tmp_path / "precious.csv").exists()
    assert (out / "notes.txt").exists()
