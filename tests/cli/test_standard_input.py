"""``-``: predictions from standard input, and calibrated ones to standard output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant import Claims, Predictions, Temperature, read
from calibrant.calibrators.shift_aware import ShiftAware


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "calibrant", *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=False)


@pytest.mark.parametrize("suffix", [".npz", ".jsonl", ".arrow"])
def test_a_filter(tmp_path: Path, suffix: str) -> None:
    random = np.random.default_rng(0)
    p = Predictions.from_logits(random.normal(size=(50, 3)), random.integers(0, 3, 50))
    Temperature().fit(p).save(tmp_path / "m.json")
    p.write(tmp_path / f"p{suffix}")
    found = piped(
        (tmp_path / f"p{suffix}").read_bytes(), "apply", str(tmp_path / "m.json"), "-", "-o", "-"
    )
    assert found.returncode == 0, found.stderr
    (tmp_path / f"q{suffix}").write_bytes(found.stdout)
    mapped = read(tmp_path / f"q{suffix}")
    assert not isinstance(mapped, Claims)
    assert np.allclose(mapped.scores, Temperature().fit(p).transform(p).probabilities())


def test_the_filter_gives_what_the_file_has_where_sentences_are_read(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels, sentence = random.integers(0, 3, 800), np.arange(800) // 20
    groups = {"sentence": sentence, "corruption": np.where(sentence % 2, "typos-3", "")}
    logits = 3 * (random.normal(size=(800, 3)) + np.eye(3)[labels])
    signals = {"pieces": random.normal(size=800)}
    p = Predictions.from_logits(logits, labels, groups=groups, signals=signals)
    ShiftAware().fit(p).save(tmp_path / "m.json")
    p[:100].write(tmp_path / "p.csv")
    arguments = ("apply", str(tmp_path / "m.json"), str(tmp_path / "p.csv"), "-o")
    assert piped(b"", *arguments, str(tmp_path / "q.csv")).returncode == 0
    found = piped(b"", *arguments, "-")
    assert found.returncode == 0, found.stderr
    assert found.stdout == (tmp_path / "q.csv").read_bytes()


def test_bad_input_is_one_line() -> None:
    for data, expected in ((b"", "it is empty"), (b"\x1f\x8b0", "gzipped; unpack it first")):
        found = piped(data, "audit", "-")
        assert found.returncode == 2
        assert expected in found.stderr.decode()
        assert found.stderr.decode().count("\n") == 1
