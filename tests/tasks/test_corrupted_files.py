"""Corrupted copies of files: what changes, what stays, and what is refused."""

import gzip
import io
import json
import sys

import numpy as np
import pytest

from calibrant.corruptions import corrupt_text
from calibrant.errors import InputError, MissingExtraError
from calibrant.tasks.corrupted_files import corrupt_file
from calibrant.tasks.corrupted_pictures import corrupt_pictures
from calibrant.tasks.image.pictures import load_pictures
from calibrant.tasks.ner.corpora.conll import read_conll
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences
from calibrant.tasks.ner.corpus import load_test
from calibrant.tasks.reading.records import read_records
from calibrant.tasks.segmentation.scenes import CorruptedScenes, load_scenes

CONLL = (
    "-DOCSTART- -X- O\n\nAnna NNP B-PER\nLind NNP I-PER\nlives VBZ O\nin IN O\nParis NNP B-LOC\n"
    "\n\nBoris NNP B-PER\nHolm NNP I-PER\nworks VBZ O\n"
)


@pytest.fixture
def conll(tmp_path):
    path = tmp_path / "news.conll"
    path.write_text(CONLL)
    return path


@pytest.mark.parametrize("kind", ["typos", "casing", "dropped-characters", "dropped-words"])
@pytest.mark.parametrize("text", [CONLL, CONLL.replace(" ", "\t"), CONLL.replace("\n", "\r\n")])
def test_a_corrupted_file_is_what_a_run_is_tested_on(tmp_path, kind, text):
    source, target = tmp_path / "news.conll", tmp_path / "new.conll"
    source.write_text(text, newline="")
    assert corrupt_file(source, target, kind, 5) == 2
    assert read_conll(target) == list(corrupt_sentences(read_conll(source), kind, 5))
    with target.open(newline="") as file:
        new = file.read()
    assert new.count("\r\n") == (new.count("\n") if "\r" in text else 0)
    if kind != "dropped-words":
        kept = [line.split()[1:] for line in new.splitlines()]
        assert kept == [line.split()[1:] for line in text.splitlines()]
        assert new.startswith(text[:14])


@pytest.mark.parametrize("kind", ["typos", "casing", "dropped-characters", "dropped-words"])
@pytest.mark.parametrize(
    "change",
    [
        ("lives VBZ O\n", "lives VBZ O\n# a comment inside\n"),
        ("lives VBZ O\n", "lives VBZ O\n\u200b X O\n"),  # a word of spaces
        ("Boris", "\u200b X O\n\nBoris"),  # a sentence of spaces
        ("\n", "\r\r\n"),
    ],
    ids=["comment", "word of spaces", "sentence of spaces", "crcrlf"],
)
def test_what_a_corpus_is_read_without_does_not_count(tmp_path, kind, change):
    source, target = tmp_path / "news.conll", tmp_path / "new.conll"
    source.write_text(CONLL.replace(*change), newline="")
    assert corrupt_file(source, target, kind, 5) == 2
    assert load_test(str(target)) == list(corrupt_sentences(load_test(str(source)), kind, 5))


@pytest.mark.parametrize("kind", ["typos", "casing", "dropped-words"])
def test_rows_without_words_do_not_count(tmp_path, kind):
    rows = [["Anna", " ", "sings", "songs"], [], [" "], ["Boris", "plays", "chess", "well"]]
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [json.dumps({"tokens": row, "tags": ["O"] * len(row)}) + "\n" for row in rows]
    source.write_text("".join(lines))
    assert corrupt_file(source, target, kind, 5) == 2
    assert load_test(str(target)) == list(corrupt_sentences(load_test(str(source)), kind, 5))
    new = [json.loads(line)["tokens"] for line in target.read_text().splitlines()]
    assert new[1:3] == rows[1:3]
    assert " " in new[0]


def test_an_entity_begins_with_what_is_left_of_it(tmp_path):
    source, target = tmp_path / "a.bio", tmp_path / "b.bio"
    source.write_text("a\tx\tB-PER\nb\ty\tI-PER\nc\tz\tI-PER\nd\tw\tO\n")
    seen = set()
    for seed in range(40):
        corrupt_file(source, target, "dropped-words", 5, seed=seed, overwrite=True)
        lines = target.read_text().splitlines()
        seen.add(len(lines))
        assert all(
            line.split("\t")[1] == dict(zip("abcd", "xyzw", strict=True))[line[0]] for line in lines
        )
        inside = [line.split("\t")[2] for line in lines if line[0] != "d"]
        assert inside == ["B-PER", "I-PER", "I-PER"][: len(inside)]
    assert seen >= {1, 2, 3}


