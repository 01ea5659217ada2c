"""Before calibration a wrapped model gives what ``transformers.pipeline`` gives."""

import json

import numpy as np
import pytest
import torch
import transformers
from small_models import SMALL, byte_pairs, make_tagger, names, save, sentences, wordpiece

from calibrant import Predictions, load
from calibrant.tasks.image.framing import about_images
from calibrant.wrapping import wrap_run

CLASSES = ("neg", "pos", "none")


def softmax(logits):
    shifted = np.exp(np.asarray(logits, np.float64) - np.max(logits, -1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def test_words(tagger, wrapped):
    """One row per word: the pipeline's scores at the first piece of the word."""
    tokens = transformers.pipeline(
        "token-classification", model=str(tagger), ignore_labels=[], device="cpu"
    )
    found = Predictions.read(wrapped / "test.parquet")
    scores, tags = softmax(found.scores), found.label_names
    row = 0
    for words, _ in sentences(3, 40):
        text = " ".join(words)
        starts = {sum(len(w) + 1 for w in words[:n]) for n in range(len(words))}
        for token in tokens(text):
            if token["start"] in starts:
                assert tags[scores[row].argmax()] == token["entity"]
                assert scores[row].max() == pytest.approx(token["score"], abs=1e-5)
                row += 1
    assert row == len(found)


def distilbert(folder):
    tokenizer = wordpiece()
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=2, n_heads=2, hidden_dim=64,
        max_position_embeddings=64, **names(CLASSES),
    )  # fmt: skip
    return save(transformers.DistilBertForSequenceClassification(config), tokenizer, folder)


def roberta(folder):
    tokenizer = byte_pairs("RobertaTokenizerFast")
    config = transformers.RobertaConfig(
        **SMALL, vocab_size=len(tokenizer), max_position_embeddings=66, **names(CLASSES),
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return save(transformers.RobertaForSequenceClassification(config), tokenizer, folder)


def gpt2(folder):
    tokenizer = byte_pairs("GPT2TokenizerFast")
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=64, **names(CLASSES)
    )
    return save(transformers.GPT2ForSequenceClassification(config), tokenizer, folder)


@pytest.mark.parametrize("make", [distilbert, roberta, gpt2])
def test_texts(make, texts, tmp_path):
    torch.manual_seed(0)
    model = make(tmp_path / "model")
    wrap_run(str(model), "text", str(texts), tmp_path / "run", bootstrap=0, device="cpu")
    predictor = load(tmp_path / "run", "cpu")
    given = [" ".join(words) for words, _ in sentences(7, 5)] + ["Anna", "Lima ."]
    classify = transformers.pipeline("text-classification", model=str(model), device="cpu")
    scores = softmax(next(predictor.raw_predictions(given)).scores)
    for row, found in zip(scores, (classify(text, top_k=None) for text in given), strict=True):
        wanted = {one["label"]: one["score"] for one in found}
        np.testing.assert_allclose(row, [wanted[k] for k in predictor.labels], atol=1e-5)


def vit(folder):
    config = transformers.ViTConfig(
        **SMALL, image_size=32, patch_size=8, **names(("dog", "cat", "owl"))
    )
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    return save(transformers.ViTForImageClassification(config), processor, folder)


def resnet(folder, processor=None):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **names(("cat", "owl", "dog"))
    )
    processor = processor or transformers.ConvNextImageProcessor(size={"shortest_edge": 32})
    return save(transformers.ResNetForImageClassification(config), processor, folder)


def cropped(folder):
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 37}, crop_size={"height": 32, "width": 32}
    )
    return resnet(folder, processor)


def timm(folder):
    library = pytest.importorskip("timm")
    pytest.importorskip("torchvision")
    model = library.create_model("resnet10t", num_classes=3, pretrained=False)
    config = {"num_classes": 3, "label_names": ["cat", "dog", "owl"]}
    library.models.save_for_hf(model, folder, model_config=config)
    written = json.loads((folder / "config.json").read_text())
    written.get("model_args", {}).pop("num_classes", None)  # The pipeline cannot read it.
    (folder / "config.json").write_text(json.dumps(written))
    return folder


@pytest.mark.parametrize("make", [vit, resnet, cropped, timm])
def test_images(make, pets, tmp_path):
    torch.manual_seed(0)
    model = make(tmp_path / "model")
    wrap_run(str(model), "image", str(pets), tmp_path / "run", bootstrap=0, device="cpu")
    predictor = load(tmp_path / "run", "cpu")
    files = [str(path) for path in sorted(pets.rglob("[0-4].png"))]
    classify = transformers.pipeline("image-classification", model=str(model), device="cpu")
    scores = softmax(next(predictor.raw_predictions(files)).scores)
    for row, found in zip(scores, (classify(file, top_k=3) for file in files), strict=True):
        wanted = {one["label"]: one["score"] for one in found}
        np.testing.assert_allclose(row, [wanted[k] for k in predictor.labels], atol=1e-3)


def test_the_processor_is_repeated_to_the_grey_level():
    processor = transformers.ViTImageProcessor(size={"height": 24, "width": 24}, resample=3)
    about = about_images(processor, channels=3)
    assert about["framing"]["resample"] == 3
    assert (about["size"], about["mean"]) == (24, [127.5] * 3)


def test_a_tagger_of_bilou_with_other_types(corpus, tmp_path):
    """The probability of a tag of the run is the sum over the model's tags that mean it."""
    own = ["O", *(f"{p}-{kind}" for kind in ("PERSON", "GPE", "FAC", "DATE") for p in "BILU")]
    model = make_tagger(tmp_path / "model", own)
    wrap_run(
        str(model), "ner", str(corpus), tmp_path / "run", bootstrap=0, device="cpu",
        labels={"PERSON": "PER", "GPE": "LOC", "FAC": "LOC", "DATE": "O"},
    )  # fmt: skip
    found = Predictions.read(tmp_path / "run" / "test.parquet")
    assert found.label_names == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    words, _ = sentences(3, 1)[0]
    tokens = transformers.AutoTokenizer.from_pretrained(model)
    encoded = tokens(words, is_split_into_words=True, return_tensors="pt")
    network = transformers.AutoModelForTokenClassification.from_pretrained(model)
    whole = network(**encoded).logits.softmax(-1)[0].detach().numpy()
    places = [encoded.word_ids().index(word) for word in range(len(words))]
    mine = softmax(found.scores)[: len(words)]
    number = {name: n for n, name in enumerate(own)}
    begin = whole[places][:, [number["B-PERSON"], number["U-PERSON"]]].sum(1)
    np.testing.assert_allclose(mine[:, 1], begin, atol=1e-6)
    places_inside = [number[f"{p}-{kind}"] for p in "IL" for kind in ("GPE", "FAC")]
    np.testing.assert_allclose(mine[:, 4], whole[places][:, places_inside].sum(1), atol=1e-6)
    assert load(tmp_path / "run", "cpu").labels == found.label_names
