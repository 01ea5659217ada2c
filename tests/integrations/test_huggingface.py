"""Pipelines of the real library, with all of its aggregation strategies."""

import copy
import json

import pytest
from entity_data import TEXT, assert_form_is_recorded, small_calibrator

from calibrant.entities import Entity, read_entities, write_entities
from calibrant.entities.dialects import parse_document
from calibrant.integrations.huggingface import CalibratedPipeline

transformers = pytest.importorskip("transformers")
STRATEGIES = ("none", "simple", "first", "average", "max")


@pytest.fixture(scope="module")
def tagger():
    """A token classifier that has learned one sentence, with word pieces."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "Ro", "##sa", "Li", "##nd", "moved", "to", "Pa", "##ris", "."]
    words = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=5, id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
    )  # fmt: skip
    model = transformers.BertForTokenClassification(config)
    batch = {"input_ids": tokenizer(TEXT, return_tensors="pt")["input_ids"]}
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(12):
        model(**batch, labels=torch.tensor([[1, 2, 2, 2, 0, 0, 3, 4, 0]])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), tokenizer


def pipeline(tagger, strategy):
    model, tokenizer = tagger
    return transformers.pipeline(
        "ner", model=model, tokenizer=tokenizer, aggregation_strategy=strategy, device="cpu"
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_confidences_take_the_place_of_scores(tagger, strategy):
    plain = pipeline(tagger, strategy)
    calibrator = small_calibrator("PER", "LOC")
    honest = CalibratedPipeline(plain, calibrator)
    before, after = plain(TEXT), honest(TEXT)
    assert_form_is_recorded(f"Hugging Face, {strategy}", before)
    found = parse_document(before, "").document.entities
    assert [e.span for e in found] == [(0, 9, "PER"), (19, 24, "LOC")]
    expected = calibrator.confidence(found).tolist()
    assert [e.score for e in parse_document(after, "").document.entities] == pytest.approx(expected)
    for old, new in zip(before, after, strict=True):
        assert {**old, "score": 0} == {**new, "score": 0}
    several = honest([TEXT, "moved to ."])
    assert several == [after, []]
    assert honest.tokenizer is plain.tokenizer
    assert copy.copy(honest)(TEXT) == after


def test_tokens_join_as_the_library_joins_them(tagger):
    tokens, simple = (pipeline(tagger, name)(TEXT) for name in ("none", "simple"))
    ours = parse_document(tokens, "").document.entities
    theirs = parse_document(simple, "").document.entities
    assert [e.span for e in ours] == [e.span for e in theirs]
    assert [e.score for e in ours] == pytest.approx([e.score for e in theirs], abs=1e-6)


def test_outputs_are_written_as_they_are(tagger, tmp_path):
    plain = pipeline(tagger, "first")
    write_entities([{"text": TEXT, "entities": plain(TEXT)}], tmp_path / "found.jsonl")
    (document,) = read_entities(tmp_path / "found.jsonl").documents
    assert document.text == TEXT
    assert document.entities[0] == Entity(0, 9, "PER", document.entities[0].score)
    assert 0 < document.entities[0].score <= 1
    assert json.loads((tmp_path / "found.jsonl").read_text())["entities"][0]["word"]
