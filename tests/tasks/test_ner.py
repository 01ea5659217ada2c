"""Corpora by name: folders, the catalogue, saved data sets and the hub; and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrant.errors import InputError
from calibrant.tasks.image.pictures import find_pictures
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.synthetic import generate
from calibrant.tasks.ner.corpora import CORPORA
from calibrant.tasks.ner.corpus import (
    NerCorpus,
    find_corpus,
    given_corpus,
    label_set,
    load_corpus,
    load_test,
)
from calibrant.tasks.reading import hub
from calibrant.tasks.text.corpus import find_texts

datasets = pytest.importorskip("datasets")

# Sentences and tokens of each split, labels with O, share of O in training.
COUNTS = {
    "conll2003": ((14041, 203621), (3250, 51362), (3453, 46435), 9, 0.833),
    "ncbi-disease": ((5432, 136086), (923, 23969), (940, 24497), 3, 0.917),
    "wikiann-en": ((20000, 160394), (10000, 80536), (10000, 80326), 7, 0.507),
    "gum": ((2495, 44111), None, (1000, 18236), 23, 0.464),
    "wnut17": ((3394, 62730), (1009, 15733), (1287, 23394), 13, 0.950),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_real_corpora(name: str, corpora: Path) -> None:
    train, dev, test, labels, outside = COUNTS[name]
    corpus = load_corpus(name, corpora)
    found = {s: (len(p), sum(map(len, p))) for s, p in vars(corpus).items() if s in SPLITS}
    if dev is None:
        assert corpus.notes == ("No validation split: 250 training examples taken (seed 0).",)
        both = zip(found["train"], found["dev"], strict=True)
        assert tuple(a + b for a, b in both) == train
        assert found["dev"][0] == 250
    else:
        assert corpus.notes == ()
        assert (found["train"], found["dev"]) == (train, dev)
    assert found["test"] == test
    assert len(corpus.labels) == labels
    assert corpus.labels[0] == "O"
    tags = [
        tag for part in (corpus.train, [] if dev else corpus.dev) for s in part for tag in s.tags
    ]
    assert tags.count("O") / len(tags) == pytest.approx(outside, abs=5e-4)


SPLITS = ("train", "dev", "test")
SENTENCES = generate(30)


def write(path: Path, sentences: list[Sentence]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\n".join(map("\t".join, zip(s.words, s.tags, strict=True))) for s in sentences]
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in SPLITS:
        write(tmp_path / "news" / f"{split}.conll", SENTENCES)
    return tmp_path / "news"


def test_folder_by_path_and_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_path = load_corpus(str(folder))
    assert by_path.train == by_path.dev == by_path.test == SENTENCES
    assert load_corpus("news", folder.parent).test == SENTENCES
    monkeypatch.setenv("CALIBRANT_DATA", str(folder.parent))
    assert load_corpus("news").labels == by_path.labels
    monkeypatch.setenv("CALIBRANT_DATA", str(folder.parent / "none"))
    with pytest.raises(InputError, match=r"data directory .*none does not exist"):
        load_corpus("news")


def test_names_and_formats_of_files_may_differ(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", SENTENCES)
    write(tmp_path / "test.bio", SENTENCES)
    write(tmp_path / "ood.conll", SENTENCES[:2])
    records = [{"tokens": s.words, "tags": s.tags} for s in SENTENCES]
    (tmp_path / "validation.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = load_corpus(str(tmp_path))
    assert corpus.train == corpus.dev == corpus.test == SENTENCES
    assert corpus.ood == SENTENCES[:2]
    write(tmp_path / "valid.conll", SENTENCES)
    with pytest.raises(InputError, match=r"two files for one split: valid.conll and validation.j"):
        load_corpus(str(tmp_path))


def test_missing_validation_split_is_carved_seeded_and_noted(folder: Path) -> None:
    (folder / "dev.conll").unlink()
    one, two = load_corpus(str(folder), seed=1), load_corpus(str(folder), seed=2)
    assert one.notes == ("No validation split: 3 training examples taken (seed 1).",)
    assert (len(one.train), len(one.dev)) == (27, 3)
    assert sorted(map(repr, [*one.train, *one.dev])) == sorted(map(repr, SENTENCES))
    assert one.dev == load_corpus(str(folder), seed=1).dev
    assert one.dev != two.dev
    # Numbers by seed are part of what a recipe means.
    assert [SENTENCES.index(s) for s in one.dev] == [7, 16, 21]


def test_a_tag_that_only_the_carved_part_has_is_known(tmp_path: Path) -> None:
    plain = [Sentence((f"w{i}",), ("B-X",)) for i in range(9)]
    for place in range(10):
        train = [*plain[:place], Sentence(("rare",), ("B-RARE",)), *plain[place:]]
        write(tmp_path / "train.conll", train)
        write(tmp_path / "test.conll", plain)
        assert load_corpus(str(tmp_path)).labels == ("O", "B-RARE", "B-X")


def test_empty_sentences_are_left_out_and_noted(tmp_path: Path) -> None:
    full = {"tokens": ["Anna"], "tags": ["B-PER"]}
    for split in SPLITS:
        records = [full, {"tokens": [], "tags": []}, full]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = load_corpus(str(tmp_path))
    assert len(corpus.train) == 2
    assert corpus.notes[0] == "1 empty sentences of dev left out."


def test_label_in_test_that_training_lacks(folder: Path) -> None:
    write(folder / "test.conll", [*SENTENCES, Sentence(("in", "June"), ("O", "B-DATE"))])
    with pytest.raises(InputError) as caught:
        load_corpus(str(folder), unseen="error")
    message = str(caught.value)
    for part in (str(folder), "test split, sentence 31, word 2 ('June')", "'B-DATE'", "B-LOC"):
        assert part in message
    assert "\n" not in message
    labels = [*label_set(SENTENCES), "B-DATE"]
    assert load_corpus(str(folder), labels=labels).labels == tuple(labels)


def test_a_type_that_only_test_has_is_kept_or_dropped(folder: Path) -> None:
    write(folder / "test.conll", [*SENTENCES, Sentence(("in", "June"), ("O", "B-DATE"))])
    kept = load_corpus(str(folder))
    assert kept.labels == (*label_set(SENTENCES), "B-DATE")
    assert kept.notes == (
        "Types that training does not have cannot be found, and count as missed: DATE.",
    )
    (folder / "dev.conll").unlink()
    dropped = load_corpus(str(folder), unseen="drop")
    assert dropped.test[-1].tags == ("O", "O")
    assert dropped.labels == label_set(SENTENCES)
    assert dropped.notes[0] == "Types that training does not have became O: DATE."
    with pytest.raises(InputError, match="Unknown treatment of unseen types 'kep'"):
        load_corpus(str(folder), unseen="kep")


@pytest.mark.parametrize(
    "names",
    [
        ("eng.train", "eng.testa", "eng.testb"),
        ("en_train.conll", "en_dev.conll", "en_test.conll"),
        ("train.iob2", "valid.iob2", "test.iob2"),
        ("train.conllu", "val.conllu", "test.conllu"),
        ("train.conllup", "devel.conllup", "test.conllup"),
        ("news-train.txt", "news-validation.txt", "news-eval.txt"),
    ],
)
def test_files_as_people_call_them(names: tuple[str, ...], tmp_path: Path) -> None:
    for i, name in enumerate(names):
        write(tmp_path / name, SENTENCES[i:])
    (tmp_path / "README.md").write_text("A corpus.")
    corpus = load_corpus(str(tmp_path))
    assert [corpus.train, corpus.dev, corpus.test] == [SENTENCES[i:] for i in range(3)]


def test_loose_names_are_not_asked_where_there_are_exact_ones(folder: Path) -> None:
    (folder / "test_notes.txt").write_text("Not a corpus.")
    assert load_corpus(str(folder)).test == SENTENCES
    (folder / "train.conll").rename(folder / "a_train.conll")
    write(folder / "b_train.conll", SENTENCES)
    with pytest.raises(InputError, match=r"one split: a_train\.conll and b_train"):
        load_corpus(str(folder))


def test_files_by_split(tmp_path: Path) -> None:
    write(tmp_path / "one.annotated", SENTENCES)
    records = [{"tokens": s.words, "tags": s.tags} for s in SENTENCES]
    (tmp_path / "two.data").write_text("\n".join(map(json.dumps, records)))
    files = {"train": str(tmp_path / "one.annotated"), "test": str(tmp_path / "two.data")}
    corpus = load_corpus("mine", files=files)
    assert corpus.test == SENTENCES
    assert len(corpus.train) + len(corpus.dev) == len(SENTENCES)
    (tmp_path / "x.json").write_text("[{}]")
    with pytest.raises(InputError, match=r"x\.json: expected one record on each line"):
        load_corpus("mine", files={"train": str(tmp_path / "x.json")})
    with pytest.raises(InputError, match=r"x\.parquet is not a file of sentences"):
        load_corpus("mine", files={"train": str(tmp_path / "x.parquet")})


def test_an_empty_word_is_noted(tmp_path: Path) -> None:
    for split in SPLITS:
        (tmp_path / f"{split}.conll").write_text("Anna\tB-PER\n\tO\n")
    corpus = load_corpus(str(tmp_path))
    assert corpus.notes == ("3 words are empty; each is read as an unknown one.",)


def test_words_of_spaces_are_left_out(tmp_path: Path) -> None:
    """No splitter makes such words, so a model would see them in training alone."""
    for split in SPLITS:
        text = "New\tI-LOC\n \tI-LOC\nYork\tI-LOC\n \tO\nRiga\tI-LOC\n\n \tO\n"
        (tmp_path / f"{split}.conll").write_text(text)
    expected = [Sentence(("New", "York", "Riga"), ("B-LOC", "I-LOC", "B-LOC"))]
    corpus = load_corpus(str(tmp_path))
    assert corpus.train == corpus.dev == corpus.test == expected
    assert "9 words are spaces, which raw text has none of; left out." in corpus.notes
    assert load_test(str(tmp_path / "test.conll")) == expected
    record = {"tokens": ["Anna", "\n", "sings"], "tags": ["B-PER", "O", "O"]}  # As of spaCy.
    (tmp_path / "spacy.jsonl").write_text(json.dumps(record))
    assert load_test(str(tmp_path / "spacy.jsonl")) == [Sentence(("Anna", "sings"), ("B-PER", "O"))]
    pairs = [(record["tokens"], record["tags"])]
    given = given_corpus({"dev": pairs, "test": pairs})
    assert [s.words for s in (*given.dev, *given.test)] == [("Anna", "sings")] * 2


def test_inside_tag_that_only_test_has_is_known_by_its_type(tmp_path: Path) -> None:
    write(tmp_path / "train.conll", [Sentence(("Anna",), ("B-PER",))] * 2)
    write(tmp_path / "test.conll", [Sentence(("Anna", "Lund"), ("B-PER", "I-PER"))])
    assert load_corpus(str(tmp_path)).labels == ("O", "B-PER", "I-PER")


def test_labels_are_sorted_by_type_with_o_first() -> None:
    train = [Sentence(("a", "b", "c"), ("I-B", "B-A", "O"))]
    assert label_set(train) == ("O", "B-A", "I-B")
    assert NerCorpus("x", train, [], []).labels == ("O", "B-A", "I-B")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("conll203", "Unknown corpus 'conll203'. Did you mean 'conll2003'?"),
        ("gum", "Corpus 'gum' is not under a data directory"),
        ("no/such/folder", "There is no folder no/such/folder; on the hub, names are owner/name"),
    ],
)
def test_unknown_names(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    with pytest.raises(InputError, match=message):
        load_corpus(name)


@pytest.mark.parametrize("find", [find_corpus, find_texts, find_pictures])
def test_a_folder_with_a_similar_name_is_suggested(find, tmp_path, monkeypatch) -> None:
    (tmp_path / "my-corpus").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"works too\. Did you mean my-corpus\?"):
        find("my-corpuss")


def test_folders_without_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no train and test files: expected train\.conll"):
        load_corpus(str(tmp_path))
    write(tmp_path / "train.conll", SENTENCES)
    with pytest.raises(InputError, match="has no test split; found: train"):
        load_corpus(str(tmp_path))
    write(tmp_path / "test.conll", SENTENCES)
    write(tmp_path / "train.conll", SENTENCES[:1])
    with pytest.raises(InputError, match="1 training examples are too few to split"):
        load_corpus(str(tmp_path))


def test_embedded_corpus() -> None:
    corpus = load_corpus("synthetic")
    sizes = [len(part) for part in (corpus.train, corpus.dev, corpus.test, corpus.ood)]
    assert sizes == [1500, 400, 600, 600]
    assert len(corpus.labels) == 9
    assert corpus.notes == ()


# -- The datasets library ---------------------------------------------------------------------


def saved(text_tags: bool = False) -> datasets.DatasetDict:
    names = list(label_set(SENTENCES))
    kind = datasets.Value("string") if text_tags else datasets.ClassLabel(names=names)
    features = datasets.Features(
        {
            "id": datasets.Value("string"),
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner_tags": datasets.Sequence(kind),
        }
    )
    rows = {
        "id": [str(i) for i in range(len(SENTENCES))],
        "tokens": [list(s.words) for s in SENTENCES],
        "ner_tags": [
            list(s.tags) if text_tags else [names.index(t) for t in s.tags] for s in SENTENCES
        ],
    }
    part = datasets.Dataset.from_dict(rows, features=features)
    return datasets.DatasetDict({"train": part, "validation": part, "test": part})


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    datasets.disable_progress_bars()


@pytest.mark.parametrize("text_tags", [False, True])
def test_saved_to_disk(text_tags: bool, tmp_path: Path) -> None:
    saved(text_tags).save_to_disk(tmp_path / "saved")
    corpus = load_corpus(str(tmp_path / "saved"))
    assert corpus.train == corpus.dev == corpus.test == SENTENCES


def test_folder_of_parquet(tmp_path: Path) -> None:
    for name, part in saved().items():
        (tmp_path / "p" / "data").mkdir(parents=True, exist_ok=True)
        part.to_parquet(tmp_path / "p" / "data" / f"{name}-00000-of-00001.parquet")
    corpus = load_corpus(str(tmp_path / "p"))
    assert corpus.train == corpus.dev == corpus.test == SENTENCES


def test_saved_with_errors(tmp_path: Path) -> None:
    data = saved()
    data.remove_columns("ner_tags").save_to_disk(tmp_path / "a")
    with pytest.raises(InputError, match="expected a column 'ner_tags', found id, tokens"):
        load_corpus(str(tmp_path / "a"))
    plain = datasets.Sequence(datasets.Value("int64"))
    data.cast_column("ner_tags", plain).save_to_disk(tmp_path / "b")
    with pytest.raises(InputError, match="'ner_tags' holds numbers without names"):
        load_corpus(str(tmp_path / "b"))
    hidden = data["train"].map(lambda row: {"ner_tags": [-1] * len(row["ner_tags"])})
    datasets.DatasetDict({**data, "test": hidden}).save_to_disk(tmp_path / "hidden")
    with pytest.raises(InputError, match="test, sentence 1: label -1 is none of the"):
        load_corpus(str(tmp_path / "hidden"))
    datasets.DatasetDict({"alpha": data["train"]}).save_to_disk(tmp_path / "c")
    with pytest.raises(InputError, match="no split called train, validation or test"):
        load_corpus(str(tmp_path / "c"))
    (tmp_path / "a" / "dataset_dict.json").write_text("{")
    with pytest.raises(InputError, match="Cannot read the data set in") as caught:
        load_corpus(str(tmp_path / "a"))
    assert "\n" not in str(caught.value)


def test_hub_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object, dict[str, object]]] = []

    def load(name: str, config: object = None, **options: object) -> datasets.DatasetDict:
        asked.append((name, config, options))
        if name == "leondz/wnut_17" and "revision" not in options:
            raise RuntimeError("Dataset scripts are no longer supported, but found wnut_17.py")
        return saved()

    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(hub, "reachable", lambda _: True)
    for name in ("conll2003", "wikiann-en", "wnut17", "somebody/corpus:part"):
        assert load_corpus(name).test == SENTENCES
    parquet = {"data_dir": None, "revision": "refs/convert/parquet"}
    assert asked == [
        (CORPORA["conll2003"].hub, None, {}),
        ("unimelb-nlp/wikiann", "en", {}),
        ("leondz/wnut_17", None, {}),
        ("leondz/wnut_17", None, parquet),
        ("somebody/corpus", "part", {}),
    ]


def test_the_copy_as_parquet_has_a_folder_for_each_configuration(tmp_path: Path) -> None:
    """The layout of the hub's refs/convert/parquet, read with the same call from a folder."""
    for name, part in saved().items():
        for config in ("en", "de"):
            (tmp_path / config / name).mkdir(parents=True)
            part.to_parquet(tmp_path / config / name / "0000.parquet")
    found = datasets.load_dataset(str(tmp_path), data_dir="en")
    assert {name: len(part) for name, part in found.items()} == {
        "train": 30,
        "validation": 30,
        "test": 30,
    }


