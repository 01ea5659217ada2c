"""jsonl with tokens and tags, or with text and character spans."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tasks.language.characters import BLANK
from calibrant.tasks.language.marked_text import cut_text, ends_note, from_spans
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.words import PLAIN, split_words
from calibrant.tasks.ner.corpora.annotations import read_jsonl, read_table
from calibrant.tasks.ner.corpora.sentence_files import read_sentences
from calibrant.tasks.ner.corpus import load_corpus


def written(tmp_path: Path, *records: object) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def test_tokens_and_spans_are_the_same(tmp_path: Path) -> None:
    text = {"text": "Anna Lund sings.", "entities": [{"start": 0, "end": 9, "label": "PER"}]}
    path = written(
        tmp_path,
        {"tokens": ["Anna", "Lund", "sings", "."], "tags": ["B-PER", "I-PER", "O", "O"]},
        {"words": ["Anna", "Lund", "sings", "."], "ner_tags": ["B-PER", "E-PER", "O", "O"]},
        text,
        {"text": text["text"], "spans": [[0, 9, "PER"]]},
    )
    assert set(read_jsonl(path)) == {
        Sentence(("Anna", "Lund", "sings", "."), ("B-PER", "I-PER", "O", "O"))
    }


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "line 2: 2 words, but 1 tags"),
        ({"tokens": ["a"], "tags": ["PER"]}, "line 2: 'PER' is not a tag"),
        ({"tokens": ["a"], "tags": [3]}, "the tags are numbers; put their names into labels.txt"),
        ({"tokens": ["a"], "tags": [None]}, "line 2: expected a list of tags as text, got None"),
        ({"tokens": "abc", "tags": ["O"]}, "expected a list of words as text, got 'abc'"),
        ({"tokens": ["a"]}, "line 2: expected 'ner_tags', got tokens"),
        ({"txt": "a"}, "line 2: expected 'text', got txt"),
        ({"text": "a"}, "line 2: expected 'entities'"),
        (
            {"text": "a", "spans": [[0, 2, "X"]]},
            "0:2 .X. is not inside of the text, which has 1 ch",
        ),
        ({"text": "a  b", "spans": [[1, 3, "X"]]}, "span 1:3 .X. holds no word of the text.$"),
        ({"text": "a b", "spans": [[2, 2, "X"]]}, "no word of the text; the end is exclusive"),
        ({"text": "abc", "spans": [[0, 2, "X"], [1, 3, "Y"]]}, "0:2 .X. and 1:3 .Y. overlap"),
        ({"text": "abc", "spans": [[0, 2]]}, "expected spans with start, end and label"),
        ({"text": "abc", "spans": [{"start": 0}]}, "expected spans with start, end and label"),
        ({"text": "abc", "spans": [[0, 3, " "]]}, "expected spans with start, end and label"),
        ({"text": "abc", "spans": [{"span": [0, 3]}]}, r"and label, got \{'span': \[0, 3\]\}"),
        ([1], "line 2: expected a JSON object"),
    ],
)
def test_bad_records(record: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_jsonl(written(tmp_path, {"tokens": ["a"], "tags": ["O"]}, record))
    assert "a.jsonl" in str(caught.value)


def test_no_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [', encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: not JSON"):
        read_jsonl(path)


def test_a_span_inside_a_word_is_widened_and_counted() -> None:
    """Cut at its edges, the words would give the answer away."""
    sentence = from_spans("pre-Brexit-talks now", [(4, 10, "EVENT")])
    assert sentence.words == ("pre-Brexit-talks", "now")
    assert sentence.tags == ("B-EVENT", "O")
    assert sentence.unfit == (1, 0)
    assert from_spans("Anna now", [(0, 5, "PER")]).unfit == ()  # A blank is no part of a name.


def test_spans_that_share_a_word() -> None:
    """The first has it; the others are counted where they begin, or where they are still seen."""
    shared = from_spans("New York-London Bridge", [(0, 8, "X"), (9, 22, "X")])
    assert shared.tags == ("B-X", "I-X", "B-X")
    assert shared.unfit == (1, 0, 1)
    lost = from_spans("ab", [(0, 1, "X"), (1, 2, "Y")])
    assert (lost.tags, lost.unfit) == (("B-X",), (2,))


def test_inclusive_ends_are_noticed(tmp_path: Path) -> None:
    def folder(name: str, text: str, *spans: tuple[int, int]) -> Path:
        marks = [{"start": start, "end": end, "label": "X"} for start, end in spans]
        made = tmp_path / name
        made.mkdir()
        for split in ("train", "dev", "test"):
            line = json.dumps({"text": text, "entities": marks})
            (made / f"{split}.jsonl").write_text(f"{line}\n" * 3)
        return made

    text = "Anna Lund sings in Paris"
    short = load_corpus(str(folder("inclusive", text, (0, 8), (19, 23)))).notes
    assert short[0].startswith("18 of 18 entities end one character before the end of a word")
    assert "ends are exclusive" in short[0]
    assert load_corpus(str(folder("exclusive", text, (0, 9), (19, 24)))).notes == ()
    assert "18 of 18" not in " ".join(  # A Korean particle is written to its name.
        load_corpus(str(folder("korean", "서울은 부산과", (0, 2), (4, 6)))).notes
    )


def test_a_few_entities_that_end_early_are_no_sign() -> None:
    early = from_spans("Germans sing", [(0, 6, "X")])
    whole = from_spans("Germans sing", [(0, 7, "X")])
    assert ends_note([early] * 4) == ()
    assert ends_note([early] * 5 + [whole] * 5) == ()
    assert len(ends_note([early] * 6 + [whole] * 5)) == 1


def test_a_text_is_cut_into_sentences() -> None:
    text = "Anna sings. She lives in New York. Then she left."
    spans = [(0, 4, "PER"), (25, 39, "LOC")]
    one, two, three = cut_text(text, spans, PLAIN, sentences=True)
    assert one == Sentence(("Anna", "sings", "."), ("B-PER", "O", "O"))
    assert two.tags == (
        "O",
        "O",
        "O",
        "B-LOC",
        "I-LOC",
        "I-LOC",
    )  # It continues in the next one.
    assert two.unfit == (0, 0, 0, 1, 0, 0)
    assert set(three.tags) == {"O"}
    (whole,) = cut_text(text, spans, PLAIN, sentences=False)
    assert whole.tags.count("I-LOC") == 3
    assert whole.unfit == ()


@given(st.text(max_size=40))
def test_words_cover_all_but_space(text: str) -> None:
    words = split_words(text)
    assert "".join(word.text for word in words) == re.sub(f"[{BLANK}]", "", text)
    assert all(before.end <= after.start for before, after in pairwise(words))
    assert from_spans(text, []).words == tuple(word.text for word in words)


def test_training_cuts_words_as_prediction_does() -> None:
    text = "The U.S. firm paid J. Doe-Lund 1,000.5 dollars, didn't it?"
    sentence = from_spans(text, [(4, 8, "LOC"), (19, 30, "PER")])
    assert sentence.words == tuple(word.text for word in split_words(text))
    assert sentence.words[5:7] == ("Doe-Lund", "1,000.5")
    assert sentence.tags[1:6] == ("B-LOC", "O", "O", "B-PER", "I-PER")


PRODIGY = {
    "text": "Anna sings",
    "tokens": [
        {"text": "Anna", "start": 0, "end": 4, "id": 0, "ws": True},
        {"text": "sings", "start": 5, "end": 10, "id": 1, "ws": False},
    ],
    "spans": [{"start": 0, "end": 4, "token_start": 0, "token_end": 0, "label": "PER"}],
}
ANNA = Sentence(("Anna", "sings"), ("B-PER", "O"))


def test_prodigy_and_doccano(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {**PRODIGY, "answer": "accept"},
        {**PRODIGY, "answer": "reject"},
        {**PRODIGY, "answer": "ignore"},
        {"id": 1, "text": "Anna sings", "label": [[0, 4, "PER"]]},
        {"text": "Anna sings", "entities": [{"start_offset": 0, "end_offset": 4, "label": "PER"}]},
        {"text": "Anna sings", "entities": [{"name": "Anna", "span": [0, 4], "type": "PER"}]},
    )
    assert read_jsonl(path) == [ANNA] * 4
    empty = {"text": "", "tokens": [], "spans": [], "answer": "accept"}
    assert read_jsonl(written(tmp_path, PRODIGY, empty)) == [ANNA, Sentence((), ())]
    unmarked = {name: value for name, value in PRODIGY.items() if name != "spans"}
    plain = Sentence(("Anna", "sings"), ("O", "O"))
    assert read_jsonl(written(tmp_path, PRODIGY, unmarked)) == [ANNA, plain]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.txt", "O\nB-PER\n"),
        ("labels.json", '["O", "B-PER"]'),
        ("labels.json", '{"B-PER": 1, "O": 0}'),
        ("labels.json", '{"1": "B-PER", "0": "O"}'),
    ],
)
def test_numbers_with_names(name: str, content: str, tmp_path: Path) -> None:
    path = written(tmp_path, {"tokens": ["Anna", "sings"], "ner_tags": [1, 0]})
    (tmp_path / name).write_text(content)
    assert read_jsonl(path) == [ANNA]
    path = written(tmp_path, {"tokens": ["Anna", "sings"], "ner_tags": [2, 0]})
    with pytest.raises(InputError, match="line 1: tag 2 has no name; there are 2 names"):
        read_jsonl(path)
    (tmp_path / name).write_text("" if name.endswith("txt") else '[["O"]]')
    with pytest.raises(InputError, match=r"there are 0 names|expected a list of the names"):
        read_jsonl(path)


def test_a_table_of_words(tmp_path: Path) -> None:
    """Kaggle's NER corpus: only the first word has the number of the sentence."""
    path = tmp_path / "ner.csv"
    path.write_text(
        'Sentence #,Word,POS,Tag\nSentence: 1,Anna,NN,B-per\n,",",",",O\nSentence: 2,Lund,N,I-per\n'
    )
    assert read_table(path) == [
        Sentence(("Anna", ","), ("B-per", "O")),
        Sentence(("Lund",), ("I-per",)),
    ]
    path.write_text("Word,Tag\nAnna,B-per\n")
    with pytest.raises(InputError, match="line 2: expected 'sentence #', got word, tag"):
        read_table(path)


