"""GLiNER itself, with a small model whose weights are random (make test-integrations)."""

import pytest
from entity_data import TEXT, assert_form_is_recorded, small_calibrator

from calibrant.entities.dialects import parse_document
from calibrant.integrations.gliner import CalibratedGLiNER

gliner = pytest.importorskip("gliner", reason="GLiNER is not installed: make test-integrations")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    folder = str(tmp_path_factory.mktemp("encoder"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *TEXT.split(), "PER", "LOC"]
    tokens = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {f"{n.lower()}_token": f"[{n}]" for n in ("PAD", "UNK", "CLS", "SEP")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **names).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    settings = {"model_name": folder, "max_width": 4, "hidden_size": 32, "max_len": 64}
    return gliner.GLiNER.from_config({**settings, "max_types": 5}).eval()


def test_confidences_take_the_place_of_scores(model):
    calibrator = small_calibrator("PER", "LOC")
    honest, labels = CalibratedGLiNER(model, calibrator), ["PER", "LOC"]
    before = model.predict_entities(TEXT, labels, threshold=0.0)
    after = honest.predict_entities(TEXT, labels, threshold=0.0)
    found = parse_document(before, "").document.entities
    assert found
    assert_form_is_recorded("GLiNER", before)
    assert [e["score"] for e in after] == pytest.approx(calibrator.confidence(found).tolist())
    for old, new in zip(before, after, strict=True):
        assert {**old, "score": 0} == {**new, "score": 0}
    assert honest.inference([TEXT], labels, threshold=0.0) == [after]
    assert honest.config is model.config
