"""Every example in docs/tasks.md works, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.tasks.image.pictures import TORCHVISION
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.corpus import load_corpus
from calibrant.tasks.reading.splits import NAMES
from calibrant.tasks.text.corpus import load_texts

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for name, text in re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        path.with_name(path.name.replace("train", "test")).write_text(text, encoding="utf-8")
    return tmp_path


def test_entities(examples: Path) -> None:
    for name in ("conll", "jsonl", "spans"):
        assert load_corpus(str(examples / name)).test == [
            Sentence(
                ("Anna", "Lund", "sings", "in", "Paris"), ("B-PER", "I-PER", "O", "O", "B-LOC")
            ),
            Sentence(("It", "rains"), ("O", "O")),
        ]


def test_tag_schemes(tmp_path: Path) -> None:
    row = re.search(r"\| IOB1 \|.*?\n\|---.*?\n\|(.*?)\|\n", PAGE, re.DOTALL)
    columns = [column.split() for column in row[1].split("|")]
    assert len(columns) == 4
    for tags in columns:
        for split in ("train", "test"):
            lines = [f"w{i}\t{tag}\n" for i, tag in enumerate(tags)]
            (tmp_path / f"{split}.conll").write_text("".join(lines) + "\nend\tO\n")
        assert load_corpus(str(tmp_path)).test[0].tags == ("B-PER", "I-PER", "O", "B-LOC")


def test_texts(examples: Path) -> None:
    for name in ("csv", "lines"):
        corpus = load_texts(str(examples / name))
        assert corpus.texts["test"] == ["It barks.", "It purrs, and sleeps.", "It barks again."]
        assert corpus.labels == ("cat", "dog")


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 3
    for program, printed in programs:
        exec(program, {})
        assert capsys.readouterr().out == printed


def test_every_name_is_documented() -> None:
    for name in (*TORCHVISION, *(name for names in NAMES.values() for name in names[:1])):
        assert f"`{name}`" in PAGE
