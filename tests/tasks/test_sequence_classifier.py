"""Texts in word pieces, and heads for whole texts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calibrant.errors import InputError  # noqa: E402
from calibrant.tasks.encoders.heads import with_sequence_head  # noqa: E402
from calibrant.tasks.encoders.model_folder import load_model, write_model  # noqa: E402
from calibrant.tasks.encoders.small_encoder import (  # noqa: E402
    build_small_encoder,
    build_small_tokenizer,
)
from calibrant.tasks.text.corpus import load_texts  # noqa: E402
from calibrant.tasks.text.encoded_texts import encode_texts, text_scores  # noqa: E402
from calibrant.training.windows import Windows  # noqa: E402

TEXTS = ["it barks", "", "it " + "purrs and " * 9 + "purrs", "miau"]
LABELS = ("dog", "cat")
SIZE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL = {**SIZE, "intermediate_size": 32, "vocab_size": 100, "num_labels": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return build_small_tokenizer(" ".join(TEXTS).split())


def test_texts_stand_end_to_end_and_long_ones_keep_their_last_piece(tokenizer):
    encoded = encode_texts(TEXTS, [0, -100, 1, 1], tokenizer, max_length=16)
    plain = [tokenizer(text)["input_ids"] for text in TEXTS]
    assert encoded.shortened == sum(len(ids) > 16 for ids in plain) == 1
    assert [encoded[i]["labels"] for i in range(4)] == [0, -100, 1, 1]
    for i, ids in enumerate(plain):
        found = encoded[i]["input_ids"].tolist()
        assert found == (ids if len(ids) <= 16 else [*ids[:15], ids[-1]])
    with pytest.raises(IndexError):
        encoded[4]


@pytest.mark.parametrize("special", ["around", "in front", "none"])
def test_long_texts_are_cut_as_transformers_cuts_them(tokenizer, special):
    """Qwen and Llama classify by the last piece, which must not be one of the cut part."""
    import tokenizers

    core = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    if special != "around":
        pieces = [("[CLS]", tokenizer.cls_token_id)]
        single = "[CLS] $A" if special == "in front" else "$A"
        core.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, special_tokens=pieces
        )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]")
    texts = ["it purrs and barks " * 9 + "it", "it barks", "it " * 8]
    encoded = encode_texts(texts, [0, 0, 0], fast, max_length=8)
    for number, text in enumerate(texts):
        expected = fast(text, truncation=True, max_length=8)["input_ids"]
        assert encoded[number]["input_ids"].tolist() == expected


def test_windows_of_texts_have_one_label_each(tokenizer):
    encoded = encode_texts(TEXTS, [0, 0, 1, 1], tokenizer, max_length=24)
    batch = Windows(encoded, "cpu", padding=9).batch(torch.tensor([2, 0, -1]), 24)
    assert batch["labels"].tolist() == [1, 0, -100]
    assert batch["input_ids"].shape == (3, 24)
    assert batch["attention_mask"].sum(1).tolist() == [encoded.lengths[2], encoded.lengths[0], 1]


def test_logits_come_in_the_order_of_the_texts(tokenizer):
    model = build_small_encoder(tokenizer, LABELS, unit="sequence").eval()
    texts = [text * (1 + number % 3) for number, text in enumerate(TEXTS * 3)]
    encoded = encode_texts(texts, np.zeros(12, int), tokenizer)
    found = text_scores(model, encoded, tokenizer.pad_token_id).logits
    for number, text in enumerate(texts):
        with torch.no_grad():
            alone = model(**tokenizer([text], return_tensors="pt")).logits[0]
        np.testing.assert_allclose(found[number], alone.numpy(), atol=1e-5)


@pytest.mark.parametrize("depth", [0, 2])
def test_a_head_is_drawn_from_the_seed_and_is_written_for_transformers(tokenizer, depth, tmp_path):
    def built(seed):
        model = build_small_encoder(tokenizer, LABELS, unit="sequence")
        return with_sequence_head(model, 2, seed, depth=depth, width=8)

    first, again, other = (built(seed).classifier.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    model = built(0).eval()
    head = {"width": 8, "depth": depth, "activation": "relu"}
    write_model(model, tokenizer, tmp_path, **head, unit="sequence")
    inputs = tokenizer(TEXTS[:1], return_tensors="pt")
    expected = model(**inputs).logits
    read, _ = load_model(tmp_path, unit="sequence")
    torch.testing.assert_close(read(**inputs).logits, expected)
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, trust_remote_code=depth > 0
    ).eval()
    torch.testing.assert_close(plain(**inputs).logits, expected)


def test_a_head_of_several_layers_stays_as_its_class_made_it(tokenizer, tmp_path):
    config = transformers.RobertaConfig(**SMALL)
    model = transformers.RobertaForSequenceClassification(config)
    with pytest.raises(InputError, match="head_depth 0"):
        with_sequence_head(model, 2, depth=1)
    first = with_sequence_head(model, 2, 0, depth=0).classifier.out_proj.weight.clone()
    assert torch.equal(with_sequence_head(model, 2, 0, depth=0).classifier.out_proj.weight, first)
    write_model(model, tokenizer, tmp_path, width=8, depth=0, activation="relu", unit="sequence")
    read, _ = load_model(tmp_path, unit="sequence")
    assert torch.equal(read.classifier.out_proj.weight, first)


def test_one_file_is_training_data_of_which_the_rest_is_carved(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("text,label\n" + "It barks.,dog\nIt purrs.,cat\n" * 10)
    corpus = load_texts(str(path))
    assert [len(corpus.texts[split]) for split in ("train", "dev", "test")] == [16, 2, 2]
    with pytest.raises(InputError, match="There is no file"):
        load_texts(str(tmp_path / "none.csv"))


def test_a_known_corpus_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"train and test \.jsonl files into text/clinc150"):
        load_texts("clinc150", tmp_path)
