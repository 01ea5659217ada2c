"""A new format is its module and its row of the table: every command and function then knows it."""

import json

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.files import FORMATS, count_rows, expand, read, rewrite, stream, suffixes, write
from calibrant.files.format import Block, Format

ROWS = 101


class JsonSource:
    """One JSON object of columns, each a list."""

    def __init__(self, path):
        self.path = path
        self.values = json.loads(path.read_text())
        self.columns = {name: np.shape(column)[1:] for name, column in self.values.items()}

    def length(self, column):
        return len(self.values[column])

    def label_names(self, scores):
        return None

    def blocks(self, rows, layout):
        for start in range(0, self.length(layout.label), rows):
            part = slice(start, start + rows)
            columns = {name: np.array(self.values[name][part]) for name in layout.names}
            yield Block(columns, range(start, start + len(columns[layout.label])))

    def rewrite(self, target, new):
        scores = np.concatenate(list(new.parts(self)))
        (old,) = new.layout.scores
        kept = {name: column for name, column in self.values.items() if new.keeps(name)}
        made = {new.renamed.get(k, k): scores.tolist() if k == old else v for k, v in kept.items()}
        target.write_text(json.dumps(made))


def write_json(parts, path):
    whole = Predictions.concatenate(parts)
    columns = {whole.kind: whole.scores, "label": whole.labels, **whole.groups}
    path.write_text(json.dumps({name: column.tolist() for name, column in columns.items()}))


@pytest.fixture(autouse=True)
def row(monkeypatch):
    monkeypatch.setitem(FORMATS, "columns", Format((".columns",), JsonSource, write_json, True))


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, ROWS)
    scores = 3 * rng.normal(size=(ROWS, 3)) + np.eye(3)[labels]
    return Predictions.from_logits(scores, labels, groups={"fold": np.arange(ROWS) % 4})


@pytest.fixture
def file(predictions, tmp_path):
    path = tmp_path / "p.columns"
    write(predictions, path)
    return path


def test_it_is_read_whole_and_in_chunks(predictions, file):
    assert read(file).scores.tolist() == predictions.scores.tolist()
    for rows in (1, 50, 100, 101, 102):
        parts = list(stream(file, rows=rows))
        assert [len(part) for part in parts[:-1]] == [rows] * (len(parts) - 1)
        assert (
            np.concatenate([part.scores for part in parts]).tolist() == read(file).scores.tolist()
        )
    assert count_rows(file) == ROWS


def test_folders_globs_and_messages_know_it(file):
    assert expand(file.parent) == expand(str(file.parent / "*.columns")) == [file]
    assert suffixes()[-1] == ".columns"
    with pytest.raises(InputError, match=r"expected one of .*\.columns"):
        read(__file__)


def test_it_is_written_atomically(predictions, file):
    with pytest.raises(InputError, match="exists"):
        write(predictions, file)
    write(predictions, file, overwrite=True)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_it_is_rewritten_with_all_columns(file, tmp_path):
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"probabilities": [0.5] * ROWS, "note": ["a b"] * ROWS}))
    rewrite(file, tmp_path / "new.columns", lambda read: read, kind="logits")
    new = json.loads((tmp_path / "new.columns").read_text())
    assert list(new) == ["probabilities", "label", "fold", "note"]
    assert new["probabilities"] == pytest.approx(read(file, kind="logits").probabilities())
    with pytest.raises(InputError, match=r"must end in \.columns"):
        rewrite(file, tmp_path / "new.npz", lambda read: read)


def test_every_command_takes_it(predictions, file, tmp_path, capsys):
    saved, out, other = (tmp_path / name for name in ("map.json", "out.columns", "other.columns"))
    write(predictions[: ROWS // 2], other)
    assert main(["fit", str(file), "-o", str(saved)]) == 0
    assert main(["apply", str(saved), str(file), "-o", str(out)]) == 0
    assert main(["audit", str(out), "--bootstrap", "20"]) == 0
    assert main(["compare", str(other), str(file), "--force", "--bootstrap", "100"]) == 0
    fitted = Temperature().fit(read(file))
    expected = fitted.transform(read(file)).probabilities()
    assert read(out).scores == pytest.approx(expected)
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert ".columns" in capsys.readouterr().out
