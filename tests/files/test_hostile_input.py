"""Files that were made to break a reader: each is one line that says what is wrong, and exit 2."""

import contextlib
import gzip
import io
import json
import os
import struct
import time
import zipfile

import numpy as np
import pytest

from calibrant.cli import main
from calibrant.files import expand, fingerprints, read, stream
from calibrant.files.arrow_text import _ObjectPerLine, _OddError
from calibrant.inputs import InputError, check_unpacked, door, parse_json

LOGITS = np.array([[2.0, 0.5, 0.1], [0.3, 1.0, 0.2], [0.1, 0.4, 1.5]] * 10)
LABELS = np.arange(30) % 3
OBJECT = '{"logits": [1, 2], "label": 0}'


def npz(path, compress=zipfile.ZIP_STORED, **arrays):
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, array in {"logits": LOGITS, "labels": LABELS, **arrays}.items():
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
    return path


def header(shape, descr="<f8"):
    """An npy of which only the header is there."""
    member = io.BytesIO()
    about = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(member, about)
    return member.getvalue()


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def changed(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    return path


def safetensors(path, entries, data, metadata=None):
    text = json.dumps({**({"__metadata__": metadata} if metadata else {}), **entries}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def text_file(name, content):
    def make(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return make


def with_zip_field(path, place, number):
    """Write a field of two bytes into both headers of each member of a zip file."""
    content = bytearray(path.read_bytes())
    for signature, start in ((b"PK\x03\x04", place), (b"PK\x01\x02", place + 2)):
        at = content.find(signature)
        while at >= 0:
            content[at + start : at + start + 2] = struct.pack("<H", number)
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    return path


def encrypted(folder):
    return with_zip_field(npz(folder / "p.npz"), place=6, number=1)


def strange_compression(folder):
    return with_zip_field(npz(folder / "p.npz"), place=8, number=97)


def many_empty_rows(folder):
    shape = (10**12, 0, 3)
    return archive(folder / "p.npz", logits=header(shape), labels=header((10**12, 0), "<i8"))


def many_empty_rows_of_tensors(folder):
    entries = {
        "logits": {"dtype": "F64", "shape": [10**12, 0, 3], "data_offsets": [0, 0]},
        "labels": {"dtype": "I64", "shape": [10**12, 0], "data_offsets": [0, 0]},
    }
    return safetensors(folder / "p.safetensors", entries, b"")


def tensors(folder, **changes):
    entries = {
        "logits": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]},
        "labels": {"dtype": "I64", "shape": [2], "data_offsets": [32, 48]},
        "word": {"dtype": "I64", "shape": [2], "data_offsets": [48, 64]},
    }
    for name, change in changes.items():
        entries[name] = {**entries[name], **change}
    data = np.zeros(4).tobytes() + bytes(16) + np.array([0, 7]).tobytes()
    metadata = {"texts": json.dumps({"word": ["a", "b"]})}
    return safetensors(folder / "p.safetensors", entries, data, metadata)


def parquet(folder, columns, metadata=None, names=None):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as library

    arrays = [c if isinstance(c, pyarrow.Array) else pyarrow.array(c) for c in columns.values()]
    table = pyarrow.Table.from_arrays(arrays, names=names or list(columns))
    library.write_table(table.replace_schema_metadata(metadata), folder / "p.parquet")
    return folder / "p.parquet"


def text_that_is_not_utf8(folder):
    pyarrow = pytest.importorskip("pyarrow")
    word = pyarrow.array([b"\xff", b"a"]).view(pyarrow.string())
    return parquet(folder, {"logits": [[1.0, 2.0]] * 2, "label": [0, 1], "word": word})


def name_that_is_not_utf8(folder):
    return changed(
        parquet(folder, {"logits": [[1.0, 2.0]] * 2, "label": [0, 1], "wxyz": [1, 2]}),
        b"wxyz",
        b"w\xff\xfez",
    )


def label_names_that_are_none(folder):
    columns = {"logits": [[1.0, 2.0]] * 2, "label": [0, 1]}
    return parquet(folder, columns, {"label_names": "[" * 100_000})


HOSTILE = {
    "a list of lists": (text_file("p.jsonl", '{"logits": [[1], [2]], "label": 0}\n'), "no column"),
    "a list of lists later": (
        text_file("p.jsonl", '{"logits": [1, 2], "label": 0}\n{"logits": [[1], [2]], "label": 0}'),
        "expected a list of 2 numbers in 'logits' at line 2",
    ),
    "numbers beyond floats": (
        text_file("p.jsonl", f'{{"logits": [1, {10**400}], "label": 0}}\n'),
        "expected a list of 2 numbers below 1e308 in 'logits' at line 1",
    ),
    "two objects on a line": (
        text_file("p.jsonl", OBJECT * 2 + "\n"),
        "line 1: not JSON (Extra data",
    ),
    "two objects on a later line": (
        text_file("p.jsonl", OBJECT + "\n" + OBJECT * 2),
        "line 2: not JSON (Extra data",
    ),
    "nested without end": (text_file("p.jsonl", '{"logits": ' + "[" * 100_000), "nested too"),
    "a label of many digits": (
        text_file("p.csv", f"logits_0,logits_1,label\n1,2,{'9' * 5000}\n"),
        "9… (5,000 characters) in column 'label' is not a class number at line 2",
    ),
    "a label of twenty digits": (
        text_file("p.jsonl", f'{{"logits": [1, 2], "label": {10**20}}}\n'),
        "Label 100000000000000000000 in column 'label' is not a class number at line 1",
    ),
    "a column number of many digits": (
        text_file("p.csv", f"logits_0,logits_{'9' * 5000},label\n1,2,0\n"),
        "without a gap",
    ),
    "not gzipped": (text_file("p.csv.gz", "logits_0,logits_1,label\n1,2,0\n"), "damaged after"),
    "encrypted": (encrypted, "it is encrypted; save it without a password"),
    "unknown compression": (strange_compression, "not a complete npz file ("),
    "dates as labels": (
        lambda folder: npz(folder / "p.npz", labels=np.zeros(30, "M8[s]")),
        "got dtype datetime64[s]",
    ),
    "names without an axis": (
        lambda folder: npz(folder / "p.npz", label_names=np.array("abc")),
        "'label_names' must be a list of names",
    ),
    "no rows": (
        lambda folder: npz(folder / "p.npz", logits=np.zeros((0, 3)), labels=np.zeros(0, int)),
        "no rows",
    ),
    "rows without an end": (many_empty_rows, "the rows of 'logits' are empty"),
    "tensor rows without an end": (many_empty_rows_of_tensors, "the rows of 'logits' are empty"),
    "a header that claims more": (
        lambda folder: archive(
            folder / "p.npz", logits=header((10**12, 3)), labels=header((10**12,), "<i8")
        ),
        "the header gives 'logits' the wrong size",
    ),
    "a negative length": (
        lambda folder: archive(
            folder / "p.npz", logits=header((-1, -3)), labels=header((-1,), "<i8")
        ),
        "not a complete npz file (an array has the shape (-1, -3))",
    ),
    "numbers for no text": (tensors, "'word' has numbers without a text"),
    "a place outside": (
        lambda folder: tensors(folder, labels={"data_offsets": [320, 336]}),
        "it ends before 'labels' does",
    ),
    "a place before": (
        lambda folder: tensors(folder, labels={"data_offsets": [-16, 0]}),
        "a shape or place that is not a whole number",
    ),
    "a shape of text": (
        lambda folder: tensors(folder, labels={"shape": ["2"]}),
        "a shape or place that is not a whole number",
    ),
    "no tensors": (lambda folder: safetensors(folder / "p.safetensors", {}, b""), "no rows"),
    "only single numbers": (
        lambda folder: archive(folder / "p.npz", logits=header(()) + bytes(8)),
        "no rows; the file is empty",
    ),
    "a header nested without end": (
        text_file("p.safetensors", (100_000).to_bytes(8, "little") + b"[" * 100_000),
        "it is nested too deeply",
    ),
    "two columns of one name": (
        lambda folder: parquet(
            folder, {"a": [[1.0, 2.0]], "b": [0], "c": [1]}, names=["logits", "label", "label"]
        ),
        "two columns are called 'label'",
    ),
    "labels that are lists of lists": (
        lambda folder: parquet(folder, {"logits": [[1.0, 2.0]], "label": [[[1.0]]]}),
        "'label' holds lists of text, or objects",
    ),
    "text not UTF-8 in parquet": (text_that_is_not_utf8, "'word' holds a value that cannot be"),
    "a name not UTF-8 in parquet": (name_that_is_not_utf8, "not a whole parquet file"),
    "label names nested without end": (label_names_that_are_none, "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("command", ["audit", "apply"])
def test_hostile_files_are_one_line(case, command, tmp_path, capsys):
    make, expected = HOSTILE[case]
    path = make(tmp_path)
    if command == "apply":
        if case in (
            "labels that are lists of lists",
            "dates as labels",
            "a label of many digits",
            "a label of twenty digits",
        ):
            pytest.skip("apply reads no labels")
        if case in (
            "text not UTF-8 in parquet",
            "numbers for no text",
        ):
            pytest.skip("apply copies other columns as they are")
        map_ = identity(3 if "npz" in path.name else 2)
        (tmp_path / "map.json").write_text(json.dumps(map_))
        arguments = [
            "apply",
            str(tmp_path / "map.json"),
            str(path),
            "-o",
            str(tmp_path / f"o{path.name}"),
        ]
    else:
        arguments = ["audit", str(path), "--bootstrap", "0"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    assert len(err) < 1000


def identity(classes):
    return {
        "signature": "calibrant calibrator", "format": 1, "version": "0", "method": "identity",
        "hyperparameters": {}, "classes": classes, "label_names": None, "fell_back": False,
        "fitted_on": {}, "learned": {},
    }  # fmt: skip


def applied(folder):
    """Apply a calibrator to ``p.npz``, and return the exit code."""
    (folder / "m.json").write_text(json.dumps(identity(3)))
    calibrator, given, made = (str(folder / name) for name in ("m.json", "p.npz", "o.npz"))
    return main(["apply", calibrator, given, "-o", made])


def test_foreign_metadata_of_parquet_is_ignored(tmp_path):
    columns = {"logits": [[1.0, 2.0]] * 2, "label": [0, 1]}
    for content in ("[]", "{", "[" * 100_000, '{"info": {"features": [1]}}',
                    '{"info": {"features": {"label": {"names": "ab"}}}}'):  # fmt: skip
        path = parquet(tmp_path, columns, {"huggingface": content})
        assert read(path).label_names is None


def test_a_checksum_is_compared_to_the_end(tmp_path):
    """One bit in the last value: zipfile compares when it has read to the end."""
    path = npz(tmp_path / "p.npz")
    content = bytearray(path.read_bytes())
    at = content.find(LOGITS[-1].tobytes(), content.find(LOGITS.tobytes()) + LOGITS.nbytes - 24)
    content[at + 16] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="Bad CRC-32"):
        read(path)


def test_a_changed_page_of_parquet_is_noticed(tmp_path):
    from calibrant import Predictions

    pytest.importorskip("pyarrow")
    path = tmp_path / "p.parquet"
    Predictions.from_logits(
        np.random.default_rng(0).normal(size=(999, 3)), np.zeros(999, int)
    ).write(path)
    content = bytearray(path.read_bytes())
    content[6000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a whole parquet file"):
        read(path)


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "p.csv")
    for call in (
        lambda: expand(tmp_path / "p.csv"),
        lambda: expand(str(tmp_path / "*.csv")),
        lambda: fingerprints(tmp_path / "p.csv"),
        lambda: read(tmp_path / "p.csv"),
    ):
        with pytest.raises(InputError, match="a pipe or a device"):
            call()


@pytest.mark.parametrize("command", ["audit --labels", "report", "bench -o x", "fit -o m.json"])
def test_pipes_are_refused_by_every_command(command, tmp_path, capsys):
    os.mkfifo(tmp_path / "p.jsonl")
    npz(tmp_path / "p.npz")
    words = command.split()
    files = [str(tmp_path / "p.npz")] if words[0] == "audit" else []
    assert main([words[0], *files, *words[1:], str(tmp_path / "p.jsonl")]) == 2
    assert "is a pipe or a device, which may never end" in capsys.readouterr().err


def test_many_columns_take_linear_time(tmp_path):
    names = ",".join(f"logits_{k}" for k in range(40_000))
    row = ",".join(["0.5"] * 40_000)
    (tmp_path / "p.csv").write_text(f"{names},label\n{row},3\n{row},39999\n")
    start = time.perf_counter()
    assert read(tmp_path / "p.csv").classes == 40_000
    assert time.perf_counter() - start < 10  # 17 s and more where each name is looked for in all.


def test_many_labels_take_linear_time():
    from calibrant.labels import label_numbers

    names = [f"name {k}" for k in range(50_000)]
    start = time.perf_counter()
    assert label_numbers(np.array(names), names, "label").tolist() == list(range(50_000))
    assert time.perf_counter() - start < 5


def test_files_that_unpack_to_far_more_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant.inputs.ALWAYS_ALLOWED", 1 << 16)
    rows = "1,2,0\n" * 200_000
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(f"logits_0,logits_1,label\n{rows}".encode()))
    npz(
        tmp_path / "p.npz",
        zipfile.ZIP_DEFLATED,
        logits=np.zeros((10**6, 3)),
        labels=np.zeros(10**6),
    )
    line = '{"logits": [1, 2], "label": 0}\n' * 50_000
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    for name, remedy in (("p.csv.gz", "gunzip"), ("p.jsonl.gz", "gunzip"), ("p.npz", "savez")):
        with pytest.raises(InputError, match=rf"unpack to more than 200 times .*\b{remedy}\b"):
            read(tmp_path / name)
    monkeypatch.setattr("calibrant.files.arrow_text.find_spec", lambda _: None)
    with pytest.raises(InputError, match="unpack to more than 200 times"):
        read(tmp_path / "p.csv.gz")
    monkeypatch.undo()
    assert len(read(tmp_path / "p.csv.gz")) == 200_000
    check_unpacked(tmp_path / "p.npz", 1 << 30, "")


def test_a_cell_may_hold_a_document(tmp_path):
    long = "x" * 200_000
    (tmp_path / "p.csv").write_text(f"logits_0,logits_1,label,text\n1,2,0,{long}\n1,2,1,b\n")
    assert read(tmp_path / "p.csv").groups["text"].tolist() == [long, "b"]
    (tmp_path / "m.json").write_text(json.dumps(identity(2)))
    out = tmp_path / "o.csv"
    assert main(["apply", str(tmp_path / "m.json"), str(tmp_path / "p.csv"), "-o", str(out)]) == 0
    assert read(out).groups["text"].tolist() == [long, "b"]


def test_lines_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant.files.lines.LONGEST_LINE", 50)
    (tmp_path / "p.csv").write_text(f"logits_0,logits_1,label\n1,2,{'0' * 60}\n")
    with pytest.raises(InputError, match="line 2 has more than 50 characters"):
        list(stream(tmp_path / "p.csv"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{}\n{}\n", 2), ("{}\r\n{}", 2), ("{}", 1), ("{}{}\n{}", 2), ("", 0),
        ("{}\n\n{}", None), (" {}", None), ("{} \n{}", None), ('{"a":\n1}', None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_counted_where_each_is_one_object(text, lines, size, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "p.jsonl").write_bytes(text.encode())

    def count():
        return _ObjectPerLine(tmp_path / "p.jsonl", size).finish()

    if lines is None:
        with pytest.raises(_OddError):
            count()
    else:
        assert count() == lines


def test_memory_is_not_called_damage():
    with pytest.raises(InputError, match=r"p.npz: it does not fit into memory \(1 TB\)"):  # noqa: SIM117
        with door("p.npz", "not a complete npz file"):
            raise MemoryError("1 TB")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_input_that_cannot_be_read_is_not_called_an_output(tmp_path, capsys):
    npz(tmp_path / "p.npz").chmod(0)
    assert applied(tmp_path) == 2
    assert "p.npz: no permission to read it" in capsys.readouterr().err


def test_a_damaged_member_is_no_fault_of_the_output(tmp_path, capsys):
    """apply copies the arrays that it does not read, and says which file is damaged."""
    extra = np.arange(1000)
    changed(npz(tmp_path / "p.npz", extra=extra), extra[500:].tobytes(), bytes(4000))
    assert applied(tmp_path) == 2
    err = capsys.readouterr().err
    assert "p.npz: not a complete npz file (Bad CRC-32 for file 'extra.npy')" in err
    assert not (tmp_path / "o.npz").exists()


def test_json_has_a_depth():
    assert parse_json("[" * 100 + "]" * 100)
    for deep in ("[" * 101 + "]" * 101, '{"a":' * 200 + "1" + "}" * 200, "[" * 10**5):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(deep)
    assert len(parse_json("[" + "[]," * 1000 + "[]]")) == 1001


def test_dates_name_groups_and_other_types_do_not(tmp_path, capsys):
    days = np.arange(30).astype("m8[D]")
    assert read(npz(tmp_path / "p.npz", day=days)).groups["day"][1] == "1 days"
    assert main(["audit", str(tmp_path / "p.npz"), "--bootstrap", "0", "--json"]) == 0
    json.loads(capsys.readouterr().out)
    words = np.array([b"\xc3\xa9", b"\xff"] * 15)
    assert read(npz(tmp_path / "p.npz", word=words)).groups["word"][:2].tolist() == ["é", "\ufffd"]
    npz(tmp_path / "p.npz", odd=np.zeros(30, [("a", "f8")]))
    with pytest.raises(InputError, match="Group 'odd' must hold numbers or text"):
        read(tmp_path / "p.npz")


def test_labels_in_half_precision(tmp_path):
    """They are compared with no number that half precision lacks."""
    assert len(read(npz(tmp_path / "p.npz", labels=LABELS.astype(np.float16)))) == 30


def test_damage_that_ends_pyarrow_is_not_asked_for(tmp_path):
    """pyarrow aborts where the sizes in the metadata of a column are damaged and asked for."""
    path = parquet(tmp_path, {"logits": [[1.0, 2.0]] * 3, "label": [0, 1, 0]})
    content = path.read_bytes()
    for at in range(content.rindex(b"label"), len(content) - 8):
        for bit in (1, 8):
            damaged = bytearray(content)
            damaged[at] ^= bit
            path.write_bytes(damaged)
            with contextlib.suppress(InputError):
                read(path)


def test_a_list_of_arrays_that_lacks_one(tmp_path):
    """The comment of one member swallows the next: zipfile would not see that one is missing."""
    path = npz(tmp_path / "p.npz", sentence=np.arange(30) // 3)
    assert "sentence" in read(path).groups
    content = bytearray(path.read_bytes())
    last = content.rfind(b"PK\x01\x02")
    before = content.rfind(b"PK\x01\x02", 0, last)
    content[before + 32 : before + 34] = (content.rfind(b"PK\x05\x06") - last).to_bytes(2, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match="its list of arrays is damaged"):
        read(path)


def test_an_archive_in_the_wide_format_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    assert len(read(npz(tmp_path / "p.npz"))) == 30


def test_arrow_calls_no_python_when_the_interpreter_ends(tmp_path):
    """Its threads read ahead: with a file of Python's, one process in a hundred was aborted."""
    pytest.importorskip("pyarrow")
    from calibrant.files import arrow_text

    (tmp_path / "p.csv").write_text("a\n1\n")
    assert type(arrow_text._open(tmp_path / "p.csv")).__module__ == "pyarrow.lib"
