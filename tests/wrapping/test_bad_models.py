"""What cannot be wrapped is refused in one line that says why, and nothing is written."""

import json
import shutil

import pytest
import transformers
from small_models import SMALL, TAGS, make_tagger, names, save, wordpiece, write_sentences

import calibrant
from calibrant.cli import main


def refused(capsys, tmp_path, model, data, task="ner", *more):
    run = tmp_path / "run"
    command = ["wrap", str(model), "--task", task, "--data", str(data), "-o", str(run)]
    assert main([*command, "--device", "cpu", "--bootstrap", "0", *more]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not run.exists()
    return error


def test_a_folder_without_a_model(corpus, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "holds no model" in refused(capsys, tmp_path, tmp_path / "empty", corpus)


def test_a_name_of_nothing(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "Cannot load the model" in refused(capsys, tmp_path, "nobody/nothing", corpus)


def test_an_encoder_without_a_head(corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", TAGS, kind="BertForMaskedLM")
    error = refused(capsys, tmp_path, model, corpus)
    assert "is not a fine-tuned classifier: its weights have no classifier." in error


def test_a_model_of_another_task(texts, corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", TAGS, kind="BertForSequenceClassification")
    assert "give --task text" in refused(capsys, tmp_path, model, corpus)
    model = make_tagger(tmp_path / "other", TAGS)
    assert "give --task ner" in refused(capsys, tmp_path, model, texts, "text")


def test_many_labels_at_once(texts, tmp_path, capsys):
    model = make_tagger(
        tmp_path / "model", ("neg", "pos"), kind="BertForSequenceClassification",
        problem_type="multi_label_classification",
    )  # fmt: skip
    error = refused(capsys, tmp_path, model, texts, "text")
    assert "does not choose one of several classes" in error
    assert "--kind multi-label" in error


def test_classes_without_names(corpus, texts, tmp_path, capsys):
    own = tuple(f"LABEL_{n}" for n in range(5))
    model = make_tagger(tmp_path / "model", own)
    error = refused(capsys, tmp_path, model, corpus)
    assert "LABEL_0, LABEL_1" in error
    assert "--labels MODEL=O" in error
    model = make_tagger(tmp_path / "texts", own[:2], kind="BertForSequenceClassification")
    error = refused(capsys, tmp_path, model, texts, "text")
    assert "The model has LABEL_0, LABEL_1; the corpus has neg, pos" in error


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("PERS=PER", "'PERS', which is not a class of the model: it has O, B-PERSON"),
        ("PERSON", "MODEL=CORPUS"),
        ("PERSON=PER", "no entity type 'LOC' of the corpus"),
        ("missing.json", "missing.json"),
    ],
)
def test_labels_that_do_not_match(labels, words, corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", ("O", "B-PERSON", "I-PERSON"))
    assert words in refused(capsys, tmp_path, model, corpus, "ner", "--labels", labels)


def test_labels_in_a_file(corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", tuple(tag.replace("PER", "HUMAN") for tag in TAGS))
    pairs = tmp_path / "labels.json"
    pairs.write_text(json.dumps({"HUMAN": 1}))
    assert "expected" in refused(capsys, tmp_path, model, corpus, "ner", "--labels", str(pairs))
    pairs.write_text(json.dumps({"HUMAN": "PER"}))
    command = ["wrap", str(model), "--task", "ner", "--data", str(corpus), "--device", "cpu"]
    options = ["--labels", str(pairs), "-o", str(tmp_path / "run"), "--bootstrap", "0"]
    assert main([*command, *options]) == 0


def test_a_corpus_without_validation_or_test_data(tagger, tmp_path, capsys):
    (tmp_path / "corpus").mkdir()
    folder = write_sentences(tmp_path / "corpus", splits=("train", "test"))
    error = refused(capsys, tmp_path, tagger, folder)
    assert "has no validation split; found: test, train." in error
    shutil.move(folder / "test.conll", folder / "dev.conll")
    assert "has no test split" in refused(capsys, tmp_path, tagger, folder)


def test_a_corpus_without_training_data_is_enough(tagger, tmp_path, capsys):
    (tmp_path / "corpus").mkdir()
    folder = write_sentences(tmp_path / "corpus", splits=("dev", "test"))
    command = ["wrap", str(tagger), "--task", "ner", "--data", str(folder), "--device", "cpu"]
    assert main([*command, "-o", str(tmp_path / "run"), "--bootstrap", "0"]) == 0


def test_sentences_longer_than_the_model_takes(corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", TAGS, max_position_embeddings=16)
    error = refused(capsys, tmp_path, model, corpus, "ner", "--max-length", "32")
    assert "takes at most 16 pieces at once, and max_length is 32" in error
    data = tmp_path / "long"
    shutil.copytree(corpus, data)
    (data / "test.conll").write_text("Anna\tB-PER\nloves\tO\n" * 30 + "\n")
    command = ["wrap", str(model), "--task", "ner", "--data", str(data), "--device", "cpu"]
    assert main([*command, "-o", str(tmp_path / "run"), "--bootstrap", "0"]) == 0
    assert len(calibrant.read(str(tmp_path / "run" / "test.parquet"))) == 60


def test_images_that_the_model_does_not_take(pets, tmp_path, capsys):
    config = transformers.ViTConfig(
        **SMALL, image_size=32, patch_size=8, **names(("dog", "cat", "owl"))
    )
    model = transformers.ViTForImageClassification(config)
    processor = transformers.ViTImageProcessor(size={"height": 24, "width": 24})
    folder = save(model, processor, tmp_path / "model")
    assert "cannot run on the images" in refused(capsys, tmp_path, folder, pets, "image")
    processor = transformers.ViTImageProcessor(size={"height": 24, "width": 32})
    save(model, processor, folder)
    assert "makes 24×32" in refused(capsys, tmp_path, folder, pets, "image")
    (folder / "preprocessor_config.json").unlink()
    assert "image processor" in refused(capsys, tmp_path, folder, pets, "image")


def test_bad_arguments_in_python(tagger):
    model = transformers.AutoModelForTokenClassification.from_pretrained(tagger)
    valid = [(["Anna", "sings"], ["B-PER", "O"])] * 20
    with pytest.raises(
        calibrant.InputError, match=r"takes a classifier of transformers, .* got str"
    ):
        calibrant.wrap("bert", wordpiece(), valid)
    with pytest.raises(calibrant.InputError, match="dev, example 1: expected a pair"):
        calibrant.wrap(model, wordpiece(), ["Anna sings"] * 20)
    with pytest.raises(calibrant.InputError, match="2 words, but 1 tags"):
        calibrant.wrap(model, wordpiece(), [(["Anna", "sings"], ["O"])] * 20)
    with pytest.raises(calibrant.InputError, match="fast tokenizer"):
        calibrant.wrap(model, None, valid)


def test_a_package_that_a_model_needs(tagger, corpus, tmp_path, capsys, monkeypatch):
    """Code of a model may import anything; what is missing is named in one line."""

    def fail(*_, **__):
        raise ModuleNotFoundError("No module named 'einops'", name="einops")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", fail)
    assert "This needs einops" in refused(capsys, tmp_path, tagger, corpus)
    monkeypatch.undo()
    monkeypatch.setattr("transformers.AutoModelForTokenClassification.from_pretrained", fail)
    assert "pip install einops" in refused(capsys, tmp_path, tagger, corpus)


def test_weights_of_another_shape(corpus, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", TAGS)
    config = json.loads((model / "config.json").read_text())
    config |= names(TAGS[:3])
    (model / "config.json").write_text(json.dumps(config))
    error = refused(capsys, tmp_path, model, corpus)
    assert "classifier.bias has the shape (5,), and (3,) was expected" in error


def test_a_file_of_weights_alone(pets, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", TAGS) / "model.safetensors"
    error = refused(capsys, tmp_path, model, pets, "image")
    assert "it is a file, and a folder with config.json is needed" in error


def test_coloured_images_for_a_model_of_grey_ones(pets, tmp_path, capsys):
    config = transformers.ViTConfig(
        **SMALL, image_size=32, patch_size=8, num_channels=1, **names(("cat", "dog", "owl"))
    )
    processor = transformers.ViTImageProcessor(
        size={"height": 32, "width": 32}, image_mean=[0.5], image_std=[0.5]
    )
    model = save(transformers.ViTForImageClassification(config), processor, tmp_path / "model")
    error = refused(capsys, tmp_path, model, pets, "image")
    assert "has images of 3 channels, and the model takes 1: give grey images" in error