def test_gzip_bytes_are_the_same_again(conll, tmp_path):
    packed = tmp_path / "news.conll.gz"
    packed.write_bytes(gzip.compress(CONLL.encode()))
    corrupt_file(conll, tmp_path / "plain.conll", "ocr", 4, seed=2)
    for name in ("a.conll.gz", "b.conll.gz"):
        corrupt_file(packed, tmp_path / name, "ocr", 4, seed=2)
    one, other = ((tmp_path / name).read_bytes() for name in ("a.conll.gz", "b.conll.gz"))
    assert one == other
    assert gzip.decompress(one) == (tmp_path / "plain.conll").read_bytes()


def test_records_keep_everything_but_the_text(tmp_path):
    rows = [{"id": 7, "text": "Wo ist  Łódź?", "label": "x"}, {"text": "", "label": "y", "n": None}]
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_text("\n\n".join(json.dumps(row) for row in rows))
    assert corrupt_file(source, target, "upper-case", 5) == 2
    new = [json.loads(line) for line in target.read_text().splitlines()]
    assert new == [{**rows[0], "text": "WO IST  ŁÓDŹ?"}, rows[1]]
    corrupt_file(source, target, "typos", 5, seed=3, overwrite=True)
    new = [json.loads(line)["text"] for line in target.read_text().splitlines()]
    texts = enumerate(row["text"] for row in rows)
    assert new == [corrupt_text(text, "typos", 5, seed=3, number=n) for n, text in texts]


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_tables(tmp_path, suffix, separator):
    text = f'label{separator}query\nx{separator}"one, ""two""\nthree"\ny{separator}four\n'
    source, target = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    source.write_text(text)
    assert corrupt_file(source, target, "upper-case", 5, column="query") == 2
    import csv

    rows = list(csv.reader(io.StringIO(target.read_text()), delimiter=separator))
    assert rows == [["label", "query"], ["x", 'ONE, "TWO"\nTHREE'], ["y", "FOUR"]]


def test_a_table_keeps_breaks_and_spaces_inside_quotes(tmp_path):
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text('text,note\n"one\rtwo"," a note"\nthree,four\n', newline="")
    corrupt_file(source, target, "upper-case", 5)
    rows = [tuple(row.values()) for _, row in read_records(target)]
    assert rows == [("ONE\rTWO", " a note"), ("THREE", "four")]


def test_words_and_tags_of_jsonl(tmp_path):
    row = {"tokens": ["Anna", "Lind", "sings"], "ner_tags": ["B-PER", "I-PER", "O"], "id": 1}
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_text(json.dumps(row) + "\n" + json.dumps({"words": ["only", "words"]}) + "\n")
    corrupt_file(source, target, "upper-case", 5)
    new = [json.loads(line) for line in target.read_text().splitlines()]
    assert new == [{**row, "tokens": ["ANNA", "LIND", "SINGS"]}, {"words": ["ONLY", "WORDS"]}]


def test_lines(tmp_path):
    (tmp_path / "a.txt").write_text("Anna sings.\n\nIt rains.")
    assert corrupt_file(tmp_path / "a.txt", tmp_path / "b.txt", "upper-case", 5) == 3
    assert (tmp_path / "b.txt").read_text() == "ANNA SINGS.\n\nIT RAINS."
    (tmp_path / "a.txt").write_text("Anna B-PER\nsings O\n")
    corrupt_file(tmp_path / "a.txt", tmp_path / "c.txt", "upper-case", 5, layout="conll")
    assert (tmp_path / "c.txt").read_text() == "ANNA B-PER\nSINGS O\n"


