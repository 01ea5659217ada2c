"""Pixels of images in files: classes last or second, one file per image or several."""

import json

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.cli import main
from calibrant.files import count_rows, expand, read, stream

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(6, 5, 7, 3)).astype(np.float32)
MASKS = RANDOM.integers(0, 3, (6, 5, 7))
MASKS[:, 0] = -100
WHOLE = Predictions.from_logits(LOGITS, MASKS)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_classes_last_and_second(tmp_path, second, suffix):
    logits = np.ascontiguousarray(np.moveaxis(LOGITS, -1, 1)) if second else LOGITS
    path = tmp_path / f"a.{suffix}"
    arrays = {"logits": logits, "labels": MASKS, "border": (MASKS == 1).astype(np.int8)}
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        pytest.importorskip("safetensors.numpy").save_file(arrays, path)
    found = read(path)
    np.testing.assert_array_equal(found.scores, WHOLE.scores)
    np.testing.assert_array_equal(found.labels, WHOLE.labels)
    np.testing.assert_array_equal(found.groups["image"], WHOLE.groups["image"])
    np.testing.assert_array_equal(found.groups["border"], WHOLE.labels == 1)
    assert count_rows(path) == MASKS.size


def test_one_file_per_image(tmp_path):
    folder = tmp_path / "test"
    folder.mkdir()
    for i, (logits, mask) in enumerate(zip(LOGITS, MASKS, strict=True)):
        np.savez(folder / f"{i}.npz", logits=np.moveaxis(logits, -1, 0)[None], labels=mask[None])
    (folder / "_notes.npz").write_bytes(b"")
    assert [path.name for path in expand(folder)] == [f"{i}.npz" for i in range(6)]
    parts = list(stream(folder))
    assert len(parts) == 6
    assert [set(part.groups["image"].tolist()) for part in parts] == [{i} for i in range(6)]
    np.testing.assert_array_equal(Predictions.concatenate(parts).scores, WHOLE.scores)


def test_audit_of_one_file_per_image(tmp_path, capsys):
    np.savez(tmp_path / "0.npz", logits=LOGITS[:2], labels=MASKS[:2])
    np.savez(tmp_path / "1.npz", logits=LOGITS[2:], labels=MASKS[2:])
    assert main(["audit", str(tmp_path), "--bootstrap", "0"]) == 0
    out = capsys.readouterr().out
    assert "Mean IoU" in out
    assert "Median ECE of an image" in out
    assert "sample of" not in out
    assert main(["audit", str(tmp_path), "--bootstrap", "0", "--sample", "100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["audit"]
    assert found["provenance"]["sampled"] <= 100
    assert "From a sample of" in found["measures"]["aurc"]["meaning"]


def test_parquet_comes_before_npz(tmp_path):
    pytest.importorskip("pyarrow")
    WHOLE.write(tmp_path / "b.parquet")
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=MASKS)
    assert [path.name for path in expand(tmp_path)] == ["b.parquet"]


def test_where_both_readings_fit_classes_are_last(tmp_path):
    logits = RANDOM.normal(size=(2, 3, 3, 3))
    np.savez(tmp_path / "a.npz", logits=logits, labels=np.zeros((2, 3, 3), int))
    np.testing.assert_array_equal(read(tmp_path / "a.npz").scores, logits.reshape(-1, 3))


def test_shapes_that_do_not_fit_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=MASKS[:, :4])
    with pytest.raises(InputError, match=r"a\.npz: .*\(6, 5, 7, 3\)"):
        read(tmp_path / "a.npz")