def test_half_of_a_character_fails_before_training(tmp_path: Path) -> None:
    """No tokenizer takes a lone surrogate."""
    path = tmp_path / "a.jsonl"
    sound = '{"tokens": ["\\ud83d\\ude00"], "tags": ["O"]}'
    path.write_text(sound + '\n{"tokens": ["\\ud800"], "tags": ["O"]}\n')
    with pytest.raises(InputError, match="line 2: it contains half of a character"):
        read_jsonl(path)
    path.write_text(sound)
    assert read_jsonl(path)[0].words == ("😀",)


def test_a_table_of_words_without_a_line_of_names(tmp_path: Path) -> None:
    """Its first word was taken for a name: "line 2: expected 'word', got mr, o"."""
    path = tmp_path / "ner.csv"
    path.write_text("Mr,O\nLind,B-PER\n")
    with pytest.raises(
        InputError, match="no column 'sentence #', 'word' or 'tag', it has 'Mr', 'O"
    ):
        read_table(path)


def test_other_tables_of_words(tmp_path: Path) -> None:
    """As simpletransformers reads them, and a file of tabs that is only called .csv."""
    expected = [Sentence(("Anna", "sings"), ("B-PER", "O")), Sentence(("Hi",), ("O",))]
    path = tmp_path / "a.csv"
    path.write_text("sentence_id,words,labels\n0,Anna,B-PER\n0,sings,O\n1,Hi,O\n")
    assert read_sentences(path) == expected
    path.write_text("\nAnna\tB-PER\nsings\tO\n\nHi\tO\n")
    assert read_sentences(path) == expected


