"""Texts with labels from every kind of source, and what is wrong with some."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks import open_task
from calibrant.tasks.reading.class_labels import label_names
from calibrant.tasks.text.corpus import load_texts

PETS = [("It barks.", "dog"), ("It purrs, and\nsleeps.", "cat"), ("", "dog"), ("Miau!", "cat")] * 5


def write(folder: Path, split: str, suffix: str, pairs=PETS, comma: str = ",") -> None:
    folder.mkdir(exist_ok=True)
    separator = "\t" if "tsv" in suffix else comma
    if "jsonl" in suffix:
        text = "\n".join(json.dumps({"text": t, "label": y}) for t, y in pairs)
    else:
        rows = [("text", "label"), *pairs]
        text = "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows)
    path = folder / f"{split}{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".csv.gz", ".jsonl.gz"])
def test_files(suffix: str, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, split, suffix)
    corpus = load_texts(str(tmp_path))
    assert corpus.labels == ("cat", "dog")
    for split in ("train", "dev", "test"):
        names = [corpus.labels[y] for y in corpus.classes[split]]
        assert list(zip(corpus.texts[split], names, strict=True)) == PETS
    assert corpus.notes == ("15 texts are empty.",)


def test_semicolons_separate_as_spreadsheets_write_them(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, split, ".csv", comma=";")
    corpus = load_texts(str(tmp_path))
    assert list(corpus.texts["test"]) == [text for text, _ in PETS]


def test_class_folders(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            for i in range(4):
                path = tmp_path / split / label / f"{i}.txt"
                path.write_text(f"{label} {split} {i}", encoding="utf-8")
    corpus = load_texts(str(tmp_path))
    assert len(corpus.texts["train"]) == 7
    assert corpus.texts["test"][4] == "dog test 0"
    assert corpus.notes == ("No validation split: 1 training examples taken (seed 0).",)
    whole = load_texts(str(tmp_path / "train"))  # No splits at all.
    assert [len(whole.texts[split]) for split in ("train", "dev", "test")] == [6, 1, 1]
    assert len(whole.notes) == 2
    (tmp_path / "test" / "dog" / "1.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match=r"1\.txt: not UTF-8"):
        load_texts(str(tmp_path))


def test_saved_by_the_datasets_library(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["dog", "cat"]  # The library's order of classes is not ours.
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    rows = {"sentence": [t for t, _ in PETS], "label": [names.index(y) for _, y in PETS]}
    part = datasets.Dataset.from_dict(rows, features=features)
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(tmp_path / "saved")
    corpus = load_texts(str(tmp_path / "saved"))
    found = [corpus.labels[y] for y in corpus.classes["test"]]
    assert list(zip(corpus.texts["test"], found, strict=True)) == PETS


def test_hidden_labels_of_the_datasets_library_are_no_class(tmp_path: Path) -> None:
    """GLUE writes −1 in its test splits; as an index of Python that was the last class."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )

    def part(*labels: int):
        rows = {"sentence": ["It barks."] * len(labels), "label": labels}
        return datasets.Dataset.from_dict(rows, features=features)

    datasets.disable_progress_bars()
    parts = {"train": part(*[0, 1] * 10), "test": part(-1, -1)}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "glue")
    with pytest.raises(InputError, match=r"^test, row 1: label -1 is none of the 2 classes.*save"):
        load_texts(str(tmp_path / "glue"))
    parts = {"train": part(*[0, 1] * 10), "test": part(0, 1), "ood": part(-1, 1)}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "outside")
    assert load_texts(str(tmp_path / "outside")).classes["ood"] == [IGNORED, 1]