@pytest.mark.parametrize("name", ["a.tsv", "a.iob2", "a.bioes", "a.bmes"])
def test_tagged_words_in_files_of_any_name(tmp_path, name):
    """A .tsv file of words and tags has no column of texts."""
    (tmp_path / name).write_text("# id 1\n-DOCSTART-\tO\n\nAnna\tB-PER\nsings\tO\n")
    corrupt_file(tmp_path / name, tmp_path / "new", "upper-case", 5)
    expected = "# id 1\n-DOCSTART-\tO\n\nANNA\tB-PER\nSINGS\tO\n"
    assert (tmp_path / "new").read_text() == expected


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.conll", "word\n", {}, "a.conll, line 1: expected a word and its tag"),
        ("a.conll", "a B-X\nb E-X\n", {"kind": "dropped-words"}, "'E-X' marks an entity's end"),
        ("a.jsonl", '{"text": "a", "entities": [{"start": 0}]}', {}, "'entities' are places"),
        ("a.jsonl", '{"txt": "a"}', {}, "line 1: expected 'text', got txt"),
        ("a.jsonl", '{"text": 3}', {}, "expected a text in 'text', got 3"),
        ("a.jsonl", '{"tokens": [1], "tags": ["O"]}', {}, "list of words as text"),
        ("a.jsonl", "{", {}, "not JSON"),
        ("a.jsonl", '{"text": "\\ud800"}', {}, "line 1: it contains half of a character"),
        ("a.csv", "text\na\n", {"column": "query"}, "line 2: expected 'query', got text"),
        ("a.csv", "text,y,text\na,b,c\n", {}, "line 1: two columns are called 'text'"),
        ("a.txt", "Anna B-PER\nsings O\n\n. O\n", {}, "words with tags .* conll or lines"),
        ("a.pdf", "text", {}, "which layout"),
        ("a.txt", "text", {"layout": "cnll"}, "Did you mean 'conll'"),
        ("a.txt", "text", {"kind": "typoes"}, "Did you mean 'typos'"),
        ("a.txt", "text", {"strength": 9}, "1, 2, 3, 4 or 5, got 9"),
        ("a.txt", "text", {"seed": -1}, "whole number from 0 to"),
        ("a.txt", b"\xff\xfe\x00", {}, "not UTF-8"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    options = {"kind": "typos", "strength": 1, **options}
    with pytest.raises(InputError, match=message):
        corrupt_file(tmp_path / name, tmp_path / "out", **options)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_not_written_over_itself(conll, tmp_path):
    with pytest.raises(InputError, match="cannot overwrite itself"):
        corrupt_file(conll, conll, "typos", 1, overwrite=True)
    corrupt_file(conll, tmp_path / "b.conll", "typos", 1)
    with pytest.raises(InputError, match="exists"):
        corrupt_file(conll, tmp_path / "b.conll", "typos", 1)
    with pytest.raises(InputError, match="no file"):
        corrupt_file(tmp_path / "none.conll", tmp_path / "c.conll", "typos", 1)


# Images.


@pytest.fixture
def arrays(tmp_path):
    pytest.importorskip("torch")
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (300, 6, 5, 3), dtype=np.uint8)
    labels = np.arange(300) % 2
    path = tmp_path / "set.npz"
    np.savez_compressed(
        path, train_images=images[:20], train_labels=labels[:20], test_images=images,
        test_labels=labels, label_names=np.array(["a", "b"]),
    )  # fmt: skip
    return path


def test_an_npz_keeps_its_labels_and_other_splits(arrays, tmp_path):
    from calibrant.corruptions.image import corrupt_bytes

    seen = []
    count = corrupt_pictures(
        arrays,
        tmp_path / "new.npz",
        "gaussian-noise",
        3,
        seed=4,
        split="test",
        progress=seen.append,
    )
    assert count == sum(seen) == 300
    assert len(seen) > 1  # In parts, which give the same as the whole.
    with np.load(arrays) as old, np.load(tmp_path / "new.npz") as new:
        assert set(old) == set(new)
        for key in set(old) - {"test_images"}:
            np.testing.assert_array_equal(old[key], new[key])
        whole = corrupt_bytes(old["test_images"], "gaussian-noise", 3, seed=4)
        np.testing.assert_array_equal(new["test_images"], whole)
    assert (tmp_path / "new.npz").stat().st_size < 1.2 * arrays.stat().st_size
    assert load_pictures(str(tmp_path / "new.npz")).labels == ("a", "b")
    assert corrupt_pictures(arrays, tmp_path / "all.npz", "contrast", 1) == 320


