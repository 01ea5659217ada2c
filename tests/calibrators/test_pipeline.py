"""Calibrated Hugging Face pipelines, with tiny random models made here."""

import warnings

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

from calibrant import InputError, NotFittedError, Predictions
from calibrant.calibrators import (
    CALIBRATORS,
    CalibrationWarning,
    Identity,
    PositionTemperature,
    Temperature,
)
from calibrant.calibrators.pipeline import calibrated

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TEXT = "ada lovelace lived in london , near the thames ."
WORDS = ["ada", "love", "##lace", "lived", "in", "lon", "##don", ",", "near", "the", "thames", "."]
STRATEGIES = ("none", "simple", "first", "average", "max")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    vocabulary = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    tokenizer = transformers.BertTokenizerFast(str(vocabulary))
    tokenizer.model_max_length = 32
    return tokenizer


def model(kind, names, **options):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=17,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={name: k for k, name in enumerate(names)},
        **options,
    )
    built = kind(config).eval()
    built.classifier.weight.data.mul_(60)  # Confident, and not only in one class.
    return built


@pytest.fixture(scope="module")
def ner(tokenizer):
    return transformers.pipeline(
        "token-classification",
        model=model(BertForTokenClassification, NAMES),
        tokenizer=tokenizer,
        device="cpu",
    )


@pytest.fixture(scope="module")
def text(tokenizer):
    return transformers.pipeline(
        "text-classification",
        model=model(BertForSequenceClassification, ("bad", "fair", "good")),
        tokenizer=tokenizer,
        device="cpu",
    )