def test_two_parts_of_one_split_of_the_datasets_library(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_dict({"text": ["a", "b"] * 9, "label": ["x", "y"] * 9})
    datasets.disable_progress_bars()
    parts = {"train": part, "dev": part, "validation": part, "test": part}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    with pytest.raises(InputError, match="two parts for one split: dev and validation"):
        load_texts(str(tmp_path / "saved"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.csv", "a good film,pos\na bad one,neg\n"),
        ("train.csv", "a good film;pos\na bad one;neg\n"),
        ("train.tsv", "a good film\tpos\na bad one\tneg\n"),
    ],
)
def test_a_table_without_a_line_of_names(name: str, text: str, tmp_path: Path) -> None:
    """The first text was taken for the names: "line 2: expected 'text', got a good film, pos"."""
    (tmp_path / name).write_text(text)
    message = r"names no column 'text' or 'label', it has 'a good film', 'pos'\. If it is data, put"
    with pytest.raises(InputError, match=message):
        load_texts(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text,label\na,b,c\n", r"train\.csv, line 2: 3 values, but the header has 2"),
        ("txt,label\na,b\n", r"train\.csv, line 2: expected 'text', got txt, label"),
        ("text,y\na,b\n", r"line 2: expected 'label', got text, y"),
        ('label,text\na,"b\nc,d\n', r"train\.csv, line 2: a quote begins a cell and is not closed"),
        (
            'text,label\na,b\n"Great" film,a\n',
            "line 3: a cell begins with a quote and does not end",
        ),
        ("text,label\na,\n", "line 2: expected a text and a label"),
        ("text,label,text\na,b,c\n", "line 1: two columns are called 'text'"),
        ("text,label\na, \n", "line 2: expected a text and a label"),
        ("text,label\n", "has no training texts"),
        ("", "has no training texts"),
    ],
)
def test_bad_csv(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_texts(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_bad_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    for line, message in (
        ('{"text": 3, "label": "a"}', "line 1: expected a text and a label, got 3"),
        ('{"text": "a", "label": null}', "got 'a' and None"),
        ("nonsense", "line 1: not JSON"),
    ):
        path.write_text(line)
        with pytest.raises(InputError, match=message):
            load_texts(str(tmp_path))
    path.write_bytes('{"text": "Größe", "label": "a"}'.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        load_texts(str(tmp_path))


def test_label_in_test_that_training_lacks(tmp_path: Path) -> None:
    write(tmp_path, "train", ".csv")
    write(tmp_path, "test", ".csv", [*PETS, ("Blub.", "fish")])
    with pytest.raises(InputError, match="test split, example 21: label 'fish' does not occur"):
        load_texts(str(tmp_path))
    write(tmp_path, "test", ".csv")
    write(tmp_path, "ood", ".csv", [("Blub.", "fish"), ("Wow", "dog")])
    assert load_texts(str(tmp_path)).classes["ood"] == [IGNORED, 1]


def test_number_labels_are_sorted_by_value(tmp_path: Path) -> None:
    assert label_names(["10", "9", "1"]) == ("1", "9", "10")
    assert label_names(["10", "9", "a"]) == ("10", "9", "a")


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="Unknown text corpus 'pets'"):
        load_texts("pets")


def test_long_texts_are_shortened_and_noted(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write(tmp_path, "train", ".csv", [("word " * 100, "a"), ("", "b"), ("word", "a")] * 4)
    task = open_task("text", str(tmp_path), max_length=16)
    ids = [example["input_ids"] for example in task.load("train")]
    cls, sep = task.tokenizer.cls_token_id, task.tokenizer.sep_token_id
    assert {len(i) for i in ids} == {2, 3, 16}
    assert all(i[0] == cls and i[-1] == sep for i in ids)
    assert any(note.endswith("texts of train shortened to 16 pieces.") for note in task.notes)


def test_counts_of_the_real_corpora(corpora: Path) -> None:
    news = load_texts("20newsgroups", corpora)
    assert len(news.texts["train"]) + len(news.texts["dev"]) == 11_314
    assert len(news.texts["test"]) == 7_532
    assert len(news.labels) == 20
    assert "empty" in news.notes[-1]
    intents = load_texts("clinc150", corpora)
    sizes = {split: len(texts) for split, texts in intents.texts.items()}
    assert sizes == {"train": 15_000, "dev": 3_000, "test": 4_500, "ood": 1_000}
    assert len(intents.labels) == 150
    assert set(intents.classes["ood"]) == {IGNORED}
    assert intents.notes == ()


def test_a_class_whose_only_text_was_taken_is_noted(tmp_path: Path) -> None:
    lost = 0
    for number in range(20):
        pairs = [(f"text {i}", "rare" if i == number else "ab"[i % 2]) for i in range(20)]
        write(tmp_path, "train", ".csv", pairs)
        found = load_texts(str(tmp_path))
        gone = found.labels.index("rare") not in found.classes["train"]
        assert any("no training example of 'rare'" in note for note in found.notes) == gone
        lost += gone
    assert lost == 4


def test_spaces_around_a_label_make_no_class(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "Purr.,cat\nWow., dog\nWow.,dog \n" * 9)
    assert load_texts(str(tmp_path)).labels == ("cat", "dog")


def test_a_folder_without_texts(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "train.csv").write_text("text,label\n")
    with pytest.raises(InputError, match=r"has no texts: expected train\.csv, .* or a folder"):
        load_texts(str(tmp_path))