def test_grey_arrays_of_three_dimensions(tmp_path):
    pytest.importorskip("torch")
    np.savez(tmp_path / "a.npz", test_images=np.full((2, 4, 4), 100, np.uint8))
    corrupt_pictures(tmp_path / "a.npz", tmp_path / "b.npz", "brightness", 1)
    with np.load(tmp_path / "b.npz") as new:
        np.testing.assert_array_equal(new["test_images"], np.full((2, 4, 4), 113, np.uint8))


def test_a_folder_of_images(tmp_path):
    pytest.importorskip("torch")
    pil = pytest.importorskip("PIL.Image")
    source = tmp_path / "in"
    for label, mode, size, suffix in (("a", "RGB", (6, 4), "jpg"), ("b", "L", (3, 9), "png")):
        (source / "test" / label).mkdir(parents=True)
        picture = pil.effect_noise(size, 50).convert(mode)
        picture.save(source / "test" / label / f"one.{suffix}")
    (source / "notes.txt").write_text("not an image")
    (source / ".hidden").mkdir()
    (source / ".hidden" / "x.png").write_bytes((source / "test" / "b" / "one.png").read_bytes())
    assert corrupt_pictures(source, tmp_path / "out", "pixelate", 5) == 2
    found = sorted(p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.glob("out/**/*.*"))
    assert found == ["test/a/one.png", "test/b/one.png"]
    with pil.open(tmp_path / "out/test/b/one.png") as new:
        assert (new.mode, new.size) == ("L", (3, 9))
    with pytest.raises(InputError, match="exists; name a new folder"):
        corrupt_pictures(source, tmp_path / "out", "pixelate", 5)
    for inside in (source, source / "out", tmp_path):
        with pytest.raises(InputError, match="the folder that is read"):
            corrupt_pictures(source, inside, "pixelate", 5)
    (source / "test" / "a" / "one.png").write_bytes((source / "test/b/one.png").read_bytes())
    with pytest.raises(InputError, match=r"would be called one\.png too"):
        corrupt_pictures(source, tmp_path / "new", "pixelate", 5)
    (source / "test" / "a" / "one.png").write_bytes(b"no image")
    with pytest.raises(InputError, match="is not an image that can be read"):
        corrupt_pictures(source, tmp_path / "new", "pixelate", 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_folder_of_masks_keeps_its_masks(tmp_path):
    """And is, with seed 0, what a run on it is tested on."""
    pytest.importorskip("torch")
    pil = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 2), ("test", 3)):
        for kind, shape, most in (("images", (8, 9, 3), 256), ("masks", (8, 9), 3)):
            (tmp_path / "in" / split / kind).mkdir(parents=True)
            for name in ("a", "a-b", "c", "d")[:count]:
                pixels = random.integers(0, most, shape, dtype=np.uint8)
                pil.fromarray(pixels).save(tmp_path / "in" / split / kind / f"{name}.png")
    (tmp_path / "in" / "labels.txt").write_text("sky\ntree\nroad\n")
    assert corrupt_pictures(tmp_path / "in", tmp_path / "out", "gaussian-noise", 5) == 9
    old, new = (load_scenes(str(tmp_path / name)) for name in ("in", "out"))
    assert new.labels == ("sky", "tree", "road")
    for split, scenes in old.parts.items():
        expected = CorruptedScenes(scenes, ("gaussian-noise", 5))
        for (image, mask), (its, truth) in zip(new.parts[split], expected, strict=True):
            np.testing.assert_array_equal(image, its)
            np.testing.assert_array_equal(mask, truth)


def test_images_on_lists_are_numbered_in_their_order(tmp_path):
    pytest.importorskip("torch")
    pil = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for kind, shape, most in (("images", (8, 9, 3), 256), ("masks", (8, 9), 3)):
        (tmp_path / "in" / kind).mkdir(parents=True)
        for name in "abcdefg":
            pixels = random.integers(0, most, shape, dtype=np.uint8)
            pil.fromarray(pixels).save(tmp_path / "in" / kind / f"{name}.png")
    for split, names in (("train", "abc"), ("val", "db"), ("test", "gfe")):
        (tmp_path / "in" / f"{split}.txt").write_text("\n".join(names))
    assert corrupt_pictures(tmp_path / "in", tmp_path / "out", "shot-noise", 5) == 7
    old, new = (load_scenes(str(tmp_path / name)) for name in ("in", "out"))
    expected = CorruptedScenes(old.parts["test"], ("shot-noise", 5))
    for (image, _), (its, _) in zip(new.parts["test"], expected, strict=True):
        np.testing.assert_array_equal(image, its)


