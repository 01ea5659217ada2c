"""Data that changed on disk is read again, even within one process."""

import json

import numpy as np
import pytest

from calibrant.experiments.recipe import Recipe
from calibrant.tasks import task_of
from calibrant.tasks.reading.fingerprint import data_state, disk_state

pytest.importorskip("transformers")


def prepared(**settings):
    recipe = Recipe.from_dict({"dtype": "float32", "model": "tiny", **settings})
    return task_of(recipe.task).prepare(recipe)


def test_a_corpus_that_changed_is_read_again(corpus, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.conll").write_text((corpus / f"{split}.conll").read_text())
    settings = {"data": str(tmp_path)}
    before = prepared(**settings)
    assert prepared(**settings) is before
    text = (tmp_path / "train.conll").read_text()
    (tmp_path / "train.conll").write_text(text.replace("Anna", "Anne"))  # Of the same size.
    after = prepared(**settings)
    assert after.fingerprint != before.fingerprint
    assert any("Anne" in s.words for s in after.corpus.train)


def test_files_of_splits_that_changed_are_read_again(corpus, tmp_path):
    (tmp_path / "a.txt").write_text((corpus / "train.conll").read_text())
    files = {"train_file": str(tmp_path / "a.txt"), "test_file": str(corpus / "test.conll")}
    before = prepared(data="mine", **files)
    (tmp_path / "a.txt").write_text((corpus / "train.conll").read_text().replace("Anna", "Anne"))
    assert prepared(data="mine", **files).fingerprint != before.fingerprint


def test_texts_that_changed_are_read_again(tmp_path):
    rows = [{"text": f"word{i}", "label": "ab"[i % 2]} for i in range(20)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    before = prepared(task="text", data=str(tmp_path))
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, reversed(rows))))
    assert prepared(task="text", data=str(tmp_path)).fingerprint != before.fingerprint


def test_images_that_changed_are_read_again(tmp_path):
    seen = set()
    for seed in (0, 1):
        pixels = np.random.default_rng(seed).integers(0, 255, (20, 8, 8), np.uint8)
        np.savez(tmp_path / "a.npz", train_images=pixels, train_labels=np.arange(20) % 2)
        seen.add(prepared(task="image", data=str(tmp_path / "a.npz"), model="lenet").fingerprint)
    assert len(seen) == 2


def test_states(tmp_path):
    assert data_state("synthetic", "ner") == disk_state() == disk_state(None)
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").symlink_to(tmp_path / "nowhere")
    before = disk_state(tmp_path)
    assert disk_state(tmp_path) == before
    (tmp_path / "a").write_text("two")
    assert disk_state(tmp_path) != before
    before = disk_state(tmp_path, large=2)
    assert disk_state(tmp_path, large=2) == before
    (tmp_path / "a").write_text("three")
    assert disk_state(tmp_path, large=2) != before
