"""Every example in docs/files.md works, and all of them hold the same predictions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.files import read, suffixes

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in texts] == ["pets.csv", "answers.csv", "pets.jsonl"]
    for name, text in texts:
        Path(name).write_text(text, encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 9
    for program in programs:
        exec(program, {})
    answers = read("answers.csv")
    assert (answers.kind, len(answers), answers.unlabelled) == ("top-label", 2, 1)
    pets = sorted(Path().glob("pets.*"))
    assert [path.suffix for path in pets] == [
        ".csv",
        ".jsonl",
        ".npz",
        ".parquet",
        ".pt",
        ".safetensors",
    ]
    assert len(read("test_probs.npy")) == 3
    for path in pets:
        found = read(path)
        assert found.scores.tolist() == [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]
        assert found.labels.tolist() == [0, 1, 1]
        assert found.names == ("cat", "dog")
        assert found.groups["fold"].tolist() == [1, 1, 2]


def test_every_suffix_is_named() -> None:
    assert all(f"`{suffix}`" in PAGE for suffix in suffixes())
