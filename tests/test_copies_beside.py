"""Validation files with corrupted copies: only what is made for copies reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions, Temperature, adapt, watch
from calibrant.cli import main


def sample(n: int, sharpness: float, name: str, seed: int) -> Predictions:
    """Four classes; damage makes logits noisier, and keeps their size."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    logits = 2 * (sharpness * np.eye(4)[labels] + rng.normal(size=(n, 4)))
    return Predictions.from_logits(logits, labels, groups={"corruption": np.full(n, name)})


CLEAN = sample(4000, 2.5, "", 0)
COPIES = {
    f"{kind}-{s}": sample(4000, 2.5 - 0.3 * s - shift, f"{kind}-{s}", s)
    for kind, shift in (("typos", 0.0), ("ocr", 0.1))
    for s in (1, 3, 5)
}
BESIDE = Predictions.concatenate([CLEAN, *COPIES.values()])
NEW = sample(3000, 1.8, "", 9)


def test_adapt_takes_them_as_copies() -> None:
    temperature = Temperature().fit(CLEAN)
    one, two = adapt(temperature, BESIDE, NEW), adapt(temperature, CLEAN, NEW, copies=COPIES)
    assert one.method == "set-level"
    assert one.expected_accuracy.value == pytest.approx(two.expected_accuracy.value, abs=1e-12)
    assert {point.name for point in one.sets} == {"validation", *COPIES}
    found = [adapt(temperature, data, CLEAN[:2000], method="em") for data in (BESIDE, CLEAN)]
    assert found[0].to_dict() == found[1].to_dict()


def test_watch_compares_with_the_clean_rows() -> None:
    one, two = (watch(NEW, reference=data, calibrator=None) for data in (BESIDE, CLEAN))
    assert one.to_dict() == two.to_dict()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    BESIDE.write(tmp_path / "beside.parquet")
    CLEAN.write(tmp_path / "clean.parquet")
    COPIES["ocr-5"].write(tmp_path / "damaged.parquet")
    return tmp_path


def test_fit_leaves_them_out_and_says_so(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learned = {}
    for name in ("beside", "clean", "damaged"):
        assert main(["fit", f"{files / name}.parquet", "-o", str(files / f"{name}.json")]) == 0
        printed = capsys.readouterr()
        learned[name] = next(x for x in printed.out.splitlines() if x.startswith("Learned"))
        left_out = "Left out: 24,000 rows with a name in the column 'corruption'" in printed.err
        assert left_out == (name == "beside")
    assert learned["beside"] == learned["clean"] != learned["damaged"]


def test_fit_says_if_there_are_none(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("beside", "clean", "damaged"):
        paths = [f"{files / name}.parquet", "-o", str(files / f"{name}.json")]
        assert main(["fit", "--calibrator", "shift-aware", *paths]) == 0
        assert ("No corrupted copies" in capsys.readouterr().err) == (name != "beside")


def test_guarantee_leaves_them_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for name in ("beside", "clean"):
        output = str(files / f"{name}-policy.json")
        command = ["guarantee", f"{files / name}.parquet", "--target-risk", "0.05", "-o", output]
        assert main(command) == 0
        printed.append(capsys.readouterr().out.splitlines()[:-1])
    assert printed[0] == printed[1]
    assert "4,000 rows" in printed[0][0]
