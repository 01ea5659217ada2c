"""``calibrant corrupt``: files in, corrupted files out, bad input in one line."""

import json

import numpy as np
import pytest

from calibrant.cli import main
from calibrant.corruptions import IMAGE, TEXT, corrupt_text


def test_a_text_file(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "Anna Lind sings in Paris."}\n' * 2)
    command = ["corrupt", str(tmp_path / "a.jsonl"), "--kind", "typos", "--strength", "5"]
    assert main([*command, "--seed", "3", "-o", str(tmp_path / "b.jsonl")]) == 0
    assert "typos of strength 5: 2 texts." in capsys.readouterr().out
    texts = [json.loads(line)["text"] for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    old = "Anna Lind sings in Paris."
    assert texts == [corrupt_text(old, "typos", 5, seed=3, number=n) for n in range(2)]
    assert main([*command, "-o", str(tmp_path / "b.jsonl")]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "b.jsonl"), "--overwrite"]) == 0


def test_images(tmp_path, capsys):
    pytest.importorskip("torch")
    np.savez(tmp_path / "a.npz", test_images=np.full((2, 4, 4, 3), 100, np.uint8))
    command = ["corrupt", str(tmp_path / "a.npz"), "--kind", "brightness", "--strength", "1"]
    assert main([*command, "-o", str(tmp_path / "b.npz")]) == 0
    assert "2 images" in capsys.readouterr().out
    with np.load(tmp_path / "b.npz") as new:
        assert (new["test_images"] == 113).all()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a.txt", "jpeg", "holds text, which 'jpeg' is not for"),
        ("a.npz", "typos", "holds images, which 'typos' is not for"),
        ("a.txt", "typo", "Did you mean 'typos'"),
        ("none.txt", "typos", "There is no file"),
        ("a.PNG", "jpeg", "is one image: name the folder of images, or an npz"),
        (".", "typos", "is not for. Texts are corrupted file by file."),
    ],
)
def test_what_is_refused(tmp_path, capsys, name, kind, message):
    for there in ("a.txt", "a.npz", "a.PNG"):
        (tmp_path / there).write_text("")
    assert main(["corrupt", str(tmp_path / name), "--kind", kind, "-o", str(tmp_path / "b")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "kind", "option"),
    [
        ("a.npz", "jpeg", "--layout"),
        ("a.npz", "jpeg", "--column"),
        ("a.txt", "ocr", "--split"),
        ("a.txt", "ocr", "--device"),
    ],
)
def test_options_that_would_do_nothing(tmp_path, capsys, name, kind, option):
    (tmp_path / name).write_text("")
    command = ["corrupt", str(tmp_path / name), "--kind", kind, "-o", str(tmp_path / "b")]
    assert main([*command, option, "x"]) == 2
    assert f"which {option} is not for" in capsys.readouterr().err


def test_all_are_listed(capsys):
    assert main(["list", "corruptions", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == [*TEXT, *IMAGE]
    assert rows[0]["about"].endswith("0.01, 0.02, 0.05, 0.1, 0.2 of the characters")