def test_label_studio_has_a_list_of_labels(tmp_path: Path) -> None:
    record = {"text": "Anna", "label": [{"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]}]}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    assert read_jsonl(path)[0].tags == ("B-PER",)
    record["label"][0]["labels"].append("LOC")
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="start, end and label"):
        read_jsonl(path)


def test_label_studio_leaves_the_label_out_of_a_text_without_entities(tmp_path: Path) -> None:
    record = {"text": "It rains", "id": 2, "annotator": 1, "annotation_id": 2, "lead_time": 3.1}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    assert read_jsonl(path)[0].tags == ("O", "O")


def test_a_span_given_twice_counts_once_and_others_may_not_overlap(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Anna Lund", "spans": [[0, 9, "PER"], [0, 9, "PER"]]}))
    assert read_jsonl(path)[0].tags == ("B-PER", "I-PER")
    path.write_text(json.dumps({"text": "Anna Lund", "spans": [[0, 9, "PER"], [0, 4, "NAME"]]}))
    with pytest.raises(InputError, match=r"0:4 \(NAME\) and 0:9 \(PER\) overlap.*keep one"):
        read_jsonl(path)


def test_a_task_of_label_studio(tmp_path: Path) -> None:
    """A line of its JSON export (``jq -c '.[]'``), whose places count characters."""
    value = {"start": 2, "end": 5, "text": "Bob", "labels": ["PER"]}
    result = [{"type": "labels", "value": value}, {"type": "choices", "value": {}}]
    task = {"id": 1, "data": {"text": "😀 Bob"}, "annotations": [{"result": result}]}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(task))
    assert read_jsonl(path)[0].tags == ("O", "B-PER")
    path.write_text(json.dumps({**task, "annotations": []}))
    with pytest.raises(InputError, match="line 1: this task has no annotation"):
        read_jsonl(path)
