"""CoNLL files: columns, tag schemes, and what is wrong with a bad one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from calibrant.errors import InputError
from calibrant.tasks.language.sentences import Sentence, to_bio
from calibrant.tasks.ner.corpora.conll import read_conll

FOUR = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_four_columns_iob1(tmp_path: Path) -> None:
    assert read_conll(write(tmp_path / "a.conll", FOUR)) == [
        Sentence(("EU", "rejects", "German", "call"), ("B-ORG", "O", "B-MISC", "O")),
        Sentence(("Peter", "Blackburn"), ("B-PER", "I-PER")),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Anna\tB-PER\nsings\tO\n\nHi\tO\n",
        "Anna\tB-PER\nsings\tO\n\nHi\tO",  # no newline at the end
        "Anna B-PER\nsings O\n\nHi O\n",
        "Anna  B-PER \nsings   O\n\n\n\nHi O\n\n\n",
        "\n\nAnna\tB-PER\r\nsings\tO\r\n \t \r\nHi\tO\r\n",
        "Anna\tB-PER\r\r\nsings\tO\r\r\n\r\r\nHi\tO\r\r\n",  # \r\n written as text on Windows
        "1\tAnna\tB-PER\r\r\n2\tsings\tO\r\r\n\r\r\n1\tHi\tO\r\r\n",
        "\ufeffAnna\tB-PER\nsings\tO\n\nHi\tO\n",  # byte order mark
        "Anna\tNNP\tx\tB-PER\nsings\tVB\ty\tO\n-DOCSTART-\tX\tX\tO\nHi\tUH\tz\tO\n",
    ],
    ids=["tab", "end", "space", "spaces", "crlf", "crcrlf", "numbered crcrlf", "mark", "docstart"],
)
def test_layouts(text: str, tmp_path: Path) -> None:
    expected = [Sentence(("Anna", "sings"), ("B-PER", "O")), Sentence(("Hi",), ("O",))]
    assert read_conll(write(tmp_path / "a.conll", text)) == expected
    (tmp_path / "b.conll.gz").write_bytes(gzip.compress(text.encode()))
    assert read_conll(tmp_path / "b.conll.gz") == expected


def test_odd_words_stay_whole(tmp_path: Path) -> None:
    text = "New\u00a0York\tB-LOC\n\u00a0\tO\na b\tO\n\u2028\tO\n"
    assert read_conll(write(tmp_path / "a.conll", text))[0].words == (
        "New\u00a0York",
        "\u00a0",
        "a b",
        "\u2028",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Anna\tB-PER\nsings\n", "line 2: expected a word and its tag, got 'sings'"),
        ("Anna\tB-PER\n O\n", "line 2: expected a word and its tag"),
        ("Anna\tB-PER\n\tsings\tO\n", "line 2: expected a word and its tag"),
        ("Anna\tB-PER\n#sings\tPER\n", "line 2: 'PER' is not a tag"),
        ("Anna\tPER\n", "line 1: 'PER' is not a tag of IOB1, BIO or BIOES"),
        ("Anna\tB-PER\n\nsings\tX-PER\n", "line 3: 'X-PER' is not a tag"),
        ("Anna\tb-per\n", "line 1: 'b-per' is not a tag"),
        ("", "holds no sentence"),
        ("\n\n\n", "holds no sentence"),
        ("-DOCSTART- O\n\n", "holds no sentence"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.conll", text)
    with pytest.raises(InputError, match=message) as caught:
        read_conll(path)
    assert "bad.conll" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_encoding_and_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "latin.conll"
    path.write_bytes("Anna\tO\nMüller\tB-PER\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.conll, line 2: not UTF-8"):
        read_conll(path)
    path.write_bytes("Anna\tO\n".encode("utf-16"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_conll(path)
    with pytest.raises(InputError, match="There is no file"):
        read_conll(tmp_path / "none.conll")
    with pytest.raises(InputError, match="is a folder: name a file"):
        read_conll(tmp_path)


def tags(spans: list[tuple[int, str]], scheme: str) -> tuple[str, ...]:
    """The tags of (length, type) spans end to end; type "" is outside."""
    written: list[str] = []
    before = ""
    for length, kind in spans:
        if not kind:
            written += ["O"] * length
        elif scheme == "IOB1":
            written += ["B-" + kind if before == kind else "I-" + kind] + ["I-" + kind] * (
                length - 1
            )
        elif scheme == "BIO":
            written += ["B-" + kind] + ["I-" + kind] * (length - 1)
        else:
            single, last = ("S-", "E-") if scheme == "BIOES" else ("U-", "L-")
            inside = ["B-" + kind] + ["I-" + kind] * (length - 2) + [last + kind]
            written += [single + kind] if length == 1 else inside
        before = kind
    return tuple(written)


span = st.tuples(st.integers(1, 3), st.sampled_from(["", "PER", "LOC", "B-x"]))
corpus = st.lists(st.lists(span, max_size=6), max_size=5)


@given(corpus, st.sampled_from(["IOB1", "BIO", "BIOES", "BILOU"]))
def test_every_scheme_becomes_the_same_bio(sentences, scheme: str) -> None:
    def written(scheme: str) -> list[Sentence]:
        found = [tags(spans, scheme) for spans in sentences]
        return [Sentence(tuple("w" * len(t)), t) for t in found]

    assert to_bio(written(scheme)) == written("BIO")


@given(st.lists(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=6)))
def test_ill_formed_tags_mark_the_same_entities(sequences) -> None:
    """What seqeval reads from the tags as they came is what it reads from BIO."""
    sentences = [Sentence(tuple("w" * len(t)), tuple(t)) for t in sequences]
    for before, after in zip(sentences, to_bio(sentences), strict=True):
        assert get_entities(list(before.tags)) == get_entities(list(after.tags))


def test_bare_tags_and_ill_formed_bioes() -> None:
    bare = Sentence(("a", "b", "c", "d"), ("O", "B", "I", "O"))
    assert to_bio([bare]) == [bare]
    assert to_bio([Sentence(("a", "b", "c"), ("O", "I", "I"))])[0].tags == ("O", "B", "I")
    # After an end, the next entity begins, with any letter.
    odd = Sentence(tuple("abcd"), ("B-X", "E-X", "I-X", "E-X"))
    assert to_bio([odd])[0].tags == ("B-X", "I-X", "B-X", "I-X")


def test_bio_with_a_stray_inside_is_left_alone() -> None:
    stray = [Sentence(("a", "b"), ("B-X", "O")), Sentence(("c",), ("I-X",))]
    assert to_bio(stray) == stray
    assert to_bio([]) == []
    assert to_bio([Sentence((), ())]) == [Sentence((), ())]


def test_comments_are_no_words(tmp_path: Path) -> None:
    text = (
        "# id 5239d808-f300\tdomain=en\nAnna _ _ B-PER\nsings _ _ O\n\n"
        "# text = The # of it\n# text = Blood group O\n#\tO\n# mid\nsings\tO\n#a O\n"
    )
    assert read_conll(write(tmp_path / "a.conll", text)) == [
        Sentence(("Anna", "sings"), ("B-PER", "O")),
        Sentence(("#", "sings", "#a"), ("O", "O", "O")),
    ]


def test_comments_of_several_signs(tmp_path: Path) -> None:
    """KLUE explains its columns in lines of ``##``, one of which has a tab."""
    text = "## column: \\t\n## dev_00\t<Anna:PS> sings\nAnna\tB-PS\n##\tO\n"
    assert read_conll(write(tmp_path / "a.tsv", text)) == [Sentence(("Anna", "##"), ("B-PS", "O"))]