def fit(method, names=NAMES, n=300):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, len(names), n)
    logits = 3 * rng.normal(size=(n, len(names))) + 3 * np.eye(len(names))[labels]
    groups = {"sentence": np.arange(n) // 10, "position": np.arange(n) % 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return method.fit(Predictions.from_logits(logits, labels, label_names=names, groups=groups))


def expected_scores(pipeline, calibrator, text):
    """The calibrated logits of the model at each token of one text, without special tokens."""
    encoding = pipeline.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = pipeline.model(**encoding).logits[0].numpy()
    words = encoding.word_ids()
    kept = [i for i, word in enumerate(words) if word is not None]
    predictions = Predictions.from_logits(
        logits[kept],
        np.zeros(len(kept), int),
        groups={"position": np.array([words[i] for i in kept])},
    )
    return calibrator.transform(predictions).probabilities()


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_map_calibrates_every_token(ner, name):
    calibrator = fit(CALIBRATORS[name].calibrator())
    if calibrator.signals_:  # Means over sentences of words, which a pipeline does not have.
        with pytest.raises(InputError, match="a token-classification pipeline does not know"):
            calibrated(ner, calibrator)
        return
    got = calibrated(ner, calibrator)(TEXT, ignore_labels=[])
    expected = expected_scores(ner, calibrator, TEXT)
    assert [entity["entity"] for entity in got] == [NAMES[k] for k in expected.argmax(axis=1)]
    scores = [entity["score"] for entity in got]
    np.testing.assert_allclose(scores, expected.max(axis=1), atol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_output_has_the_pipelines_own_format(ner, strategy):
    """Identity changes nothing at all; a temperature changes scores and nothing else."""
    options = {"aggregation_strategy": strategy, "ignore_labels": []}
    plain = ner(TEXT, **options)
    same = calibrated(ner, fit(Identity()))(TEXT, **options)
    assert same == plain
    scaled = calibrated(ner, fit(Temperature()))(TEXT, **options)
    if strategy in ("none", "simple", "first"):  # The others choose the label by the scores.
        without = [{k: v for k, v in e.items() if k != "score"} for e in plain]
        assert [{k: v for k, v in e.items() if k != "score"} for e in scaled] == without
    assert {type(e["score"]) for e in scaled} == {type(e["score"]) for e in plain}
    assert any(a["score"] != b["score"] for a, b in zip(plain, scaled, strict=False))


def test_word_strategies_aggregate_calibrated_scores(ner):
    calibrator = fit(Temperature())
    expected = expected_scores(ner, calibrator, TEXT)
    words = [[0], [1, 2], [3], [4], [5, 6], [7], [8], [9], [10], [11]]
    pick = {
        "first": [expected[w[0]].max() for w in words],
        "average": [expected[w].mean(axis=0).max() for w in words],
        "max": [expected[w].max() for w in words],
    }
    for strategy, scores in pick.items():
        got = calibrated(ner, calibrator)(TEXT, aggregation_strategy=strategy, ignore_labels=[])
        spans = [(e["start"], e["end"], e["score"]) for e in got]
        starts = np.cumsum([0, *(len(w) + 1 for w in TEXT.split())])[:-1]
        for start, end, score in spans:  # Groups of words show the mean of their words.
            inside = [s for s, at in zip(scores, starts, strict=True) if start <= at < end]
            np.testing.assert_allclose(score, np.mean(inside), atol=1e-6)


def test_batches_and_long_texts(ner):
    calibrator = fit(Temperature())
    honest = calibrated(ner, calibrator)
    texts = [TEXT, "ada lived .", "london"]
    one_by_one = [honest(t, ignore_labels=[]) for t in texts]
    for batch, single in zip(
        honest(texts, batch_size=3, ignore_labels=[]), one_by_one, strict=True
    ):
        assert [e["entity"] for e in batch] == [e["entity"] for e in single]
        np.testing.assert_allclose(
            [e["score"] for e in batch], [e["score"] for e in single], atol=1e-5
        )
    long = honest(" ".join([TEXT] * 5), stride=8, aggregation_strategy="first", ignore_labels=[])
    assert long[-1]["end"] == len(" ".join([TEXT] * 5))


def test_positions_are_those_of_words_in_batches_and_long_texts(ner):
    calibrator = fit(PositionTemperature())
    calibrator.temperatures_ = np.arange(1.0, 9.0)  # A different one for every bucket.
    honest = calibrated(ner, calibrator)
    texts = ["london", TEXT, "ada lived ."]
    for text, got in zip(texts, honest(texts, batch_size=3, ignore_labels=[]), strict=True):
        expected = expected_scores(ner, calibrator, text).max(axis=1)
        np.testing.assert_allclose([e["score"] for e in got], expected, atol=1e-5)
    split = honest(TEXT.split(), is_split_into_words=True, ignore_labels=[])
    split = split[0] if isinstance(split[0], list) else split
    expected = expected_scores(ner, calibrator, TEXT).max(axis=1)
    np.testing.assert_allclose([e["score"] for e in split], expected, atol=1e-6)

    seen = []
    calibrator.transform_scores = lambda scores, kind, groups: (seen.append(groups), scores)[1]
    long = " ".join([TEXT] * 4)
    honest(long, stride=4, aggregation_strategy="first")
    assert max(groups["position"].max() for groups in seen) == len(long.split()) - 1
    assert len(seen) > 1


def test_image_classification():
    torch.manual_seed(0)
    vit = ViTForImageClassification(
        ViTConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            image_size=8,
            patch_size=4,
            num_labels=3,
        )
    ).eval()
    vit.classifier.weight.data.mul_(60)
    processor = ViTImageProcessorPil(size={"height": 8, "width": 8})
    pipeline = transformers.pipeline("image-classification", model=vit, image_processor=processor)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8))
    with torch.no_grad():
        logits = vit(**processor(image, return_tensors="pt")).logits
    calibrator = fit(Temperature(), ("bad", "fair", "good"))
    expected = sorted((logits / calibrator.temperature_).softmax(-1)[0].tolist(), reverse=True)
    got = [g["score"] for g in calibrated(pipeline, calibrator)(image)]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_original_pipeline_and_model_are_untouched(ner):
    before = ner(TEXT, ignore_labels=[])
    honest = calibrated(ner, fit(Temperature()))
    assert honest(TEXT, ignore_labels=[]) != before
    assert ner(TEXT, ignore_labels=[]) == before
    assert honest.model is ner.model
    assert not ner.model._forward_hooks
    assert isinstance(honest, transformers.TokenClassificationPipeline)