@pytest.mark.parametrize("name", ["conll2003", "somebody/nothing"])
def test_without_a_network_one_clear_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda _: False)
    before = datasets.config.HF_HUB_OFFLINE
    with pytest.raises(
        InputError, match=r"Cannot load '.*' from the hub: .*Without a network"
    ) as e:
        load_corpus(name)
    assert "\n" not in str(e.value)
    assert capfd.readouterr().err == ""
    assert before == datasets.config.HF_HUB_OFFLINE


def test_records_by_line_may_be_called_json(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.json").write_text('{"tokens": ["Anna"], "tags": ["B-PER"]}\n' * 3)
    assert len(load_corpus(str(tmp_path)).train) == 3
    (tmp_path / "train.jsonl").write_text('{"tokens": ["Anna"], "tags": ["B-PER"]}\n' * 2)
    (tmp_path / "test.jsonl").write_text('{"tokens": ["Anna"], "tags": ["B-PER"]}\n')
    assert len(load_corpus(str(tmp_path)).test) == 1
    (tmp_path / "all.json").write_text('[{"tokens": ["Anna"], "tags": ["B-PER"]}]')
    with pytest.raises(InputError, match="jq -c"):
        load_corpus("all", files={"train": str(tmp_path / "all.json")})


def test_files_that_are_not_found_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "emerging.dev.conll").write_text("Anna\tB-PER\n")
    (tmp_path / "wnut17train.conll").write_text("Anna\tB-PER\n")
    with pytest.raises(InputError, match="found: dev; name the files: --train FILE"):
        load_corpus(str(tmp_path))