def test_images_of_a_folder_are_numbered_within_their_split(tmp_path):
    pytest.importorskip("torch")
    pil = pytest.importorskip("PIL.Image")
    from calibrant.corruptions.image import corrupt_bytes

    for split in ("train", "dev", "test"):
        for label in ("a", "b"):
            (tmp_path / "in" / split / label).mkdir(parents=True)
            for number in range(3):
                path = tmp_path / "in" / split / label / f"{number}.png"
                pil.effect_noise((8, 8), 50).save(path)
    corrupt_pictures(tmp_path / "in", tmp_path / "out", "shot-noise", 2)
    old, new = (load_pictures(str(tmp_path / name)).images["test"] for name in ("in", "out"))
    np.testing.assert_array_equal(new, corrupt_bytes(old, "shot-noise", 2))


def test_without_torch_the_work_is_named(arrays, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="Corrupting images needs torch"):
        corrupt_pictures(arrays, tmp_path / "new.npz", "jpeg", 1)


@pytest.mark.parametrize("seed", [-1, 1 << 32])
def test_seeds_that_would_be_those_of_others(arrays, tmp_path, seed):
    with pytest.raises(InputError, match="A seed must be a whole number from 0 to"):
        corrupt_pictures(arrays, tmp_path / "new.npz", "shot-noise", 1, seed=seed)
    assert not (tmp_path / "new.npz").exists()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"test_images": np.zeros((2, 3, 3), np.uint8)}, {"device": "tpu9"}, "Device 'tpu9'"),
        ({"test_images": np.zeros((2, 3, 3), np.float32)}, {}, "expected bytes"),
        ({"test_images": np.zeros((2, 3), np.uint8)}, {}, "expected bytes"),
        ({"x": np.zeros(2)}, {}, "has no images"),
        ({"test_images": np.zeros((2, 3, 3), np.uint8)}, {"split": "dev"}, "of the split 'dev'"),
        ({"test_images": np.zeros((2, 3, 3), np.uint8)}, {"kind": "jpg"}, "Did you mean 'jpeg'"),
        ({"test_images": np.zeros((2, 3, 3), np.uint8)}, {"strength": 0}, "got 0"),
        (None, {}, "not a complete npz file"),
    ],
)
def test_images_that_are_refused(tmp_path, content, options, message):
    pytest.importorskip("torch")
    path = tmp_path / "a.npz"
    if content is None:
        path.write_bytes(b"no archive")
    else:
        np.savez(path, **content)
    options = {"kind": "jpeg", "strength": 1, **options}
    with pytest.raises(InputError, match=message):
        corrupt_pictures(path, tmp_path / "b.npz", **options)
    assert [found.name for found in tmp_path.iterdir()] == ["a.npz"]


def test_lines_that_end_like_tags_now_and_then_are_text(tmp_path):
    (tmp_path / "a.txt").write_text("vitamin B-12\nand vitamin C\n")
    assert corrupt_file(tmp_path / "a.txt", tmp_path / "b.txt", "upper-case", 5) == 2
    assert (tmp_path / "b.txt").read_text() == "VITAMIN B-12\nAND VITAMIN C\n"


def test_a_table_without_rows_keeps_its_header(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n")
    assert corrupt_file(tmp_path / "a.csv", tmp_path / "b.csv", "typos", 5) == 0
    assert (tmp_path / "b.csv").read_text() == "text,label\n"


def test_archives_that_cannot_be_unpacked(tmp_path):
    """Neither an encrypted member nor an unknown compression ends in a traceback."""
    pytest.importorskip("torch")
    np.savez(tmp_path / "a.npz", test_images=np.zeros((2, 8, 8), np.uint8))
    sound = (tmp_path / "a.npz").read_bytes()
    for place, value, expected in ((8, 1, "it is encrypted"), (10, 97, "not a complete npz file")):
        content = bytearray(sound)
        at = content.find(b"PK\x01\x02")
        content[at + place] = value
        content[place - 2] = value
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(InputError, match=expected):
            corrupt_pictures(tmp_path / "a.npz", tmp_path / "o.npz", "jpeg", 1)
        assert not (tmp_path / "o.npz").exists()