@pytest.mark.parametrize("top_k", [1, 2, None])
def test_text_classification(text, top_k):
    calibrator = fit(Temperature(), ("bad", "fair", "good"))
    encoding = text.tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        logits = text.model(**encoding).logits
    expected = (logits / calibrator.temperature_).softmax(-1)[0]
    got = calibrated(text, calibrator)(TEXT, top_k=top_k)
    assert [g["label"] for g in got] == [g["label"] for g in text(TEXT, top_k=top_k)]
    np.testing.assert_allclose(
        [g["score"] for g in got], sorted(expected.tolist(), reverse=True)[:top_k], atol=1e-6
    )


def test_half_precision_model_gives_full_precision_scores(tokenizer):
    half = model(BertForSequenceClassification, ("bad", "good")).to(torch.bfloat16)
    pipeline = transformers.pipeline("text-classification", model=half, tokenizer=tokenizer)
    calibrator = fit(Temperature(), ("bad", "good"))
    with torch.no_grad():
        logits = half(**tokenizer(TEXT, return_tensors="pt")).logits.float()
    expected = (logits / calibrator.temperature_).softmax(-1).max().item()
    assert calibrated(pipeline, calibrator)(TEXT)[0]["score"] == pytest.approx(expected, abs=1e-6)


def test_clear_errors(ner, text, tokenizer):
    with pytest.raises(NotFittedError):
        calibrated(ner, Temperature())
    for other, got in (("map.json", "the text 'map.json'"), (Temperature, "the class Temperature")):
        with pytest.raises(InputError, match=f"takes Calibrator, got {got}; .*load_calibrator"):
            calibrated(ner, other)
    with pytest.raises(InputError, match="fitted on 3 classes"):
        calibrated(ner, fit(Temperature(), ("a", "b", "c")))
    with pytest.raises(InputError, match="same names in another order"):
        calibrated(ner, fit(Temperature(), NAMES[::-1]))
    honest = calibrated(text, fit(Temperature(), ("bad", "fair", "good")))
    with pytest.raises(InputError, match="function_to_apply='sigmoid'"):
        honest(TEXT, function_to_apply="sigmoid")
    several = model(
        BertForSequenceClassification, ("a", "b"), problem_type="multi_label_classification"
    )
    with pytest.raises(InputError, match="one softmax"):
        calibrated(
            transformers.pipeline("text-classification", model=several, tokenizer=tokenizer),
            fit(Temperature(), ("a", "b")),
        )
    with pytest.raises(InputError, match="token-classification"):
        calibrated(object(), fit(Temperature()))


def test_generic_model_names_are_not_compared(tokenizer):
    unnamed = model(BertForSequenceClassification, ("LABEL_0", "LABEL_1"))
    pipeline = transformers.pipeline("text-classification", model=unnamed, tokenizer=tokenizer)
    honest = calibrated(pipeline, fit(Temperature(), ("bad", "good")))
    assert honest(TEXT)[0]["label"] in ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize(
    ("alias", "kind", "names"),
    [
        ("ner", BertForTokenClassification, NAMES),
        ("sentiment-analysis", BertForSequenceClassification, ("bad", "fair", "good")),
    ],
)
def test_a_pipeline_that_was_asked_for_by_an_alias(tokenizer, alias, kind, names):
    """The example of the docstring."""
    plain = transformers.pipeline(
        alias, model=model(kind, names), tokenizer=tokenizer, device="cpu"
    )
    random = np.random.default_rng(0)
    labels = random.integers(0, len(names), 200)
    logits = random.normal(size=(200, len(names))) + np.eye(len(names))[labels]
    fitted = Temperature().fit(Predictions.from_logits(5 * logits, labels, label_names=names))
    options = {"aggregation_strategy": "first"} if alias == "ner" else {}
    raw, made = plain(TEXT, **options), calibrated(plain, fitted)(TEXT, **options)
    assert len(made) == len(raw) > 0
    assert all(m["score"] < r["score"] for m, r in zip(made, raw, strict=True))


def test_a_pipeline_that_knows_no_name_of_its_task(tokenizer):
    plain = transformers.TextClassificationPipeline(
        model=model(BertForSequenceClassification, ("bad", "fair", "good")), tokenizer=tokenizer
    )
    assert calibrated(plain, Identity().fit(_three()))(TEXT) == plain(TEXT)


def _three():
    labels = np.arange(30) % 3
    return Predictions.from_logits(np.eye(3)[labels], labels, label_names=("bad", "fair", "good"))