def test_conll_u_plus_names_its_columns(tmp_path: Path) -> None:
    """The tag is not the last column, and 3.5 is a word, not the number of a word."""
    head = "# global.columns = FORM LEMMA CONLL:NER EMMORPH:LEMMA\n"
    text = head + "Anna\tanna\tB-PER\tanna\n3.5\t3.5\tO\t3.5\n"
    expected = [Sentence(("Anna", "3.5"), ("B-PER", "O"))]
    assert read_conll(write(tmp_path / "a.conllup", text)) == expected
    head = "# global.columns = ID FORM MISC NER\n"
    text = head + "1-2\tx\t_\t_\n1\tAnna\t_\tB-PER\n2\t3.5\t_\tO\n"
    assert read_conll(write(tmp_path / "b.conllup", text)) == expected


def test_words_of_spaces(tmp_path: Path) -> None:
    """Corpora of syllables and of Thai have the spaces of the text as words."""
    text = "New\tNN\tB-LOC\n \tSP\tI-LOC\nYork\tNN\tI-LOC\n"
    (found,) = read_conll(write(tmp_path / "a.tsv", text))
    assert found == Sentence(("New", " ", "York"), ("B-LOC", "I-LOC", "I-LOC"))
    assert read_conll(write(tmp_path / "b.tsv", " \tO\n"))[0].words == (" ",)


def test_an_empty_word_keeps_its_tag(tmp_path: Path) -> None:
    (sentence,) = read_conll(write(tmp_path / "a.conll", "Anna\tB-PER\n\tI-PER\nsings\tO\n"))
    assert sentence == Sentence(("Anna", "", "sings"), ("B-PER", "I-PER", "O"))


def test_bmewo_and_bmes() -> None:
    words = tuple("abcde")
    expected = Sentence(words, ("B-X", "I-X", "I-X", "O", "B-Y"))
    for single in "WSU":
        given = Sentence(words, ("B-X", "M-X", "E-X", "O", f"{single}-Y"))
        assert to_bio([given]) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "# sent_id = 1\n1\tAnna\tB-PER\t-\tx\n2\tsings\tO\t-\t-\n\n# text = Hi O\n1\tHi\tO\t-\t-\n",
        "#\thttp://x [2009]\n1\tAnna\tB-PER\tO\n2\tsings\tO\tB-LOC\n\n1\tHi\tO\tO\n",  # nested tags
        "1 Anna B-PER\n2 sings O\n\n1 Hi O\n",
        "1-2\tAnnasings\t_\n1\tAnna\tB-PER\n2\tsings\tO\n2.1\tx\t_\n\n1\tHi\tO\n",
        "0\tAnna\tB-PER\n1\tsings\tO\n\n0\tHi\tO\n",
        "0\tAnna\tB-PER\n1\tsings\tO\n\n2\tHi\tO\n",
        "1\tAnna\tanna\tNOUN\tB-PER\n2\tsings\tsing\tVERB\tO\n\n1\tHi\tO\tX\tO\n",
    ],
    ids=["universal", "germeval", "spaces", "parts", "from zero", "rows", "tag last"],
)
def test_words_with_numbers_in_front(text: str, tmp_path: Path) -> None:
    expected = [Sentence(("Anna", "sings"), ("B-PER", "O")), Sentence(("Hi",), ("O",))]
    assert read_conll(write(tmp_path / "a.conll", text)) == expected


def test_words_that_are_numbers_stay_words(tmp_path: Path) -> None:
    counted = "1\tCD\tO\n2\tCD\tO\n3\tCD\tO\n\nAnna\tNNP\tB-PER\n"
    assert read_conll(write(tmp_path / "a.conll", counted))[0].words == ("1", "2", "3")
    items = "1\tCD\tO\n\n1\tCD\tO\n"
    assert read_conll(write(tmp_path / "b.conll", items))[1].words == ("1",)
    plain = "1\tO\n2\tO\n"
    assert read_conll(write(tmp_path / "c.conll", plain))[0].words == ("1", "2")


def test_tags_among_the_other_features_of_conllu_are_found(tmp_path):
    rows = [
        ("Finn", "SpaceAfter=No|name=B-PER"),
        ("Berg", "name=I-PER|SpaceAfter=No"),
        (".", "name=O"),
    ]
    lines = [
        f"{i}\t{word}\t_\tX\t_\t_\t0\troot\t_\t{misc}" for i, (word, misc) in enumerate(rows, 1)
    ]
    path = tmp_path / "dev.conllu"
    path.write_text("# sent_id = 1\n" + "\n".join(lines) + "\n\n")
    assert read_conll(path)[0].tags == ("B-PER", "I-PER", "O")
